//! Runs the schedules of all ranks over a network in memory that delivers in random order, but each pair's messages
//! in order, and judges every step by what the [module's docs](super) promise the engine.

mod claims;
mod listed;
pub(crate) mod reference;

use super::{Area, Call, Order, Schedule, Span, Step};
use rings::bulletin::LAST_STAGE;
use std::collections::{HashSet, VecDeque};
use std::vec::Vec;
use std::{format, vec};

/// What undefined memory holds.
pub(crate) const POISON: u64 = 0xdead_beef_dead_beef;

/// An operator on one element, left operand first.
pub(crate) type Operator = fn(u64, u64) -> u64;

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % bound
    }
}

/// A message on its way or arrived. Without data it is a rendezvous: the sender's memory is read when it matches.
struct Message {
    from: usize,
    tag: u32,
    span: Span,
    data: Option<Vec<u64>>,
}

/// The next step of a schedule, which is done then.
fn next_step(schedule: &mut Schedule) -> Option<Step> {
    schedule.write_ahead();
    let step = *schedule.first()?;
    schedule.finish_step();
    Some(step)
}

/// Whether two spans have an element in common.
fn overlap(one: Span, other: Span) -> bool {
    one.area == other.area
        && one.len > 0
        && other.len > 0
        && one.offset < other.end()
        && other.offset < one.end()
}

#[test]
fn g3_spans_overlap_where_they_have_an_element_in_common() {
    let spans = |area| (0..4).flat_map(move |offset| (0..3).map(move |len| Span::new(area, offset, len)));
    for one in spans(Area::Output) {
        for other in spans(Area::Output).chain(spans(Area::Scratch)) {
            let common = (one.offset..one.end()).any(|at| (other.offset..other.end()).contains(&at));
            assert_eq!(overlap(one, other), common && one.area == other.area, "{one:?}, {other:?}");
        }
    }
}

/// What runs at one rank.
struct Rank<'a> {
    schedule: Schedule<'a>,
    memory: [Vec<u64>; 3],
    arrived: Vec<Message>,
    receives: Vec<(usize, u32, Span)>,
    /// Spans that messages of this round read, and that they write.
    reads: Vec<Span>,
    writes: Vec<Span>,
    /// Sends and receives of this round that are not done.
    pending: usize,
    waiting: bool,
    done: bool,
    /// What the rank shows, whether it began without, and what it waits for another to show.
    shown: Option<Vec<u64>>,
    begun: bool,
    looks: Option<Step>,
    /// Where what it exposes lies, and the stage that it has come to.
    exposed: Option<[Span; 2]>,
    stage: u8,
}

impl Rank<'_> {
    fn span(&mut self, span: Span) -> &mut [u64] {
        let area = &mut self.memory[span.area as usize];
        let len = area.len();
        area.get_mut(span.offset..span.end()).unwrap_or_else(|| panic!("{span:?} of {len} elements"))
    }

    /// A span that is read, and no message may write now.
    fn read(&mut self, span: Span) -> Vec<u64> {
        assert!(!self.writes.iter().any(|busy| overlap(*busy, span)), "{span:?} is being received");
        self.span(span).to_vec()
    }

    /// A span that is written, and no message may use now.
    fn check_write(&mut self, span: Span) {
        assert_ne!(span.area, Area::Input, "the input is only read");
        let in_use = self.reads.iter().chain(&self.writes).any(|busy| overlap(*busy, span));
        assert!(!in_use, "{span:?} is in use");
    }
}

/// What a run leaves behind.
pub(crate) struct Outcome {
    /// The outputs, by rank.
    pub outputs: Vec<Vec<u64>>,
    /// Who sent to whom, once for each message.
    pub messages: Vec<(u32, u32)>,
}

struct Network<'a> {
    ranks: Vec<Rank<'a>>,
    /// Messages under way, by `from * size + to`; pairs with any are listed.
    wires: Vec<VecDeque<Message>>,
    busy: Vec<usize>,
    /// Ranks that can go on.
    ready: Vec<usize>,
    /// Ranks that nobody instructed, until a message calls them.
    asleep: HashSet<usize>,
    tags: HashSet<(usize, usize, u32)>,
    /// Ranks that speak for their nodes, and what they have handed to the tree network.
    leaders: Vec<usize>,
    combining: Vec<Option<Step>>,
    operator: Operator,
    random: Random,
    messages: Vec<(u32, u32)>,
}

