//! What harts did is told at a run's end, and becomes a timeline.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tests::{count_lines, expect_clean, long};
use xtask::{Arch, KillWhen, Outcome, Run, trace};

const DEADLINE: Duration = Duration::from_secs(300);

fn npb_ft(arch: Arch) -> Run {
    Run::new("npb-ft").arch(arch).torus("2x2x2").harts(2).timeout(DEADLINE)
}

/// The timeline as a viewer reads it, and what is missing in it.
fn read(outcome: &Outcome) -> (Value, Vec<String>) {
    let mut text = Vec::new();
    let missing = trace::write(outcome, &mut text).expect("memory");
    (serde_json::from_slice(&text).expect("JSON"), missing)
}

/// A time of the file, in nanoseconds.
fn ns(value: &Value) -> u64 {
    (value.as_f64().expect("a time") * 1000.0).round() as u64
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Events of a phase, in the order of the file.
fn of<'a>(timeline: &'a Value, phase: &'a str) -> impl Iterator<Item = &'a Value> {
    let events = timeline["traceEvents"].as_array().expect("a list");
    events.iter().filter(move |event| event["ph"] == phase)
}

/// Where an event is: node and hart.
fn place(event: &Value) -> (u64, u64) {
    (number(&event["pid"]), number(&event["tid"]))
}

/// A slice: name, begin and end.
type Slice<'a> = (&'a str, u64, u64);

/// Slices of each hart. They come in order, and each is within those that it begins in.
fn slices(timeline: &Value) -> BTreeMap<(u64, u64), Vec<Slice<'_>>> {
    let mut harts = BTreeMap::<_, Vec<_>>::new();
    for slice in of(timeline, "X") {
        let (begin, length) = (ns(&slice["ts"]), ns(&slice["dur"]));
        harts.entry(place(slice)).or_default().push((
            slice["name"].as_str().expect("a name"),
            begin,
            begin + length,
        ));
    }
    for (hart, slices) in &harts {
        let (mut open, mut last) = (Vec::<u64>::new(), 0);
        for &(name, begin, end) in slices {
            assert!(begin >= last, "{name} of {hart:?} begins at {begin}, before {last}");
            last = begin;
            open.retain(|&outer| outer > begin);
            assert!(open.iter().all(|&outer| end <= outer), "{name} of {hart:?} overlaps: {begin} to {end}");
            open.push(end);
        }
    }
    harts
}

/// Messages: each has a begin and an end, neither twice, and never comes before it was sent. Returns how many there are.
fn joined(timeline: &Value) -> usize {
    let ends = |phase| {
        let mut ends = BTreeMap::new();
        for event in of(timeline, phase) {
            assert_eq!(ends.insert(number(&event["id"]), event), None, "{event}");
        }
        ends
    };
    let (sent, received) = (ends("s"), ends("f"));
    assert!(sent.keys().eq(received.keys()), "flows are left open");
    for (id, begin) in &sent {
        let end = received[id];
        assert_eq!((&begin["name"], &end["bp"]), (&end["name"], &"e".into()));
        assert!(ns(&begin["ts"]) <= ns(&end["ts"]), "{begin} {end}");
    }
    sent.len()
}

#[test]
fn x6_the_timeline_of_npb_ft_nests_joins_all_messages_and_runs_forward() {
    let archs: &[Arch] = if long() { &[Arch::Aarch64, Arch::Riscv64] } else { &[Arch::Aarch64] };
    for &arch in archs {
        let outcome = npb_ft(arch).trace(trace::EVENTS).run().unwrap();
        expect_clean(&outcome);
        assert_eq!(count_lines(&outcome, "verified"), 6, "{}", outcome.explain());
        let (timeline, missing) = read(&outcome);
        assert_eq!(missing, [""; 0]);
        let other = &timeline["otherData"];
        assert_eq!(
            (&other["job"], &other["unreceived"], &other["backwards"]),
            (&"npb-ft".into(), &0.into(), &0.into())
        );

        let harts = slices(&timeline);
        assert!(harts.keys().copied().eq((0..8).flat_map(|node| [(node, 0), (node, 1)])));
        for (&(node, hart), slices) in &harts {
            let count = |name: &str| slices.iter().filter(|slice| slice.0 == name).count();
            let task = format!("task {node}");
            assert!(count("sleep") > 0);
            let busy = [task.as_str(), "wait", "advance", "compute"].map(count);
            assert!(if hart == 0 { busy[0] == 1 && !busy.contains(&0) } else { busy == [0; 4] }, "{busy:?}");
        }

        // All messages of this job are its collectives': so many as nodes have received, and each lies in a slice at both ends.
        let messages = joined(&timeline);
        let received = |node: &xtask::run::NodeOutcome| node.end()?.number::<usize>("received");
        assert_eq!(Some(messages), outcome.nodes.iter().map(received).sum(), "{}", outcome.explain());
        for event in of(&timeline, "s").chain(of(&timeline, "f")) {
            let at = ns(&event["ts"]);
            let within = harts[&place(event)].iter().any(|&(_, begin, end)| (begin..=end).contains(&at));
            assert!(within, "{event} is in no slice");
        }

        let mut collectives = BTreeMap::<_, Vec<&Value>>::new();
        for event in of(&timeline, "b").chain(of(&timeline, "e")) {
            collectives.entry(event["id"].as_str()).or_default().push(event);
        }
        for ends in collectives.values() {
            assert!(ends.len() == 2 && ns(&ends[0]["ts"]) <= ns(&ends[1]["ts"]), "{ends:?}");
        }
        let alltoalls = of(&timeline, "b").filter(|event| event["name"] == "alltoall").count();
        // Two transposes there and back, of each of seven transforms, at every node.
        assert_eq!(alltoalls, 2 * 7 * 8);
    }
}

#[test]
fn x6_the_timeline_of_a_run_that_fails_has_what_came_and_says_what_did_not() {
    let kill = KillWhen::Line("step 3".into());
    let outcome = npb_ft(Arch::Aarch64).trace(100).kill_node_at(3, kill).go_on().run().unwrap();
    assert!(!outcome.success());
    let (timeline, missing) = read(&outcome);
    let told = |what: &str| missing.iter().any(|it| it.starts_with(what));
    assert!(told("node 3 told nothing of what its harts did: it was killed, by signal 9"), "{missing:?}");
    for node in (0..8).filter(|&node| node != 3) {
        assert!(told(&format!("hart 0 of node {node} had no room for its last ")), "{missing:?}");
    }
    slices(&timeline);
    assert!(joined(&timeline) > 0);
}

#[test]
fn x6_a_run_that_fails_has_the_ends_of_all_nodes_whatever_they_kept() {
    let kill = KillWhen::Line("step 5".into());
    // What harts did takes many seconds on this line.
    let outcome =
        npb_ft(Arch::Aarch64).trace(trace::EVENTS).baud(115_200).kill_node_at(3, kill).run().unwrap();
    assert!(!outcome.success());
    for node in (0..8).filter(|&node| node != 3) {
        assert_eq!(outcome.nodes[node].status(), Some(1), "node {node}: {}", outcome.explain());
    }
    let (timeline, _) = read(&outcome);
    slices(&timeline);
}

#[test]
fn x6_memory_that_is_too_little_for_events_names_their_number() {
    let outcome = npb_ft(Arch::Aarch64).torus("1").trace(50_000_000).run().unwrap();
    let refused = outcome.grouped();
    assert!(refused[0].contains("--memory, or --trace-events for fewer"), "{refused:?}");
}
