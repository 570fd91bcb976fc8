//! From looks at a living run to rows: rates are differences between two looks, waits last while nothing moves.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use indicatif::DecimalBytes;
use ratatui::text::Span;

use crate::dump::{Activity, Fifo};
use crate::fabric::Traffic;
use crate::run::{Look, OwnLook};

/// What is between cells of a row.
const GAP: usize = 1;
/// Widths of the nodes' columns, from left to right; the last takes what is left.
const COLUMNS: [(&str, usize); 7] = [
    ("node", 5),
    ("harts", 11),
    ("bytes out/s", 11),
    ("bytes in/s", 10),
    ("packets out/s", 13),
    ("packets in/s", 12),
    ("state", 5),
];

/// What is known of a run.
pub struct Model {
    name: String,
    look: Look,
    /// By rank.
    nodes: Vec<Node>,
    /// The busiest first.
    links: Vec<Link>,
    /// By node, client, task and context.
    waits: BTreeMap<(u32, u8, u8, u8), Wait>,
    /// Why it gives no answer.
    trouble: Option<String>,
    /// Whether looks are let pass.
    paused: bool,
    /// The first row that is shown of the nodes', and how many there is room for.
    first: usize,
    room: usize,
}

/// A node. Two of anything are what it sent, and what it was given.
#[derive(Default)]
struct Node {
    life: String,
    /// When it was last read itself, what was found.
    own: Option<OwnLook>,
    /// Packets of its FIFOs a second, and bytes of its frames.
    packets: Option<[f64; 2]>,
    bytes: Option<[f64; 2]>,
}

struct Link {
    name: String,
    traffic: Traffic,
    /// Bytes a second.
    rate: Option<f64>,
}

/// What a context waits for, since when, and what it has not done meanwhile.
struct Wait {
    what: Awaited,
    /// The node that it has no room to, if that is known.
    toward: Option<u32>,
    counters: [u32; 2],
    since: Duration,
    until: Duration,
}

#[derive(PartialEq)]
enum Awaited {
    /// That these nodes answer.
    Answers(Vec<u32>),
    /// That its packets leave.
    Room,
}

impl Wait {
    fn of(fifo: &Fifo, now: Duration) -> Option<Self> {
        let what = match fifo.awaited.is_empty() {
            false => Awaited::Answers(fifo.awaited.clone()),
            true if fifo.open && fifo.unsent() > 0 => Awaited::Room,
            true => return None,
        };
        let (toward, counters) = (fifo.refused, [fifo.injected, fifo.retired]);
        Some(Self { what, toward, counters, since: now, until: now })
    }

    fn goes_on_from(&self, before: &Self) -> bool {
        // Who waits for room may have got some of its packets into the FIFO.
        let moved = if self.what == Awaited::Room { 1 } else { 0 };
        self.what == before.what && self.counters[moved..] == before.counters[moved..]
    }
}

