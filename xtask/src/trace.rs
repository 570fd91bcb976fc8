//! `--trace`: what every hart of a run did, over one time, in the Trace Event Format that Perfetto and Chrome's viewer show
//! (SPEC X-1). `docs/results.md` says what stands for what.
//!
//! A node is a process there, a hart a thread of it. Messages between two endpoints come in order, so the n-th that one sends is
//! the n-th that the other receives. Each node has a clock of its own: all are set so that all nodes join at one moment, and then
//! as much later as it takes for no message to come before it was sent.

use std::collections::{BTreeMap, HashMap};

use kernel::timeline::{Moment, Part};
use pami::collective::Collective;
use pami::trace::{CollectiveCall, Event};
use serde_json::{Value, json};

use crate::console::MAX_HARTS;
use crate::run::Outcome;

/// Events that each hart keeps, if nothing is said of it.
pub const EVENTS: u32 = 1 << 16;

/// What a hart did.
#[derive(Clone, Default)]
struct Hart {
    moments: Vec<Moment>,
    /// How many events found no room; `None` if it was not heard to the end.
    dropped: Option<u64>,
}

/// What those of a node did.
#[derive(Default)]
struct Node {
    harts: Vec<Hart>,
}

/// A time during which a hart did something, in nanoseconds of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Slice {
    name: String,
    begin: u64,
    end: u64,
    depth: usize,
}

/// When something was done, by which hart of which node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    node: usize,
    hart: usize,
    ns: u64,
}

impl Node {
    fn read(payloads: &[Vec<u8>]) -> Self {
        let mut harts = Vec::<Hart>::new();
        for part in payloads.iter().filter_map(|payload| Part::read(payload)) {
            let number = part.hart() as usize;
            if number >= usize::from(MAX_HARTS) {
                continue;
            }
            harts.resize(harts.len().max(number + 1), Hart::default());
            harts[number].dropped = part.end().map(|[_, dropped]| dropped);
            harts[number].moments.extend(part);
        }
        Self { harts }
    }

    /// Whether all was heard that its harts kept.
    fn is_whole(&self) -> bool {
        !self.harts.is_empty() && self.harts.iter().all(|hart| hart.dropped.is_some())
    }

    /// When the last event was.
    fn last_ns(&self) -> u64 {
        self.harts.iter().filter_map(|hart| Some(hart.moments.last()?.0)).max().unwrap_or(0)
    }

    /// Until when all of its harts found room.
    fn whole_ns(&self) -> u64 {
        let short = self.harts.iter().filter(|hart| hart.dropped != Some(0));
        short.map(|hart| hart.moments.last().map_or(0, |moment| moment.0)).min().unwrap_or(u64::MAX)
    }
}

/// A slice that has no end yet. Its name, and from when on nothing inside it is said of what a task's hart does.
struct Open {
    name: String,
    begin: u64,
    told: u64,
    computes: bool,
}

/// What a hart did, outer slices before those in them; `last_ns` ends what has no end.
fn slices(hart: &Hart, last_ns: u64) -> Vec<Slice> {
    let (mut open, mut slices) = (Vec::<Open>::new(), Vec::new());
    let mut close = |open: &mut Vec<Open>, ns: u64| {
        let Some(Open { name, begin, told, computes }) = open.pop() else { return };
        let depth = open.len();
        if computes && told < ns {
            slices.push(Slice { name: "compute".into(), begin: told, end: ns, depth: depth + 1 });
        }
        slices.push(Slice { name, begin, end: ns, depth });
        if let Some(outer) = open.last_mut() {
            outer.told = ns;
        }
    };
    let mut gaps = Vec::new();
    for &(ns, event, _) in &hart.moments {
        let begun = match event {
            Event::Task(task) => Some(format!("task {task}")),
            Event::Wait => Some("wait".to_owned()),
            Event::Advance => Some("advance".to_owned()),
            Event::Sleep => Some("sleep".to_owned()),
            _ => None,
        };
        if let Some(name) = begun {
            if let Some(outer) = open.last().filter(|outer| outer.computes && outer.told < ns) {
                let depth = open.len();
                gaps.push(Slice { name: "compute".into(), begin: outer.told, end: ns, depth });
            }
            let computes = matches!(event, Event::Task(_));
            open.push(Open { name, begin: ns, told: ns, computes });
            continue;
        }
        let ended = match event {
            Event::TaskEnded => "task ",
            Event::Waited => "wait",
            Event::Advanced(_) => "advance",
            Event::Slept => "sleep",
            _ => continue,
        };
        if let Some(place) = open.iter().rposition(|open| open.name.starts_with(ended)) {
            while open.len() > place {
                close(&mut open, ns);
            }
        }
    }
    while !open.is_empty() {
        close(&mut open, last_ns);
    }
    slices.append(&mut gaps);
    slices.sort_by_key(|slice| (slice.begin, slice.depth));
    slices
}

