//! `--trace`: what every hart of a run did, over one time, in the Trace Event Format that Perfetto and Chrome's viewer show
//! (SPEC X-6). `docs/results.md` says what stands for what.
//!
//! A node is a process there, a hart a thread of it. Messages between two endpoints come in order, so the n-th that one sends is
//! the n-th that the other receives. Each node has a clock of its own: all are set so that all nodes join at one moment, and then
//! as much later as it takes for no message to come before it was sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use kernel::timeline::{Moment, TimelinePart};
use pami::Endpoint;
use pami::collective::Collective;
use pami::trace::{CollectiveCall, Event};
use serde_json::json;

use crate::console::MAX_HARTS;
use crate::node::Exit;
use crate::run::{NodeOutcome, Outcome};

/// Events that each hart keeps, if nothing is said of it.
pub const EVENTS: u32 = 1 << 16;
/// No moment is so late: this many nanoseconds are 104 days of a node.
const NEVER: u64 = 1 << 53;

/// What a hart did.
#[derive(Clone, Default)]
struct Hart {
    moments: Vec<Moment>,
    /// How many events found no room, at most; `None` if it was not heard to the end.
    dropped: Option<u64>,
}

/// What those of a node did, and how it ended, if that is known.
#[derive(Default)]
struct Node {
    harts: Vec<Hart>,
    exit: Option<Exit>,
}

/// A time during which a hart did something, in nanoseconds of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Slice {
    name: Cow<'static, str>,
    begin: u64,
    end: u64,
    depth: usize,
    /// Its end was not heard of.
    cut: bool,
}

/// When something was done, by which hart of which node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    node: usize,
    hart: usize,
    ns: u64,
}

impl Hart {
    /// Takes a part that comes next. What is behind a gap is left out: what ended there is not known.
    fn take(&mut self, part: TimelinePart<'_>) {
        if part.before() != self.moments.len() as u64 {
            return;
        }
        if let Some(end) = part.end() {
            self.dropped = Some(end.dropped);
            return;
        }
        for moment in part {
            if !(self.last_ns()..NEVER).contains(&moment.0) {
                return;
            }
            self.moments.push(moment);
        }
    }

    /// Whether all was heard that it did.
    fn is_whole(&self) -> bool {
        self.dropped == Some(0)
    }

    /// When its last event was.
    fn last_ns(&self) -> u64 {
        self.moments.last().map_or(0, |moment| moment.0)
    }
}

impl Node {
    fn read(payloads: &[Vec<u8>]) -> Self {
        let mut harts = Vec::<Hart>::new();
        for part in payloads.iter().filter_map(|payload| TimelinePart::read(payload)) {
            let most = u64::from(MAX_HARTS);
            if part.hart() >= most {
                continue;
            }
            let number = part.hart() as usize;
            // Those of which nothing comes are not whole either.
            let count = part.end().map_or(0, |end| end.harts.min(most)) as usize;
            harts.resize(harts.len().max(number + 1).max(count), Hart::default());
            harts[number].take(part);
        }
        Self { harts, exit: None }
    }

    /// When the last event was.
    fn last_ns(&self) -> u64 {
        self.harts.iter().map(Hart::last_ns).max().unwrap_or(0)
    }

    /// Until when all was heard that its harts did, if not to the end.
    fn whole_ns(&self) -> Option<u64> {
        self.harts.iter().filter(|hart| !hart.is_whole()).map(Hart::last_ns).min()
    }

    /// When its harts joined the others'.
    fn joined_ns(&self) -> Option<u64> {
        let mut moments = self.harts.iter().flat_map(|hart| &hart.moments);
        moments.find(|(_, event, _)| *event == Event::Joined).map(|moment| moment.0)
    }

    /// Its events, each with its hart: not those of two in order.
    fn moments(&self) -> impl Iterator<Item = (usize, Moment)> {
        self.harts.iter().enumerate().flat_map(|(hart, it)| it.moments.iter().map(move |&it| (hart, it)))
    }
}