impl Model {
    /// Of the run called `name`, of which nothing is known yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            look: Look::default(),
            nodes: Vec::new(),
            links: Vec::new(),
            waits: BTreeMap::new(),
            trouble: None,
            paused: false,
            first: 0,
            room: 0,
        }
    }

    /// Takes the next look, unless it is paused.
    pub fn take(&mut self, look: Look) {
        if self.paused {
            return;
        }
        self.trouble = None;
        self.nodes.resize_with(look.nodes.len(), Node::default);
        let passed = look.elapsed.saturating_sub(self.look.elapsed);
        for (rank, node) in self.nodes.iter_mut().enumerate() {
            let (new, old) = (&look.nodes[rank], self.look.nodes.get(rank));
            node.life.clone_from(&new.life);
            let both = new.frames.zip(old.and_then(|old| old.frames));
            node.bytes = both.and_then(|(new, old)| {
                Some([rate(old[0].bytes, new[0].bytes, passed)?, rate(old[1].bytes, new[1].bytes, passed)?])
            });
            if !new.lives {
                (node.own, node.packets) = (None, None);
                self.waits.retain(|(waiting, ..), _| *waiting as usize != rank);
            }
            let Some(own) = &new.own else { continue };
            node.packets = node.own.as_ref().and_then(|old| packets(old, own));
            node.own = Some(own.clone());
            let mut waits = BTreeMap::new();
            for fifo in &own.fifos {
                let Some(mut wait) = Wait::of(fifo, own.elapsed) else { continue };
                let key = (rank as u32, fifo.client, fifo.task, fifo.context);
                if let Some(before) = self.waits.get(&key).filter(|before| wait.goes_on_from(before)) {
                    wait.since = before.since;
                }
                waits.insert(key, wait);
            }
            self.waits.retain(|(waiting, ..), _| *waiting as usize != rank);
            self.waits.append(&mut waits);
        }
        let before: HashMap<_, _> =
            self.look.links.iter().map(|(name, traffic)| (name, traffic.bytes)).collect();
        let known = !self.look.nodes.is_empty();
        let link = |(name, traffic): &(String, Traffic)| {
            // One that is new has carried nothing before.
            let old = before.get(name).copied().unwrap_or(0);
            let rate = if known { rate(old, traffic.bytes, passed) } else { None };
            Link { name: name.clone(), traffic: *traffic, rate }
        };
        self.links = look.links.iter().map(link).collect();
        self.links.sort_by(|a, b| {
            let key = |link: &Link| (link.rate.unwrap_or(0.0), link.traffic.bytes as f64);
            key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        self.look = look;
    }

    /// It gives no answer, because of this.
    pub fn note_trouble(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// Lets looks pass, or takes them again.
    pub fn pause(&mut self) {
        self.paused = !self.paused;
    }

    /// Moves the rows of nodes by so many; `None` by as many as are seen.
    pub fn scroll(&mut self, down: bool, rows: Option<usize>) {
        let rows = rows.unwrap_or(self.room.max(1));
        self.first = if down { self.first + rows } else { self.first.saturating_sub(rows) };
        self.fit(self.room);
    }

    /// There is room for so many rows of nodes. Returns which are seen.
    pub fn fit(&mut self, room: usize) -> std::ops::Range<usize> {
        self.room = room;
        self.first = self.first.min(self.nodes.len().saturating_sub(room));
        self.first..(self.first + room).min(self.nodes.len())
    }

    /// What runs, and how all of it goes: two lines.
    pub fn head(&self) -> [String; 2] {
        if self.nodes.is_empty() {
            return [self.name.clone(), "asking it".to_owned()];
        }
        let living = self.look.nodes.iter().filter(|node| node.lives).count();
        let all: Vec<_> =
            self.nodes.iter().filter_map(|node| Some(&node.own.as_ref()?.harts)).flatten().copied().collect();
        let harts: Vec<_> = counts(&all).map(|(count, what)| format!("{count} {}", word(what))).collect();
        let mut how = format!("{}, {living} of {} nodes live", time(self.look.elapsed), self.nodes.len());
        if !self.look.joined {
            how.push_str(", not all have joined");
        }
        if !harts.is_empty() {
            how.push_str(&format!("; harts: {}", harts.join(", ")));
        }
        let more = match (&self.trouble, self.paused) {
            (Some(why), _) => why,
            (None, true) => "paused",
            (None, false) => &self.look.words,
        };
        [format!("{}: {more}", self.name), how]
    }

    /// The heading of the nodes' rows, `width` wide.
    pub fn titles(&self, width: usize) -> String {
        row(&COLUMNS.map(|(title, _)| title.to_owned()), width)
    }

    /// A row for each node, `width` wide.
    pub fn rows(&self, width: usize) -> impl Iterator<Item = String> {
        self.nodes.iter().enumerate().map(move |(rank, node)| {
            let own = node.own.as_ref();
            let harts = own.map_or("-".to_owned(), |own| {
                counts(&own.harts)
                    .map(|(count, what)| format!("{count}{}", letter(what)))
                    .collect::<Vec<_>>()
                    .join(" ")
            });
            let bytes = node.bytes.map(|both| both.map(bytes));
            let packets = node.packets.map(|both| both.map(|rate| format!("{rate:.0}")));
            let [out, into] = bytes.unwrap_or_else(unknown);
            let [sent, taken] = packets.unwrap_or_else(unknown);
            row(&[rank.to_string(), harts, out, into, sent, taken, node.life.clone()], width)
        })
    }

    /// The links with the most bytes a second, `width` wide, the busiest first.
    pub fn hot_links(&self, width: usize) -> Vec<String> {
        if let Some(why) = &self.look.uncounted {
            return vec![fit(why, width)];
        }
        let line = |link: &Link| {
            let rate = link
                .rate
                .map_or_else(|| DecimalBytes(link.traffic.bytes).to_string(), |rate| bytes(rate) + "/s");
            pair(&link.name, &rate, width)
        };
        self.links.iter().map(line).collect()
    }

    /// What contexts wait for, `width` wide, the longest wait first.
    pub fn waits(&self, width: usize) -> Vec<String> {
        let now = |rank: u32| self.nodes.get(rank as usize).and_then(|node| Some(node.own.as_ref()?.elapsed));
        let mut waits: Vec<_> = self.waits.iter().collect();
        waits.sort_by_key(|((rank, ..), wait)| {
            std::cmp::Reverse(now(*rank).unwrap_or(wait.until).saturating_sub(wait.since))
        });
        let line = |(&(rank, client, task, context), wait): (&(u32, u8, u8, u8), &Wait)| {
            let what = match &wait.what {
                Awaited::Answers(nodes) => {
                    let nodes: Vec<_> = nodes.iter().map(u32::to_string).collect();
                    format!("node {}", nodes.join(", "))
                }
                Awaited::Room => {
                    let at = wait.toward.map(|node| format!(" at node {node}")).unwrap_or_default();
                    format!("room{at}, {} packets", wait.counters[0].wrapping_sub(wait.counters[1]))
                }
            };
            let client = if client > 0 { format!("client {client} ") } else { String::new() };
            let who = format!("{client}task {task} context {context}");
            let age = now(rank).unwrap_or(wait.until).saturating_sub(wait.since);
            pair(&format!("node {rank} for {what} ({who})"), &format!("{:.0} s", age.as_secs_f64()), width)
        };
        waits.into_iter().map(line).collect()
    }
}

/// What a counter rose by each second.
fn rate(old: u64, new: u64, passed: Duration) -> Option<f64> {
    (!passed.is_zero()).then(|| new.saturating_sub(old) as f64 / passed.as_secs_f64())
}

/// Packets a second of all FIFOs of a node: put in, and delivered.
fn packets(old: &OwnLook, new: &OwnLook) -> Option<[f64; 2]> {
    let name = |fifo: &Fifo| (fifo.client, fifo.task, fifo.context);
    let mut all = [0u64; 2];
    for fifo in &new.fifos {
        let before = old.fifos.iter().find(|before| name(before) == name(fifo));
        let before = before.map_or([0; 2], |before| [before.injected, before.delivered]);
        for (all, (new, old)) in all.iter_mut().zip([fifo.injected, fifo.delivered].into_iter().zip(before)) {
            // One that has begun anew counts from zero.
            let rise = new.wrapping_sub(old);
            *all += u64::from(if rise > u32::MAX / 2 { new } else { rise });
        }
    }
    let passed = new.elapsed.saturating_sub(old.elapsed);
    Some([rate(0, all[0], passed)?, rate(0, all[1], passed)?])
}

/// How many harts do what, without what none does.
fn counts(harts: &[Activity]) -> impl Iterator<Item = (usize, Activity)> {
    use Activity::{Advancing, Computing, Outside, Running, Sleeping};
    let count = |what| harts.iter().filter(|hart| **hart == what).count();
    [Computing, Advancing, Sleeping, Running, Outside]
        .map(|what| (count(what), what))
        .into_iter()
        .filter(|it| it.0 > 0)
}

fn word(what: Activity) -> &'static str {
    match what {
        Activity::Computing => "computing",
        Activity::Advancing => "advancing",
        Activity::Sleeping => "sleeping",
        Activity::Running => "running",
        Activity::Outside => "outside the image",
    }
}

fn letter(what: Activity) -> &'static str {
    &word(what)[..1]
}