/// Messages whose send and whose reception were both heard of, and how many were sent of which that is not so.
fn messages(nodes: &[Node]) -> (Vec<[At; 2]>, usize) {
    let mut pairs = BTreeMap::<[u64; 2], [Vec<At>; 2]>::new();
    for (node, it) in nodes.iter().enumerate() {
        let whole_ns = it.whole_ns();
        for (hart, &(ns, event, at)) in
            it.harts.iter().enumerate().flat_map(|(hart, it)| it.moments.iter().map(move |it| (hart, it)))
        {
            let (pair, side) = match event {
                Event::Send(to) => ([at, to], 0),
                Event::Receive(from) => ([from, at], 1),
                _ => continue,
            };
            if ns <= whole_ns {
                pairs.entry(pair.map(|it| it.to_bits())).or_default()[side].push(At { node, hart, ns });
            }
        }
    }
    let (mut joined, mut alone) = (Vec::new(), 0);
    for [mut sent, mut received] in pairs.into_values() {
        [&mut sent, &mut received].into_iter().for_each(|side| side.sort_by_key(|at| at.ns));
        alone += sent.len().saturating_sub(received.len());
        joined.extend(sent.into_iter().zip(received).map(|(sent, received)| [sent, received]));
    }
    (joined, alone)
}

/// How much later than by its own clock what a node did was, for each node.
fn offsets(nodes: &[Node], messages: &[[At; 2]]) -> Vec<u64> {
    let joined = |node: &Node| {
        let mut moments = node.harts.iter().flat_map(|hart| &hart.moments);
        moments.find(|(_, event, _)| *event == Event::Joined).map(|moment| moment.0)
    };
    let joined: Vec<_> = nodes.iter().map(joined).collect();
    let last = joined.iter().flatten().max().copied().unwrap_or(0);
    let mut offsets: Vec<_> = joined.iter().map(|joined| last - joined.unwrap_or(last)).collect();
    // By how much the clock of each node is at least ahead of each other's.
    let mut leads = HashMap::<[usize; 2], i64>::new();
    for [sent, received] in messages.iter().filter(|[sent, received]| sent.node != received.node) {
        let lead = leads.entry([sent.node, received.node]).or_insert(i64::MIN);
        *lead = (*lead).max(sent.ns as i64 - received.ns as i64);
    }
    // Clocks that run alike are in order once each has been set behind each other; others never are.
    for _ in nodes {
        for (&[from, to], lead) in &leads {
            offsets[to] = offsets[to].max(offsets[from].saturating_add_signed(*lead));
        }
    }
    offsets
}

/// A run's timeline, and what is missing in it.
pub fn render(outcome: &Outcome) -> (String, Vec<String>) {
    let nodes: Vec<_> = outcome.nodes.iter().map(|node| Node::read(&node.timeline)).collect();
    let (events, mut other, missing) = events(&nodes);
    let Value::Object(fields) = &mut other else { return Default::default() };
    fields.insert("job".into(), outcome.asked.job.clone().into());
    let events: Vec<_> = events.iter().map(Value::to_string).collect();
    let text = format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[\n{}\n]}}\n",
        events.join(",\n")
    );
    (text, missing)
}

