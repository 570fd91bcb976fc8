//! What shall go wrong in a run: faults of the network, links that go down, nodes that die (SPEC X-4).

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use pami::topology::TorusShape;

use super::harm::{Kill, KillWhen, Victim};
use super::settings::Run;
use crate::fabric::{Faults, LinkDown};

/// All that shall go wrong in a run, checked against its torus.
pub struct Plan {
    /// For the fabric.
    pub faults: Option<Faults>,
    /// For the fabric.
    pub links_down: Vec<LinkDown>,
    /// For the watch.
    pub kills: Vec<Kill>,
    /// How many I/O nodes there are.
    pub io_nodes: u32,
}

impl Plan {
    /// Reads the words a run was given.
    ///
    /// # Errors
    /// The bad word and what would be right.
    pub fn new(run: &Run, shape: TorusShape) -> Result<Self> {
        if run.lossless && (run.faults.is_some() || !run.links_down.is_empty()) {
            bail!("a torus with faults, or whose links go down, loses frames: leave out --lossless or these");
        }
        if run.plain && (run.lossless || run.counts_links || !run.links_down.is_empty()) {
            bail!(
                "a plain switch may lose frames and has no links: leave out --plain, or --lossless, --picture and --link-down"
            );
        }
        let faults = run.faults.as_deref().map(|words| {
            words.parse().map_err(|why: String| anyhow!("the faults {words:?} cannot be: {why}"))
        });
        let link_down = |words: &String| -> Result<LinkDown> {
            let down = words.parse::<LinkDown>().and_then(|down| down.check(shape).map(|()| down));
            down.map_err(|why| anyhow!("the link {words:?} cannot go down: {why}"))
        };
        let mut kills = run.kills.clone();
        for (words, harm) in &run.harm_words {
            kills.push(Kill::parse(words, *harm).map_err(|why| anyhow!("cannot {harm} {words:?}: {why}"))?);
        }
        let io_nodes = run.io_node_count(shape.nodes())?;
        for Kill { victim, harm, .. } in &kills {
            match *victim {
                Victim::Node(rank) if rank >= shape.nodes() => {
                    bail!("there is no {victim} to {harm}: the last one of {shape} is {}", shape.nodes() - 1)
                }
                Victim::IoNode(number) if number >= io_nodes => {
                    bail!("there is no {victim} to {harm}: the run has {io_nodes}")
                }
                _ => {}
            }
        }
        let links_down = run.links_down.iter().map(link_down).collect::<Result<_>>()?;
        Ok(Self { faults: faults.transpose()?, links_down, kills, io_nodes })
    }
}

/// What was asked for and did not take place in a run that lasted so long after all nodes had joined.
pub fn not_taken(kills: &[Kill], links_down: &[LinkDown], lasted: Duration) -> Vec<String> {
    let kills = kills.iter().map(|kill| {
        let why = match &kill.when {
            KillWhen::After(time) => format!("the job ended before {:.2} s", time.as_secs_f64()),
            KillWhen::Line(text) => format!("no line has {text:?}"),
        };
        format!("{} came to no harm: {why}", kill.victim)
    });
    let links = links_down.iter().filter(|down| down.from >= lasted);
    let links = links.map(|down| format!("the link {down} was never down: the job ended before"));
    kills.chain(links).collect()
}

#[cfg(test)]
mod tests {
    use super::super::harm::Harm;
    use super::*;

    #[test]
    fn x4_a_torus_that_loses_nothing_has_no_faults() {
        let shape = "2".parse().expect("a shape");
        let run = || Run::new("hello").lossless(true);
        assert!(Plan::new(&run(), shape).is_ok());
        for run in [run().faults("drop=1%"), run().link_down("0:+x@1s..2s")] {
            let why = Plan::new(&run, shape).map(|_| ()).expect_err("faults").to_string();
            assert!(why.contains("--lossless"), "{why}");
        }
    }

    #[test]
    fn x4_a_plain_switch_has_no_links_and_may_lose_frames() {
        let shape = "2".parse().expect("a shape");
        let run = || Run::new("hello").plain();
        assert!(Plan::new(&run().faults("drop=1%"), shape).is_ok());
        for run in [run().lossless(true), run().counts_links(true), run().link_down("0:+x@1s..2s")] {
            let why = Plan::new(&run, shape).map(|_| ()).expect_err("a plain switch").to_string();
            assert!(why.contains("--plain"), "{why}");
        }
    }

    #[test]
    fn x4_a_kill_or_fault_that_never_took_place_is_told() {
        let kill = Kill::new(Victim::Node(3), Harm::Kill, KillWhen::After(Duration::from_secs(20)));
        let down: LinkDown = "0:+x@5s..6s".parse().expect("a link");
        let told = not_taken(&[kill], &[down], Duration::from_secs(1));
        assert!(told[0].contains("node 3 came to no harm") && told[1].contains("0:+x"), "{told:?}");
        assert!(not_taken(&[], &[down], Duration::from_secs(10)).is_empty());
    }
}