/// A slice that has no end yet. Its name, and from when on nothing inside it is said of what a task's hart does.
struct Open {
    name: Cow<'static, str>,
    begin: u64,
    told: u64,
    computes: bool,
}

/// What a hart did, outer slices before those in them. What has no end ends at `last_ns`, or with the hart's last event if there
/// were more.
fn slices(hart: &Hart, last_ns: u64) -> Vec<Slice> {
    let (mut open, mut slices) = (Vec::<Open>::new(), Vec::new());
    let mut close = |open: &mut Vec<Open>, end: u64, cut: bool| {
        let Some(Open { name, begin, told, computes }) = open.pop() else { return };
        let depth = open.len();
        if computes && told < end {
            slices.push(Slice { name: "compute".into(), begin: told, end, depth: depth + 1, cut });
        }
        slices.push(Slice { name, begin, end, depth, cut });
        if let Some(outer) = open.last_mut() {
            outer.told = end;
        }
    };
    let mut gaps = Vec::new();
    for &(ns, event, _) in &hart.moments {
        let begun = match event {
            Event::Task(task) => Some(format!("task {task}").into()),
            Event::Wait => Some("wait".into()),
            Event::Advance => Some("advance".into()),
            Event::Sleep => Some("sleep".into()),
            _ => None,
        };
        if let Some(name) = begun {
            if let Some(outer) = open.last().filter(|outer| outer.computes && outer.told < ns) {
                let (begin, depth) = (outer.told, open.len());
                gaps.push(Slice { name: "compute".into(), begin, end: ns, depth, cut: false });
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
                close(&mut open, ns, false);
            }
        }
    }
    let (last_ns, cut) = if hart.is_whole() { (last_ns, false) } else { (hart.last_ns(), true) };
    while !open.is_empty() {
        close(&mut open, last_ns, cut);
    }
    slices.append(&mut gaps);
    slices.sort_by_key(|slice| (slice.begin, slice.depth));
    slices
}

