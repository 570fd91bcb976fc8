//! What a run on this machine does with its messages, harts and cores, in words for who has not seen one before (`--explain`).
//!
//! Nothing is decided here: all of it is what [`Way`], [`Machine`] and [`Cores`] have decided, and what the nodes' own code reckons with.

use pami::client::RENDEZVOUS_FROM;
use rings::segment::is_crowded;

use super::Way;
use super::addresses::Addresses;
use super::cores::Cores;
use crate::node::{ADAPTER_MTU, Machine, UDP_MTU};

/// Nodes that are told of by name.
const MOST_NAMED: usize = 8;

/// A run on this machine.
pub(super) struct Plan<'a> {
    /// How many nodes there are, and which are started here.
    pub nodes: u32,
    /// See [`nodes`](Self::nodes).
    pub here: &'a [u32],
    /// What each is.
    pub machine: &'a Machine,
    /// How they reach each other.
    pub way: Way,
    /// Where they are, if they have addresses.
    pub addresses: Option<&'a Addresses>,
}

impl Plan<'_> {
    /// All that is to be said, in lines; `cores` are this machine's.
    pub(super) fn lines(&self, cores: &Cores) -> Vec<String> {
        let lines = [
            self.processes(),
            cores.words(),
            self.bound(),
            self.between(),
            self.large(),
            self.waits(),
            self.costs(),
        ];
        lines.into_iter().map(|line| format!("  {line}")).collect()
    }

    fn processes(&self) -> String {
        let (here, harts) = (self.here.len(), usize::from(self.machine.harts));
        let elsewhere = match self.nodes as usize - here {
            0 => String::new(),
            others => format!("; {others} more are another command's"),
        };
        format!(
            "harts: {here} nodes, each a process, of {harts} harts, each a thread: {} threads on {} processors{elsewhere}",
            here * harts,
            self.machine.processors
        )
    }

    fn bound(&self) -> String {
        let harts = usize::from(self.machine.harts);
        if self.machine.cores.is_empty() {
            return "cores: threads run where the host likes, as there is no core for each (--pin LIST binds them)".into();
        }
        let node = |(rank, cores): (&u32, &[usize])| {
            let cores: Vec<_> = cores.iter().map(ToString::to_string).collect();
            format!("node {rank} to {}", cores.join(","))
        };
        let nodes = self.here.iter().zip(self.machine.cores.chunks(harts)).map(node);
        format!("cores: each thread is bound to one, {}", some(nodes))
    }

    fn between(&self) -> String {
        match self.way {
            _ if self.nodes == 1 => {
                "messages: there is one node, whose tasks talk through rings in its own memory".into()
            }
            Way::Segment => format!(
                "messages: a segment of {} MiB for each node is mapped by all at the same addresses; a sender writes into a ring \
                 of its own there, and the receiver reads it: no system call, no lock",
                self.machine.memory
            ),
            Way::Fabric(why) => format!(
                "messages: each node has a Unix socket to this command, which plays the network between them, as {why}; tasks of \
                 one node talk through rings in its own memory"
            ),
            Way::Udp => {
                let all = self.addresses.iter().flat_map(|addresses| (0..).zip(&addresses.all));
                let node = |(rank, address)| {
                    let whose = if self.here.contains(&rank) { "here" } else { "another command's" };
                    format!("node {rank} at {address} ({whose})")
                };
                format!(
                    "messages: UDP datagrams, {}; what is lost is sent again, and all arrives once and in order",
                    some(all.map(node))
                )
            }
        }
    }

    fn large(&self) -> String {
        let from = RENDEZVOUS_FROM >> 10;
        let packets = |bytes: u32| {
            format!(
                "large messages: from {from} KiB on the receiver fetches them when it has a place for them, in packets of up to \
                 {bytes} bytes, of which many are on the way at a time"
            )
        };
        match self.way {
            _ if self.nodes == 1 => packets(ADAPTER_MTU),
            Way::Segment => format!(
                "large messages: from {from} KiB on the receiver copies them out of the sender's memory, once; that is mapped here \
                 already, so process_vm_readv, a system call that wants a permission, is not needed"
            ),
            Way::Fabric(_) => packets(ADAPTER_MTU),
            Way::Udp => packets(UDP_MTU),
        }
    }

    fn waits(&self) -> String {
        let wakes = match self.way {
            _ if self.nodes == 1 => "another hart writes to it",
            Way::Segment => "the sender writes to it",
            Way::Fabric(_) | Way::Udp => "another hart writes to it, or its socket has something",
        };
        format!(
            "waits: a hart that waits polls for a short while, then sleeps without using a processor, in poll(2) on an eventfd, \
             until {wakes}"
        )
    }

    fn costs(&self) -> String {
        let harts = usize::from(self.machine.harts);
        let (all, processors) = (self.nodes as usize * harts, self.machine.processors);
        let crowded = is_crowded(self.nodes as usize, harts, processors);
        let (costs, why) = match (self.way, crowded) {
            (Way::Segment, true) => ("crowded nodes", format!("{all} harts have {processors} processors")),
            (Way::Segment, false) => {
                ("messages through memory", format!("each of {all} harts has a processor"))
            }
            (Way::Fabric(_) | Way::Udp, _) => ("a network", "nodes do not share memory".into()),
        };
        format!("collectives: their algorithms are chosen by the costs of {costs}, as {why}")
    }
}