/// Runs one call on all ranks. `memory` makes the input and output of each.
///
/// # Panics
/// If anything is not as promised.
pub(crate) fn run<'a>(
    calls: &[Call<'a>],
    memory: impl Fn(&Call<'a>) -> [Vec<u64>; 2],
    operator: Operator,
    seed: u64,
) -> Outcome {
    run_instructed(calls, memory, operator, seed, |_| true)
}

/// As [`run`]. A rank that is not instructed starts when the first message reaches it.
pub(crate) fn run_instructed<'a>(
    calls: &[Call<'a>],
    memory: impl Fn(&Call<'a>) -> [Vec<u64>; 2],
    operator: Operator,
    seed: u64,
    instructed: impl Fn(u32) -> bool,
) -> Outcome {
    let mut network = network(calls, memory, operator, seed, instructed);
    network.run();
    Outcome {
        outputs: network.ranks.into_iter().map(|rank| std::mem::take(&mut { rank }.memory[1])).collect(),
        messages: network.messages,
    }
}

/// Whether nobody is done before a rank that is late has begun. All others do what they can before that.
pub(crate) fn waits_for<'a>(calls: &[Call<'a>], late: u32, seed: u64) -> bool {
    let memory = |call: &Call<'a>| reference::memory(call, reference::values);
    let mut network = network(calls, memory, u64::wrapping_add, seed, |rank| rank != late);
    // Nor does a message wake it.
    network.asleep.clear();
    network.settle();
    let nobody = network.ranks.iter().all(|rank| !rank.done);
    network.ready.push(late as usize);
    network.run();
    nobody
}

fn network<'a>(
    calls: &[Call<'a>],
    memory: impl Fn(&Call<'a>) -> [Vec<u64>; 2],
    operator: Operator,
    seed: u64,
    instructed: impl Fn(u32) -> bool,
) -> Network<'a> {
    let size = calls.len();
    let (ready, asleep): (Vec<_>, Vec<_>) = (0..size).partition(|&rank| instructed(rank as u32));
    let mut random = Random::new(seed);
    let rank = |call: &Call<'a>| {
        let mut schedule = Schedule::new(call).unwrap();
        // One that was begun before is as good, whether it has come to its end or not.
        for most in [random.below(4) * random.below(40), usize::MAX].into_iter().take(random.below(3)) {
            (0..most).map_while(|_| next_step(&mut schedule)).count();
            schedule.begin();
        }
        let [input, output] = memory(call);
        Rank {
            memory: [input, output, vec![POISON; schedule.scratch_len()]],
            schedule,
            arrived: vec![],
            receives: vec![],
            reads: vec![],
            writes: vec![],
            pending: 0,
            waiting: false,
            done: false,
            shown: None,
            begun: false,
            looks: None,
            exposed: None,
            stage: 0,
        }
    };
    Network {
        ranks: calls.iter().map(rank).collect(),
        wires: (0..size * size).map(|_| VecDeque::new()).collect(),
        busy: vec![],
        ready,
        asleep: asleep.into_iter().collect(),
        tags: HashSet::new(),
        leaders: (0..size).filter(|&rank| leads(&calls[rank])).collect(),
        combining: vec![None; size],
        operator,
        random: Random::new(seed),
        messages: vec![],
    }
}