/// The events of the file, what else it has, and what is missing in words.
fn events(nodes: &[Node]) -> (Vec<Value>, Value, Vec<String>) {
    let (messages, alone) = messages(nodes);
    let offsets = offsets(nodes, &messages);
    let us = |at: &At| (at.ns + offsets[at.node]) as f64 / 1000.0;
    let mut events = Vec::new();
    for (rank, node) in nodes.iter().enumerate() {
        let name = json!({ "name": format!("node {rank}") });
        events.push(json!({ "ph": "M", "name": "process_name", "pid": rank, "args": name }));
        events.push(
            json!({ "ph": "M", "name": "process_sort_index", "pid": rank, "args": { "sort_index": rank } }),
        );
        for (number, hart) in node.harts.iter().enumerate() {
            let name = json!({ "name": format!("hart {number}") });
            events
                .push(json!({ "ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": name }));
            for Slice { name, begin, end, .. } in slices(hart, node.last_ns()) {
                let ts = us(&At { node: rank, hart: number, ns: begin });
                let dur = (end.saturating_sub(begin)) as f64 / 1000.0;
                events.push(json!({
                    "ph": "X", "cat": "hart", "name": name, "pid": rank, "tid": number, "ts": ts, "dur": dur,
                }));
            }
        }
        collectives(rank, node, us, &mut events);
    }
    let (mut joined, mut backwards) = (0, 0);
    for [sent, received] in &messages {
        if us(received) < us(sent) {
            backwards += 1;
            continue;
        }
        let end = |ph: &str, at: &At| {
            json!({
                "ph": ph, "cat": "message", "name": "message", "id": joined,
                "pid": at.node, "tid": at.hart, "ts": us(at),
            })
        };
        let (begin, mut end) = (end("s", sent), end("f", received));
        end["bp"] = "e".into();
        events.extend([begin, end]);
        joined += 1;
    }
    let kept = |hart: &Hart| json!({ "events": hart.moments.len(), "dropped": hart.dropped });
    let told = |node: &Node| node.harts.iter().map(kept).collect::<Vec<_>>();
    let other = json!({
        "messages": joined,
        "unreceived": alone,
        "backwards": backwards,
        "nodes": nodes.iter().zip(&offsets).map(|(node, offset)| {
            json!({ "offset_ns": offset, "harts": told(node) })
        }).collect::<Vec<_>>(),
    });
    (events, other, missing(nodes, backwards))
}

/// A node's collectives, each as a slice of its own: several may be under way at once.
fn collectives(rank: usize, node: &Node, us: impl Fn(&At) -> f64, events: &mut Vec<Value>) {
    let mut begun = HashMap::new();
    let mut closed = Vec::new();
    for (hart, it) in node.harts.iter().enumerate() {
        for &(ns, event, endpoint) in &it.moments {
            let here = At { node: rank, hart, ns };
            let key = |CollectiveCall { geometry, number, called, .. }: CollectiveCall| {
                (endpoint, geometry, number, called)
            };
            match event {
                Event::Collective(call) => drop(begun.insert(key(call), (call, here))),
                Event::CollectiveEnded(call) => {
                    closed.extend(begun.remove(&key(call)).map(|(call, from)| (call, endpoint, from, ns)));
                }
                _ => {}
            }
        }
    }
    let last_ns = node.last_ns();
    closed.extend(begun.into_iter().map(|((endpoint, ..), (call, from))| (call, endpoint, from, last_ns)));
    closed.sort_by_key(|(_, _, from, _)| from.ns);
    for (number, (call, endpoint, from, ns)) in closed.into_iter().enumerate() {
        let name = Collective::ALL.get(usize::from(call.what)).map_or("collective", |it| it.name());
        let end = |ph, at: &At| {
            json!({
                "ph": ph, "cat": "collective", "name": name, "id": format!("{rank}.{number}"),
                "pid": rank, "tid": from.hart, "ts": us(at),
                "args": { "task": endpoint.task(), "geometry": call.geometry, "number": call.number },
            })
        };
        events.extend([end("b", &from), end("e", &At { ns, ..from })]);
    }
}