fn unknown() -> [String; 2] {
    ["-", "-"].map(String::from)
}

fn bytes(rate: f64) -> String {
    DecimalBytes(rate.round() as u64).to_string()
}

/// Hours, minutes and seconds.
fn time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// How many columns a text takes.
fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text that is no wider than `width`: what is cut off is an ellipsis.
pub fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut cut = text.to_owned();
    while columns(&cut) + 1 > width && cut.pop().is_some() {}
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A text at the left, and one at the right which is not cut.
fn pair(left: &str, right: &str, width: usize) -> String {
    let room = width.saturating_sub(columns(right) + GAP);
    let left = fit(left, room);
    fit(&format!("{left}{}{right}", " ".repeat((room + GAP).saturating_sub(columns(&left)))), width)
}

/// A row of as many columns as there is room for: numbers at the right, the last one filled with what is left.
fn row(cells: &[String; COLUMNS.len()], width: usize) -> String {
    let mut text = String::new();
    for (index, (cell, (_, least))) in cells.iter().zip(COLUMNS).enumerate() {
        let begin = columns(&text) + if index > 0 { GAP } else { 0 };
        if index > 0 && begin + least > width {
            break;
        }
        let last = index == COLUMNS.len() - 1;
        let cell = fit(cell, if last { width.saturating_sub(begin) } else { least });
        let pad = " ".repeat(least.saturating_sub(columns(&cell)));
        let gap = if index > 0 { " ".repeat(GAP) } else { String::new() };
        let left = last || index == 1;
        text.push_str(&if left { format!("{gap}{cell}{pad}") } else { format!("{gap}{pad}{cell}") });
    }
    fit(text.trim_end(), width)
}