/// The first of these, and how many are left out.
fn some(all: impl Iterator<Item = String>) -> String {
    let all: Vec<_> = all.collect();
    let named = all.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => named,
        others => format!("{named}, and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Board};

    fn machine(processors: usize, cores: &[usize]) -> Machine {
        Machine {
            emulator: "job".into(),
            setpriv: None,
            arch: Arch::Native,
            board: Board::Linux,
            image: None,
            tree: None,
            elf: None,
            harts: 2,
            topology: None,
            memory: 256,
            icount: false,
            races: false,
            processors,
            cores: cores.to_vec(),
            places: Vec::new(),
            numa: Vec::new(),
            adapter: true,
            options: Vec::new(),
        }
    }

    #[track_caller]
    fn says(plan: &Plan<'_>, parts: &[&str], never: &[&str]) {
        let said = plan.lines(&Cores::of_this_machine().expect("cores")).join("\n");
        assert_eq!(said.lines().count(), 7, "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
        never.iter().for_each(|part| assert!(!said.contains(part), "{part}: {said}"));
    }

    #[test]
    fn h2_what_goes_which_way_is_explained() {
        let (two, four) = (machine(2, &[]), machine(4, &[3, 2, 1, 0]));
        let here = [0, 1];
        let plan = |machine, way| Plan { nodes: 2, here: &here, machine, way, addresses: None };
        says(
            &plan(&two, Way::Segment),
            &[
                "4 threads on 2 processors",
                "where the host likes",
                "process_vm_readv",
                "256 MiB",
                "crowded nodes",
                "from 64 KiB",
            ],
            &["socket has", "UDP"],
        );
        says(
            &plan(&four, Way::Segment),
            &["node 0 to 3,2, node 1 to 1,0", "costs of messages through memory"],
            &["crowded", "likes"],
        );
        says(
            &plan(&two, Way::Fabric("--fabric says so")),
            &["Unix socket", "--fabric says so", "costs of a network", "socket has something"],
            &["process_vm_readv", "UDP"],
        );
        let all = ["10.9.0.1:7000", "10.9.0.2:7000"].map(|it| it.parse().expect("an address")).to_vec();
        let addresses = Addresses { all, here: vec![1] };
        says(
            &Plan { here: &[1], addresses: Some(&addresses), ..plan(&two, Way::Udp) },
            &[
                "node 0 at 10.9.0.1:7000 (another command's), node 1 at 10.9.0.2:7000 (here)",
                "2 threads on 2 processors; 1 more",
                "up to 1432 bytes",
            ],
            &["process_vm_readv", "Unix"],
        );
        says(
            &Plan { nodes: 1, here: &[0], ..plan(&two, Way::Fabric("alone")) },
            &["there is one node"],
            &["Unix"],
        );
    }
}