/// What is missing, in words.
fn missing(nodes: &[Node], backwards: usize) -> Vec<String> {
    let mut missing = Vec::new();
    for (rank, node) in nodes.iter().enumerate() {
        if !node.is_whole() {
            let what = if node.harts.is_empty() { "nothing" } else { "not all" };
            missing.push(format!(
                "node {rank} told {what} of what its harts did: they tell when it ends by itself"
            ));
        }
        for (number, hart) in node.harts.iter().enumerate() {
            let Some(dropped) = hart.dropped.filter(|&dropped| dropped > 0) else { continue };
            let all = hart.moments.len() as u64 + dropped;
            missing.push(format!(
                "hart {number} of node {rank} had no room for its last {dropped} events: --trace-events {all} has"
            ));
        }
    }
    if backwards > 0 {
        missing.push(format!(
            "{backwards} messages have no arrow: clocks of nodes run so differently that they would go back"
        ));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::timeline::{Record, Timeline};
    use pami::Endpoint;

    fn endpoint(task: u64) -> Endpoint {
        Endpoint::from_bits(task)
    }

    /// A node whose harts did this, each with room for so many events.
    fn node(harts: &[&[(u64, Event)]], task: u64, room: usize) -> Node {
        let mut payloads = Vec::new();
        for (number, events) in (0..).zip(harts) {
            let records: Vec<Record> = (0..room).map(|_| Record::default()).collect();
            let timeline = Timeline::new(&records);
            events.iter().for_each(|&(ns, event)| timeline.note(ns, task, event));
            timeline.send(number, |payload| payloads.push(payload.to_vec()));
        }
        Node::read(&payloads)
    }

    fn of<'a>(events: &'a [Value], ph: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == ph).collect()
    }

    #[test]
    fn x1_a_harts_slices_nest_and_what_is_left_of_a_task_is_computing() {
        let events = [
            (5, Event::Task(3)),
            (10, Event::Wait),
            (12, Event::Advance),
            (15, Event::Advanced(1)),
            (16, Event::Sleep),
            (20, Event::Slept),
            (21, Event::Waited),
            (30, Event::Advance),
            (31, Event::Advanced(2)),
            (40, Event::TaskEnded),
            (41, Event::Sleep),
        ];
        let node = node(&[&events], 3, 99);
        let told: Vec<_> = slices(&node.harts[0], 50)
            .into_iter()
            .map(|it| format!("{} {} {}-{}", it.depth, it.name, it.begin, it.end))
            .collect();
        let expected = [
            "0 task 3 5-40",
            "1 compute 5-10",
            "1 wait 10-21",
            "2 advance 12-15",
            "2 sleep 16-20",
            "1 compute 21-30",
            "1 advance 30-31",
            "1 compute 31-40",
            "0 sleep 41-50",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn x1_what_is_cut_off_is_ended() {
        let node = node(&[&[(5, Event::Task(3)), (10, Event::Wait), (12, Event::Sleep)]], 3, 99);
        let told: Vec<_> = slices(&node.harts[0], 20).into_iter().map(|it| (it.begin, it.end)).collect();
        assert_eq!(told, [(5, 20), (5, 10), (10, 20), (12, 20)]);
    }

    #[test]
    fn x1_messages_are_joined_in_order_and_never_come_before_they_were_sent() {
        let [a, b] = [endpoint(0), endpoint(1)];
        // The second node's clock is 1000 behind the first's, its joining was noted 30 late; a word each way took 10.
        let first = [
            (1100, Event::Joined),
            (1200, Event::Send(b)),
            (1250, Event::Receive(b)),
            (1300, Event::Send(b)),
        ];
        let second = [(130, Event::Joined), (210, Event::Receive(a)), (240, Event::Send(a))];
        let nodes = [node(&[&first], 0, 99), node(&[&second], 1, 99)];
        let (events, other, missing) = events(&nodes);
        assert_eq!(
            (&other["messages"], &other["unreceived"], &other["backwards"]),
            (&2.into(), &1.into(), &0.into())
        );
        let (begins, ends) = (of(&events, "s"), of(&events, "f"));
        for (begin, end) in begins.iter().zip(&ends) {
            assert_eq!((&begin["id"], &end["bp"]), (&end["id"], &"e".into()));
            assert!(begin["ts"].as_f64() <= end["ts"].as_f64(), "{begin} {end}");
            assert_ne!(begin["pid"], end["pid"]);
        }
        assert_eq!((begins.len(), ends.len(), missing.len()), (2, 2, 0));
        // By their joining alone the first message would come 20 before it was sent.
        assert_eq!([0, 1].map(|node| other["nodes"][node]["offset_ns"].as_u64()), [Some(0), Some(990)]);
    }

    #[test]
    fn x1_what_found_no_room_is_told_and_no_message_behind_it_is_joined() {
        let [a, b] = [endpoint(0), endpoint(1)];
        let many = [(10, Event::Send(b)), (20, Event::Send(b)), (30, Event::Send(b)), (40, Event::Send(b))];
        // Two harts of the first node have turns with its endpoint; the second has room for two events alone.
        let nodes = [
            node(&[&[(5, Event::Send(b)), (15, Event::Send(b)), (35, Event::Send(b))], &many], 0, 2),
            node(&[&[50, 51, 52, 53, 54, 55, 56].map(|ns| (ns, Event::Receive(a)))], 1, 99),
        ];
        let (events, _, missing) = events(&nodes);
        // Heard of: sends at 5, 10, 15, 20, of which those until 15 are all that there were.
        let times: Vec<_> = of(&events, "s").iter().map(|event| event["ts"].as_f64()).collect();
        assert_eq!(times, [5, 10, 15].map(|ns| Some(f64::from(ns) / 1000.0)));
        assert_eq!(missing.len(), 2);
        assert!(
            missing[1].contains("hart 1 of node 0") && missing[1].contains("--trace-events 4"),
            "{missing:?}"
        );
    }

    #[test]
    fn x1_a_node_that_told_nothing_is_named() {
        let (_, other, missing) = events(&[node(&[&[(1, Event::Joined)]], 0, 9), Node::default()]);
        assert_eq!(missing, ["node 1 told nothing of what its harts did: they tell when it ends by itself"]);
        assert_eq!(other["nodes"][0]["harts"][0], json!({ "events": 1, "dropped": 0 }));
    }

    #[test]
    fn x1_collectives_that_overlap_have_slices_of_their_own() {
        let call =
            |number| CollectiveCall { what: Collective::Allreduce as u8, geometry: 0, number, called: false };
        let ended = |number| Event::CollectiveEnded(CollectiveCall { what: 0, ..call(number) });
        let told = [
            (1, Event::Collective(call(0))),
            (2, Event::Collective(call(1))),
            (8, ended(0)),
            (9, ended(1)),
            (10, Event::Collective(call(2))),
            (20, Event::Sleep),
        ];
        let (events, ..) = events(&[node(&[&told], 0, 99)]);
        let times =
            |ph| of(&events, ph).iter().map(|it| it["ts"].as_f64().unwrap() * 1000.0).collect::<Vec<_>>();
        assert_eq!((times("b"), times("e")), (vec![1.0, 2.0, 10.0], vec![8.0, 9.0, 20.0]));
        assert!(of(&events, "b").iter().all(|it| it["name"] == "allreduce"));
    }
}
