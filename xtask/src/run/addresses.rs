//! Where nodes are that send each other UDP datagrams, and which of them this run starts (SPEC H-1).

use std::net::{SocketAddr, UdpSocket};

use anyhow::{Context as _, Result, anyhow, bail};

use super::cores::{list, ranges};
use super::harm::{Harm, Victim};
use super::settings::Run;

/// The addresses of all nodes.
pub struct Addresses {
    /// By rank.
    pub all: Vec<SocketAddr>,
    /// The ranks of those that this run starts, rising.
    pub here: Vec<u32>,
}

impl Addresses {
    /// Those of a run with so many nodes, if it has any.
    ///
    /// # Errors
    /// What contradicts, by name.
    pub fn of(run: &Run, nodes: u32) -> Result<Option<Self>> {
        let Some(words) = &run.udp else {
            if run.here.is_some() {
                bail!("--here says which nodes of --udp are to be started here: without --udp all are");
            }
            return Ok(None);
        };
        refuse(run)?;
        let all = read(words)?;
        if all.len() != nodes as usize {
            bail!(
                "--udp has {} addresses, and the torus {} has {nodes} nodes: one for each",
                all.len(),
                run.torus
            );
        }
        let here = match &run.here {
            Some(words) => some_of(words, nodes)?,
            None => (0..nodes).collect(),
        };
        let addresses = Self { all, here };
        for (words, harm) in &run.harm_words {
            addresses.check_harm(words, *harm)?;
        }
        addresses.here.iter().try_for_each(|&rank| addresses.try_here(rank))?;
        Ok(Some(addresses))
    }

    /// Where node `rank` is.
    pub fn of_node(&self, rank: u32) -> SocketAddr {
        self.all[rank as usize]
    }

    /// The ranks of those that other runs start.
    pub fn elsewhere(&self) -> impl Iterator<Item = u32> {
        (0..self.all.len() as u32).filter(|rank| !self.here.contains(rank))
    }

    /// All of them, as a node is told.
    pub fn words(&self) -> String {
        self.all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether node `rank` could have its address: it tries that, and gives it back.
    fn try_here(&self, rank: u32) -> Result<()> {
        let address = self.of_node(rank);
        let tried = UdpSocket::bind(address).map(|_| ());
        tried.with_context(|| {
            format!(
                "node {rank} cannot have the address {address} on this machine (--here LIST says which nodes are to be started here)"
            )
        })
    }

    fn check_harm(&self, words: &str, harm: Harm) -> Result<()> {
        if let Ok(kill) = super::harm::Kill::parse(words, harm)
            && let Victim::Node(rank) = kill.victim
            && self.elsewhere().any(|other| other == rank)
        {
            bail!("cannot {harm} {words:?}: node {rank} is not started here");
        }
        Ok(())
    }
}

/// Refuses what wants the fabric.
fn refuse(run: &Run) -> Result<()> {
    if run.board.is_emulated() {
        bail!("emulated nodes have cards of their own: --udp is for processes, as of `cargo xtask host`");
    }
    let goes = |harm: &Harm| matches!(harm, Harm::Kill | Harm::Cut);
    let others = [
        (run.by_fabric, "--fabric"),
        (run.files.is_some(), "--files"),
        (run.lossless, "--lossless"),
        (run.counts_links, "--picture"),
        (run.pcap.is_some(), "--pcap"),
        (run.faults.is_some(), "--faults"),
        (!run.links_down.is_empty(), "--link-down"),
        (run.harm_words.iter().any(|(_, harm)| goes(harm)), "--kill and --cut"),
    ];
    match others.iter().find(|(holds, _)| *holds) {
        Some((_, other)) => {
            bail!("with --udp there is no fabric between the nodes: leave it out, or {other}")
        }
        None => Ok(()),
    }
}

/// Addresses that each can be one node's.
fn read(words: &str) -> Result<Vec<SocketAddr>> {
    let mut all = Vec::<SocketAddr>::new();
    for (rank, word) in words.split(',').enumerate() {
        let wrong = |why: &str| anyhow!("--udp: {word:?} is no address for node {rank}: {why}");
        let address: SocketAddr = word
            .parse()
            .map_err(|_| wrong("write an IP address and a port, as in 10.9.0.1:7000 or [fd00::1]:7000"))?;
        if address.port() == 0 {
            return Err(wrong("others could not know which port 0 becomes: it is 1 to 65535"));
        }
        if address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(wrong("it is to be that by which others reach the node"));
        }
        if let Some(other) = all.iter().position(|other| *other == address) {
            return Err(wrong(&format!("node {other} has it already")));
        }
        if all.first().is_some_and(|first| first.is_ipv4() != address.is_ipv4()) {
            return Err(wrong("a node of IPv4 and one of IPv6 do not reach each other"));
        }
        all.push(address);
    }
    Ok(all)
}

/// The ranks of a list, of so many nodes.
fn some_of(words: &str, nodes: u32) -> Result<Vec<u32>> {
    let ranks = list(words).filter(|ranks| !ranks.is_empty());
    let mut ranks =
        ranks.with_context(|| format!("--here: {words:?} is no list of nodes: write it as in 0-3,8"))?;
    ranks.sort_unstable();
    ranks.dedup();
    match ranks.iter().find(|&&rank| rank >= nodes as usize) {
        Some(_) => bail!("--here: of {} there are only nodes 0 to {}", ranges(&ranks), nodes - 1),
        None => Ok(ranks.into_iter().map(|rank| rank as u32).collect()),
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