impl Network<'_> {
    /// Until nobody can go on.
    fn settle(&mut self) {
        while !self.ready.is_empty() || !self.busy.is_empty() {
            let event = self.random.below(self.ready.len() + self.busy.len());
            if event < self.ready.len() {
                let rank = self.ready.swap_remove(event);
                self.advance(rank);
            } else {
                let place = event - self.ready.len();
                let wire = self.busy[place];
                let message = self.wires[wire].pop_front().unwrap();
                if self.wires[wire].is_empty() {
                    self.busy.swap_remove(place);
                }
                self.deliver(wire % self.ranks.len(), message);
            }
        }
    }

    /// Until all are done.
    fn run(&mut self) {
        self.settle();
        for (number, rank) in self.ranks.iter().enumerate() {
            assert!(rank.done, "rank {number} is stuck: it waits for {:?}", rank.receives);
            assert!(rank.arrived.is_empty(), "rank {number} has a message that it never receives");
            assert_eq!(rank.pending, 0, "rank {number} ended in the middle of a round");
        }
    }

    /// Runs some steps of a rank.
    fn advance(&mut self, number: usize) {
        for _ in 0..1 + self.random.below(4) {
            let looked = self.ranks[number].looks.take();
            let Some(step) = looked.or_else(|| next_step(&mut self.ranks[number].schedule)) else {
                self.ranks[number].done = true;
                return;
            };
            self.step(number, step);
            if step == Step::Wait || self.ranks[number].looks.is_some() {
                return;
            }
        }
        self.ready.push(number);
    }

    fn step(&mut self, number: usize, step: Step) {
        let size = self.ranks.len();
        let rank = &mut self.ranks[number];
        match step {
            Step::Send { to, tag, span } => {
                let to = to as usize;
                assert!(to < size && to != number, "a message to {to} of {size}");
                assert!(self.tags.insert((number, to, tag)), "tag {tag:#x} twice from {number} to {to}");
                let data = rank.read(span);
                let eager = self.random.below(2) == 0;
                rank.reads.push(span);
                rank.pending += usize::from(!eager);
                let wire = number * size + to;
                if self.wires[wire].is_empty() {
                    self.busy.push(wire);
                }
                self.wires[wire].push_back(Message { from: number, tag, span, data: eager.then_some(data) });
                self.messages.push((number as u32, to as u32));
            }
            Step::Receive { from, tag, span } => {
                let from = from as usize;
                assert!(from < size && from != number, "a message from {from} of {size}");
                rank.span(span);
                rank.check_write(span);
                rank.pending += 1;
                rank.writes.push(span);
                let matches = |message: &Message| (message.from, message.tag) == (from, tag);
                match rank.arrived.iter().position(matches) {
                    Some(place) => {
                        let message = rank.arrived.swap_remove(place);
                        self.place(number, message, span);
                    }
                    None => rank.receives.push((from, tag, span)),
                }
            }
            Step::Wait => {
                rank.waiting = true;
                self.end_round(number);
            }
            Step::Reduce { into, from, order } => {
                assert!(into.len == from.len && !overlap(into, from));
                rank.check_write(into);
                let from = rank.read(from);
                for (into, from) in rank.span(into).iter_mut().zip(from) {
                    *into = match order {
                        Order::IntoFirst => (self.operator)(*into, from),
                        Order::FromFirst => (self.operator)(from, *into),
                    };
                }
            }
            Step::Copy { into, from } => {
                assert!(into.len == from.len && !overlap(into, from));
                rank.check_write(into);
                let from = rank.read(from);
                rank.span(into).copy_from_slice(&from);
            }
            Step::Show { span } => {
                let shown = rank.read(span);
                assert_eq!(rank.shown.replace(shown), None, "rank {number} shows twice");
                self.look_again();
            }
            Step::Begin => rank.begun = true,
            Step::Expose { operand, result } => {
                [operand, result].into_iter().for_each(|span| _ = rank.span(span));
                rank.exposed = Some([operand, result]);
                assert_eq!(rank.shown.replace(vec![]), None, "rank {number} shows twice");
                self.look_again();
            }
            Step::Reach { stage } => {
                assert!(stage > rank.stage && stage <= LAST_STAGE);
                rank.stage = stage;
                self.look_again();
            }
            Step::Await { from, stage } => {
                assert_ne!(from as usize, number);
                if self.ranks[from as usize].stage < stage {
                    self.ranks[number].looks = Some(step);
                }
            }
            Step::Pull { from, of, offset, into } => {
                assert_ne!(from as usize, number);
                rank.check_write(into);
                let other = &mut self.ranks[from as usize];
                let Some(exposed) = other.exposed else {
                    self.ranks[number].looks = Some(step);
                    return;
                };
                assert!(!other.done, "rank {number} reads memory that {from} has got back");
                let data = other.read(exposed[of as usize].part(offset, into.len));
                self.ranks[number].span(into).copy_from_slice(&data);
            }
            Step::Fetch { from, offset, into } => {
                assert!(
                    (from as usize) < size && from as usize != number && (rank.shown.is_some() || rank.begun)
                );
                rank.check_write(into);
                match self.ranks[from as usize].shown.clone() {
                    Some(shown) => {
                        self.ranks[number].span(into).copy_from_slice(&shown[offset..offset + into.len])
                    }
                    None => self.ranks[number].looks = Some(step),
                }
            }
            Step::Combine { span } | Step::Assemble { span, .. } | Step::Spread { span, .. } => {
                assert!(self.leaders.contains(&number), "rank {number} does not speak for its node");
                rank.check_write(span);
                rank.writes.push(span);
                rank.pending += 1;
                assert_eq!(self.combining[number].replace(step), None);
                if self.leaders.iter().all(|&leader| self.combining[leader].is_some()) {
                    self.combine();
                }
            }
        }
    }

    /// Whoever looks for something looks again.
    fn look_again(&mut self) {
        let looks = (0..self.ranks.len()).filter(|&rank| self.ranks[rank].looks.is_some());
        let looks: Vec<_> = looks.filter(|rank| !self.ready.contains(rank)).collect();
        self.ready.extend(looks);
    }

    /// A message reaches a rank, which may not expect it yet.
    fn deliver(&mut self, number: usize, message: Message) {
        if self.asleep.remove(&number) {
            self.ready.push(number);
        }
        let rank = &mut self.ranks[number];
        let wanted = |&(from, tag, _): &_| (from, tag) == (message.from, message.tag);
        match rank.receives.iter().position(wanted) {
            Some(place) => {
                let (.., span) = rank.receives.swap_remove(place);
                self.place(number, message, span);
            }
            None => rank.arrived.push(message),
        }
    }

    /// A message meets its receive.
    fn place(&mut self, number: usize, message: Message, span: Span) {
        assert_eq!(message.span.len, span.len, "sent and received lengths");
        let data = match message.data {
            Some(data) => data,
            None => {
                let data = self.ranks[message.from].span(message.span).to_vec();
                self.ranks[message.from].pending -= 1;
                self.end_round(message.from);
                data
            }
        };
        self.ranks[number].span(span).copy_from_slice(&data);
        self.ranks[number].pending -= 1;
        self.end_round(number);
    }

    /// The tree network has every leader's vector.
    fn combine(&mut self) {
        let leaders = self.leaders.clone();
        let handed: Vec<_> = leaders.iter().map(|&rank| self.combining[rank].take().unwrap()).collect();
        let mut spans = vec![];
        let mut result: Option<Vec<u64>> = None;
        for (&number, step) in leaders.iter().zip(&handed) {
            let (span, operand) = match *step {
                Step::Combine { span } | Step::Assemble { span, .. } => (span, true),
                Step::Spread { span, source } => (span, source),
                _ => unreachable!("handed to the tree network"),
            };
            spans.push(span);
            if operand {
                let mut operand = self.ranks[number].span(span).to_vec();
                if let Step::Assemble { own, .. } = *step {
                    let own = own.offset - span.offset..own.end() - span.offset;
                    operand[..own.start].fill(0);
                    operand[own.end..].fill(0);
                }
                result = Some(match (result, step) {
                    (None, _) => operand,
                    (Some(_), Step::Spread { .. }) => panic!("two sources"),
                    (Some(left), Step::Assemble { .. }) => {
                        assert!(matches!(handed[0], Step::Assemble { .. }), "both kinds at once");
                        left.iter().zip(operand).map(|(&a, b)| a | b).collect()
                    }
                    (Some(left), _) => {
                        assert!(matches!(handed[0], Step::Combine { .. }), "both kinds at once");
                        left.iter().zip(operand).map(|(&a, b)| (self.operator)(a, b)).collect()
                    }
                });
            }
        }
        for (number, span) in leaders.into_iter().zip(spans) {
            self.ranks[number].span(span).copy_from_slice(result.as_ref().unwrap());
            self.ranks[number].pending -= 1;
            self.end_round(number);
        }
    }

    fn end_round(&mut self, number: usize) {
        let rank = &mut self.ranks[number];
        if rank.waiting && rank.pending == 0 {
            rank.waiting = false;
            rank.reads.clear();
            rank.writes.clear();
            self.ready.push(number);
        }
    }
}

/// Whether a rank is the lowest of its node, or alone there.
fn leads(call: &Call) -> bool {
    let node = |rank| call.domains.map_or(rank, |domains| domains.leader(rank));
    (0..=call.rank).find(|&rank| node(rank) == node(call.rank)) == Some(call.rank)
}

/// A line that tells one case from all others.
pub(crate) fn describe(call: &Call) -> std::string::String {
    format!(
        "{:?} {:?}, size {}, root {}, blocks {:?}, in place {}, commutative {}, {:?}",
        call.collective,
        call.algorithm,
        call.size,
        call.root,
        call.blocks,
        call.in_place,
        call.commutative,
        call.tuning
    )
}