/// Messages whose send and whose reception were both heard of, and how many were sent of which that is not so.
fn messages(nodes: &[Node]) -> (Vec<[At; 2]>, usize) {
    let mut pairs = BTreeMap::<[u64; 2], [Vec<At>; 2]>::new();
    for (node, it) in nodes.iter().enumerate() {
        let whole_ns = it.whole_ns().unwrap_or(u64::MAX);
        for (hart, (ns, event, at)) in it.moments() {
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

/// A collective of an endpoint.
struct Collected {
    call: CollectiveCall,
    endpoint: Endpoint,
    begin: At,
    end_ns: u64,
    /// Its end was not heard of.
    cut: bool,
}

/// A node's collectives, in the order of their begins. Any hart of a task may advance what another has begun.
fn collectives(rank: usize, node: &Node) -> Vec<Collected> {
    let ends = |event| matches!(event, Event::Collective(_) | Event::CollectiveEnded(_));
    let mut told: Vec<_> = node.moments().filter(|&(_, (_, event, _))| ends(event)).collect();
    told.sort_by_key(|(_, (ns, ..))| *ns);
    let (whole_ns, last_ns) = (node.whole_ns(), node.last_ns());
    let lost = |(call, endpoint, begin): (_, _, At), next_ns: u64| {
        let end_ns = whole_ns.unwrap_or(last_ns).min(next_ns).max(begin.ns);
        Collected { call, endpoint, begin, end_ns, cut: whole_ns.is_some() }
    };
    let (mut begun, mut all) = (BTreeMap::new(), Vec::new());
    for (hart, (ns, event, endpoint)) in told {
        let key = |call: CollectiveCall| (endpoint.to_bits(), call.geometry, call.number, call.called);
        match event {
            Event::Collective(call) => {
                let before = begun.insert(key(call), (call, endpoint, At { node: rank, hart, ns }));
                all.extend(before.map(|before| lost(before, ns)));
            }
            Event::CollectiveEnded(call) => {
                all.extend(begun.remove(&key(call)).map(|(call, endpoint, begin)| Collected {
                    call,
                    endpoint,
                    begin,
                    end_ns: ns,
                    cut: false,
                }));
            }
            _ => {}
        }
    }
    all.extend(begun.into_values().map(|it| lost(it, u64::MAX)));
    all.sort_by_key(|it| it.begin.ns);
    all
}

/// How much later than by its own clock what a node did was, for each node.
fn offsets(nodes: &[Node], messages: &[[At; 2]]) -> Vec<u64> {
    let joined: Vec<_> = nodes.iter().map(Node::joined_ns).collect();
    let last = joined.iter().flatten().max().copied().unwrap_or(0);
    let mut offsets: Vec<_> = joined.iter().map(|joined| last - joined.unwrap_or(last)).collect();
    // By how much the clock of each node is at least ahead of each other's.
    let mut leads = BTreeMap::<[usize; 2], i64>::new();
    for [sent, received] in messages.iter().filter(|[sent, received]| sent.node != received.node) {
        let lead = leads.entry([sent.node, received.node]).or_insert(i64::MIN);
        *lead = (*lead).max(sent.ns as i64 - received.ns as i64);
    }
    // Clocks that run alike are in order once each has been set behind each other; others never are.
    for _ in nodes {
        let before = offsets.clone();
        for (&[from, to], lead) in &leads {
            offsets[to] = offsets[to].max(offsets[from].saturating_add_signed(*lead));
        }
        if offsets == before {
            break;
        }
    }
    offsets
}

/// Nanoseconds, in microseconds.
struct Us(u64);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The file, event by event.
struct Drawing<'a, W> {
    to: W,
    offsets: &'a [u64],
    begun: bool,
}

impl<W: Write> Drawing<'_, W> {
    fn us(&self, at: &At) -> Us {
        Us(at.ns.saturating_add(self.offsets[at.node]))
    }

    /// The fields of an event; nothing in a name needs an escape.
    fn event(&mut self, fields: fmt::Arguments<'_>) -> io::Result<()> {
        let between = if std::mem::replace(&mut self.begun, true) { "," } else { "" };
        write!(self.to, "{between}\n{{{fields}}}")
    }

    fn node(&mut self, rank: usize, node: &Node) -> io::Result<()> {
        let meta =
            |name: &str, args: &str| format!(r#""ph":"M","name":"{name}","pid":{rank},"args":{{{args}}}"#);
        self.event(format_args!("{}", meta("process_name", &format!(r#""name":"node {rank}""#))))?;
        self.event(format_args!("{}", meta("process_sort_index", &format!(r#""sort_index":{rank}"#))))?;
        for (number, hart) in node.harts.iter().enumerate() {
            let name = meta("thread_name", &format!(r#""name":"hart {number}""#));
            self.event(format_args!(r#"{name},"tid":{number}"#))?;
            for Slice { name, begin, end, cut, .. } in slices(hart, node.last_ns()) {
                let ts = self.us(&At { node: rank, hart: number, ns: begin });
                let dur = Us(end.saturating_sub(begin));
                let args = if cut { r#","args":{"cut":true}"# } else { "" };
                self.event(format_args!(
                    r#""ph":"X","cat":"hart","name":"{name}","pid":{rank},"tid":{number},"ts":{ts},"dur":{dur}{args}"#
                ))?;
            }
        }
        // Each a slice of its own: several may be under way at once.
        for (number, it) in collectives(rank, node).into_iter().enumerate() {
            let Collected { call: CollectiveCall { what, geometry, number: of, .. }, begin, end_ns, .. } = it;
            let name = Collective::ALL.get(usize::from(what)).map_or("collective", |it| it.name());
            let (task, cut) = (it.endpoint.task(), if it.cut { r#","cut":true"# } else { "" });
            for (ph, at) in [("b", begin), ("e", At { ns: end_ns, ..begin })] {
                let ts = self.us(&at);
                self.event(format_args!(
                    r#""ph":"{ph}","cat":"collective","name":"{name}","id":"{rank}.{number}","pid":{rank},"tid":{},"ts":{ts},"args":{{"task":{task},"geometry":{geometry},"number":{of}{cut}}}"#,
                    at.hart
                ))?;
            }
        }
        Ok(())
    }

    fn message(&mut self, id: usize, [sent, received]: &[At; 2]) -> io::Result<()> {
        for (ph, at, more) in [("s", sent, ""), ("f", received, r#","bp":"e""#)] {
            let (At { node, hart, .. }, ts) = (at, self.us(at));
            self.event(format_args!(
                r#""ph":"{ph}","cat":"message","name":"message","id":{id},"pid":{node},"tid":{hart},"ts":{ts}{more}"#
            ))?;
        }
        Ok(())
    }
}

/// Writes a run's timeline, and returns what is missing in it, in words.
///
/// # Errors
/// What `to` says.
pub fn write(outcome: &Outcome, to: impl Write) -> io::Result<Vec<String>> {
    let read = |node: &NodeOutcome| Node { exit: node.exit, ..Node::read(&node.timeline) };
    let nodes: Vec<_> = outcome.nodes.iter().map(read).collect();
    draw(&nodes, &outcome.asked.job, to)
}

fn draw(nodes: &[Node], job: &str, to: impl Write) -> io::Result<Vec<String>> {
    let (mut messages, alone) = messages(nodes);
    let offsets = offsets(nodes, &messages);
    let mut drawing = Drawing { to, offsets: &offsets, begun: false };
    let heard = messages.len();
    messages.retain(|[sent, received]| drawing.us(sent).0 <= drawing.us(received).0);
    let backwards = heard - messages.len();
    let missing = missing(nodes, backwards);
    let kept = |hart: &Hart| json!({ "events": hart.moments.len(), "dropped": hart.dropped });
    let told = |node: &Node| node.harts.iter().map(kept).collect::<Vec<_>>();
    let other = json!({
        "job": job,
        "missing": missing,
        "messages": messages.len(),
        "unreceived": alone,
        "backwards": backwards,
        "nodes": nodes.iter().zip(&offsets).map(|(node, offset)| {
            json!({ "offset_ns": offset, "exit": node.exit.map(|exit| exit.to_string()), "harts": told(node) })
        }).collect::<Vec<_>>(),
    });
    write!(drawing.to, r#"{{"displayTimeUnit":"ns","otherData":{other},"traceEvents":["#)?;
    nodes.iter().enumerate().try_for_each(|(rank, node)| drawing.node(rank, node))?;
    messages.iter().enumerate().try_for_each(|(id, message)| drawing.message(id, message))?;
    writeln!(drawing.to, "\n]}}")?;
    Ok(missing)
}

/// What is missing, in words.
fn missing(nodes: &[Node], backwards: usize) -> Vec<String> {
    let mut missing = Vec::new();
    for (rank, node) in nodes.iter().enumerate() {
        let silent = node.harts.iter().enumerate().filter(|(_, hart)| hart.dropped.is_none());
        let silent: Vec<_> = silent.map(|(number, _)| number.to_string()).collect();
        if node.harts.is_empty() {
            let why = match node.exit {
                Some(Exit::Signal(signal)) => format!("it was killed, by signal {signal}"),
                _ => "they tell when it ends by itself".into(),
            };
            missing.push(format!("node {rank} told nothing of what its harts did: {why}"));
        } else if !silent.is_empty() {
            missing.push(format!(
                "node {rank} told not all of what these of its harts did: {}; they are shown until the first gap",
                silent.join(", ")
            ));
        }
        if nodes.len() > 1 && !node.harts.is_empty() && node.joined_ns().is_none() {
            missing.push(format!(
                "node {rank} did not tell when it joined: only messages set its clock on the others'"
            ));
        }
        for (number, hart) in node.harts.iter().enumerate() {
            let Some(dropped) = hart.dropped.filter(|&dropped| dropped > 0) else { continue };
            let all = (hart.moments.len() as u64).saturating_add(dropped);
            missing.push(format!(
                "hart {number} of node {rank} had no room for its last events, {dropped} at most: --trace-events {all} is enough"
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
mod tests;
