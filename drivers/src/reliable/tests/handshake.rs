//! All orders of small instances of the connections' handshake, over a wire that loses, repeats and reorders: what was
//! sent stays on it for ever and may come at any time, any number of times (SPEC R-3).
//!
//! The nodes use the decisions of [`handshake`](crate::reliable::handshake) themselves; their packets are reduced to a window of one.

use crate::reliable::handshake::{
    Connection, Heard, Number, Numbers, Phase, Stranger, Word, Words, hear_stranger, may_call, wait,
};
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Frame {
    from: u8,
    to: u8,
    words: Words,
    sequence: u8,
    acknowledged: u8,
    packet: Option<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Place {
    connection: Connection,
    /// Packets of this connection that were acknowledged, and the one that is not.
    sent: u8,
    outstanding: Option<u8>,
    expected: u8,
    /// The peer asks for release, which is yet to be decided about.
    parts: bool,
}

impl Place {
    fn new(connection: Connection) -> Self {
        Self { connection, sent: 0, outstanding: None, expected: 0, parts: false }
    }

    fn is_idle(&self) -> bool {
        self.connection.is_open() && self.outstanding.is_none()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    numbers: Numbers,
    places: BTreeMap<u8, Place>,
    waiting: VecDeque<(u8, Number)>,
    /// By node: packets that were given to a connection, and that came.
    given: Vec<u8>,
    taken: Vec<u8>,
    releases: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    nodes: Vec<Node>,
    wire: BTreeSet<Frame>,
    /// A packet came that should not have.
    wrong: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// A node has a packet for another.
    Give(u8, u8),
    /// A timer ends.
    Again(u8, u8),
    /// A node wants the place.
    Release(u8, u8),
    /// A node decides about a release.
    Decide(u8, u8, bool),
    /// A frame comes.
    Come(Frame),
}

struct Instance {
    /// By origin and target: how many packets.
    packets: Vec<Vec<u8>>,
    places: usize,
    /// Most releases that a node asks for unasked.
    releases: u8,
    /// Most connections that a node has, one after the other.
    numbers: u32,
}

impl World {
    fn tell(&mut self, from: u8, to: u8, words: Words) {
        let (sequence, acknowledged, packet) = match self.nodes[from as usize].places.get(&to) {
            Some(place) => {
                let goes = words.word == Word::Plain && place.connection.phase() == Phase::Open;
                (place.sent, place.expected, place.outstanding.filter(|_| goes))
            }
            None => (0, 0, None),
        };
        self.wire.insert(Frame { from, to, words, sequence, acknowledged, packet });
    }

    /// What is sent anyhow.
    fn tell_all(&mut self, from: u8, to: u8) {
        if let Some(place) = self.nodes[from as usize].places.get(&to) {
            let words = place.connection.says();
            self.tell(from, to, words);
        }
    }

    fn calling(&self, node: u8) -> usize {
        let calls = |place: &&Place| place.connection.phase() == Phase::Calling;
        self.nodes[node as usize].places.values().filter(calls).count()
    }

    fn give(&mut self, instance: &Instance, from: u8, to: u8) -> bool {
        let calling = self.calling(from);
        let node = &mut self.nodes[from as usize];
        let number = node.given[to as usize];
        if number == instance.packets[from as usize][to as usize] {
            return false;
        }
        if !node.places.contains_key(&to) {
            if node.places.len() == instance.places || !may_call(calling, instance.places) {
                return false;
            }
            node.places.insert(to, Place::new(Connection::call(node.numbers.fresh())));
        }
        let Some(place) = node.places.get_mut(&to) else { return false };
        if place.outstanding.is_some() || !place.connection.takes_packets() {
            return false;
        }
        place.outstanding = Some(number);
        node.given[to as usize] += 1;
        self.tell_all(from, to);
        true
    }

    fn release(&mut self, from: u8, to: u8) -> bool {
        let Some(place) = self.nodes[from as usize].places.get_mut(&to).filter(|place| place.is_idle())
        else {
            return false;
        };
        place.connection.release();
        self.tell_all(from, to);
        true
    }

    fn come(&mut self, instance: &Instance, frame: Frame) {
        let Frame { from, to, words, .. } = frame;
        let node = &mut self.nodes[to as usize];
        let Some(place) = node.places.get_mut(&from) else {
            return match hear_stranger(&words) {
                Stranger::Stale => {}
                Stranger::Reply(words) => self.tell(to, from, words),
                Stranger::Calls(number) => self.called(instance, to, from, number),
            };
        };
        match place.connection.hear(words) {
            Heard::Stale | Heard::Lives => {}
            Heard::Counts => self.count(frame),
            Heard::Tell => {
                self.count(frame);
                self.tell_all(to, from);
            }
            Heard::Ask => self.tell_all(to, from),
            Heard::Reply(words) => self.tell(to, from, words),
            Heard::Decide => {
                let matches = (frame.sequence, frame.acknowledged)
                    == (place.expected, place.sent + u8::from(place.outstanding.is_some()));
                if matches {
                    place.parts = true;
                } else {
                    self.decide(to, from, false);
                }
            }
            Heard::Forget if place.outstanding.is_some() => {
                self.wrong |= !place.connection.call_again();
                self.tell_all(to, from);
            }
            Heard::Forget => _ = node.places.remove(&from),
            Heard::Anew(number) => {
                self.wrong |= place.outstanding.is_some();
                *place = Place::new(Connection::answer(node.numbers.fresh(), number));
                self.tell_all(to, from);
            }
        }
    }

    /// Decides about a release that was asked for.
    fn decide(&mut self, node: u8, peer: u8, willing: bool) {
        let Some(place) = self.nodes[node as usize].places.get_mut(&peer) else { return };
        place.parts = false;
        let (agreed, words) = place.connection.decide(willing && place.outstanding.is_none());
        self.tell(node, peer, words);
        if agreed {
            self.nodes[node as usize].places.remove(&peer);
        }
    }

    fn called(&mut self, instance: &Instance, by: u8, from: u8, number: Number) {
        let node = &mut self.nodes[by as usize];
        if node.places.len() < instance.places {
            let connection = Connection::answer(node.numbers.fresh(), number);
            node.places.insert(from, Place::new(connection));
            return self.tell_all(by, from);
        }
        node.waiting.retain(|waiting| waiting.0 != from);
        node.waiting.push_back((from, number));
        self.tell(by, from, wait(number));
    }

    /// Takes in what a frame of the connection says of packets.
    fn count(&mut self, frame: Frame) {
        let Frame { from, to, .. } = frame;
        let node = &mut self.nodes[to as usize];
        let Some(place) = node.places.get_mut(&from) else { return };
        let opened = place.outstanding.is_some() && frame.acknowledged == place.sent;
        if frame.acknowledged > place.sent {
            self.wrong |= place.outstanding.take().is_none() || frame.acknowledged != place.sent + 1;
            place.sent = frame.acknowledged;
        }
        if let Some(packet) = frame.packet {
            if frame.sequence == place.expected {
                place.expected += 1;
                self.wrong |= packet != node.taken[from as usize];
                node.taken[from as usize] += 1;
            }
            self.tell_all(to, from);
        } else if opened {
            self.tell_all(to, from);
        }
    }

    fn is_done(&self, instance: &Instance) -> bool {
        let taken = |(to, node): (usize, &Node)| {
            (0..self.nodes.len()).all(|from| node.taken[from] == instance.packets[from][to])
        };
        let quiet =
            |node: &Node| node.places.values().all(|place| place.is_idle()) && node.waiting.is_empty();
        self.nodes.iter().enumerate().all(taken) && self.nodes.iter().all(quiet)
    }

    /// Whether all is delivered, and nothing left half done, if the wire loses nothing from now on.
    fn ends_well(mut self, instance: &Instance) -> bool {
        for _ in 0..40 {
            if self.wrong || self.is_done(instance) {
                return !self.wrong;
            }
            for node in 0..self.nodes.len() as u8 {
                self.round(instance, node);
            }
            // What these say in answer comes in this round too.
            for _ in 0..6 {
                for frame in core::mem::take(&mut self.wire) {
                    self.come(instance, frame);
                }
            }
        }
        false
    }

    /// What a node does by itself: gives, has callers in, makes room, and says again what was not answered.
    fn round(&mut self, instance: &Instance, node: u8) {
        let here = &mut self.nodes[node as usize];
        while here.places.len() < instance.places
            && let Some((caller, number)) = here.waiting.pop_front()
        {
            here.places
                .entry(caller)
                .or_insert_with(|| Place::new(Connection::answer(here.numbers.fresh(), number)));
        }
        let mut wants = self.nodes[node as usize].waiting.len();
        for to in 0..self.nodes.len() as u8 {
            let before = self.nodes[node as usize].given[to as usize];
            let left = before < instance.packets[node as usize][to as usize];
            if left && !self.give(instance, node, to) {
                wants += usize::from(!self.nodes[node as usize].places.contains_key(&to));
            }
        }
        for peer in 0..self.nodes.len() as u8 {
            if self.nodes[node as usize].places.get(&peer).is_some_and(|place| place.parts) {
                self.decide(node, peer, true);
            }
            if wants > 0 && self.release(node, peer) {
                wants -= 1;
            }
            self.tell_again(node, peer);
        }
    }

    fn tell_again(&mut self, node: u8, peer: u8) {
        if self.nodes[node as usize].places.get(&peer).is_some_and(|place| !place.is_idle()) {
            self.tell_all(node, peer);
        }
    }
}

impl Model for Instance {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let count = self.packets.len();
        let node = Node {
            numbers: Numbers::default(),
            places: BTreeMap::new(),
            waiting: VecDeque::new(),
            given: std::vec![0; count],
            taken: std::vec![0; count],
            releases: 0,
        };
        std::vec![World { nodes: std::vec![node; count], wire: BTreeSet::new(), wrong: false }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let nodes = 0..world.nodes.len() as u8;
        for from in nodes.clone() {
            for to in nodes.clone() {
                steps.extend([Step::Give(from, to), Step::Again(from, to), Step::Release(from, to)]);
            }
        }
        for (node, here) in (0..).zip(&world.nodes) {
            let parting = here.places.iter().filter(|(_, place)| place.parts);
            steps.extend(
                parting.flat_map(|(&peer, _)| [true, false].map(|yes| Step::Decide(node, peer, yes))),
            );
        }
        steps.extend(world.wire.iter().map(|&frame| Step::Come(frame)));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Give(from, to) => {
                next.give(self, from, to).then_some(())?;
            }
            Step::Again(from, to) => next.tell_again(from, to),
            Step::Release(from, to) => {
                let releases = &mut next.nodes[from as usize].releases;
                *releases += 1;
                (*releases <= self.releases && next.release(from, to)).then_some(())?;
            }
            Step::Decide(node, peer, willing) => next.decide(node, peer, willing),
            Step::Come(frame) => next.come(self, frame),
        }
        Some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.nodes.iter().all(|node| node.numbers.clone().fresh() <= Number::new(self.numbers + 1))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        std::vec![
            Property::always(
                "nothing comes twice, out of order or from an earlier connection",
                |_, world: &World| { !world.wrong }
            ),
            Property::always(
                "all comes and nothing stays half done once the wire is good",
                |instance, world: &World| { world.clone().ends_well(instance) }
            ),
            Property::sometimes("all comes over several connections", |instance, world: &World| {
                let numbers = |node: &Node| node.numbers.clone().fresh() > Number::new(2);
                world.is_done(instance) && world.nodes.iter().any(numbers)
            }),
        ]
    }
}

fn check(instance: Instance) -> usize {
    let checker = instance.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    std::eprintln!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
    checker.unique_state_count()
}

/// Bounds of an instance that a machine goes through in seconds; with `PAMIR_LONG` in a minute or so.
fn long() -> bool {
    std::env::var_os("PAMIR_LONG").is_some()
}

#[test]
fn r3_all_orders_of_one_node_that_calls_another_and_both_release() {
    let numbers = if long() { 4 } else { 3 };
    check(Instance { packets: std::vec![std::vec![0, 2], std::vec![0, 0]], places: 1, releases: 1, numbers });
}

#[test]
fn r3_all_orders_of_two_nodes_that_call_and_release_each_other() {
    let (releases, numbers) = if long() { (1, 3) } else { (1, 2) };
    check(Instance { packets: std::vec![std::vec![0, 1], std::vec![1, 0]], places: 1, releases, numbers });
}

/// Node 0 has a place and one packet for each of two others: it gives the first up for the second.
#[test]
fn r3_all_orders_of_a_node_whose_one_place_goes_from_one_peer_to_another() {
    let packets = std::vec![std::vec![0, 1, 1], std::vec![0; 3], std::vec![0; 3]];
    let (releases, numbers) = if long() { (1, 3) } else { (1, 2) };
    check(Instance { packets, places: 1, releases, numbers });
}

/// Two nodes call a third, which has one place: one of them waits for it.
#[test]
fn r3_all_orders_of_two_nodes_that_call_a_third_with_one_place() {
    let packets = std::vec![std::vec![0; 3], std::vec![1, 0, 0], std::vec![1, 0, 0]];
    let (releases, numbers) = if long() { (1, 3) } else { (1, 2) };
    check(Instance { packets, places: 1, releases, numbers });
}
