//! All nodes and the wires between them.

use super::Item::{Acked, Eager, Fence, FenceAll, Plain, Quiet, Rendezvous};
use super::faults::Fault;
use super::node::{Action, Answer, ModelOperation, Node, ReceiveRequest, Stage, Unexpected};
use super::{Instance, Packet, endpoint, node_of};
use crate::acks::{Owed, bit_of};
use crate::device::REQUESTS;
use crate::fence::FenceState;
use crate::operation::bits;
use std::vec::Vec;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    /// By origin and target.
    pub(super) wires: Vec<Vec<Option<Packet>>>,
    /// What should not have happened.
    pub(super) wrong: Option<&'static str>,
}

fn is_quiet(instance: &Instance, origin: u8, item: Option<u8>) -> bool {
    let items = &instance.items[usize::from(origin)];
    instance.has(Fault::AcksKept) || item.is_some_and(|item| matches!(items[usize::from(item)], Quiet(_)))
}

impl World {
    pub(super) fn start(&mut self, instance: &Instance, me: u8) -> bool {
        let node = &mut self.nodes[usize::from(me)];
        let item = node.started;
        let Some(&what) = instance.items[usize::from(me)].get(usize::from(item)) else { return false };
        let asks = what.target().is_some_and(|to| node.asks(to));
        if let (Plain(to), false) = (what, asks) {
            let sent = node.line.is_empty() && node.push(instance, to, Packet::Plain(item));
            node.started += u8::from(sent);
            return sent;
        }
        let Some(number) = node.operations.iter().position(Option::is_none) else { return false };
        let (target, action) = match what {
            Fence(to) => (to, Action::Fence(FenceState::of(endpoint(to)))),
            FenceAll => (me, Action::Fence(FenceState::of_all(instance.items.len() as u32))),
            Plain(to) | Acked(to) | Quiet(to) | Eager(to, _) => (to, Action::Message { rendezvous: false }),
            Rendezvous(to, _) => (to, Action::Message { rendezvous: true }),
        };
        if what.target().is_some() && (asks || !matches!(what, Acked(_))) {
            node.asking |= 1 << number;
        }
        let operation = ModelOperation { item, target: endpoint(target), queued: false, question: 0, action };
        node.operations[number] = Some(operation);
        node.line.push(number as u8);
        node.started += 1;
        node.queue_pending(instance, me);
        true
    }

    pub(super) fn progress(&mut self, instance: &Instance, me: u8, calls: bool) {
        for number in 0..instance.receive_requests {
            let node = &mut self.nodes[usize::from(me)];
            if let Some(ReceiveRequest { stage: Stage::Deliver, origin, item, answer, .. }) =
                node.receive_requests[number]
            {
                let tells = !is_quiet(instance, origin, item);
                // From here where there may be no other place for it.
                let stays = tells && instance.is_crowded();
                let answered = |request| ReceiveRequest { stage: Stage::Answer, ..request };
                node.receive_requests[number] = node.receive_requests[number].filter(|_| stays).map(answered);
                if let Answer::Ack(message) = answer
                    && let Some(bit) = bit_of(message)
                    && tells
                    && !stays
                {
                    node.owed[usize::from(origin)].acknowledge(bit);
                }
                self.had(origin, item);
            }
        }
        let node = &mut self.nodes[usize::from(me)];
        for origin in 0..instance.items.len() as u8 {
            node.answer(instance, origin, calls);
        }
        node.queue_receives(instance);
        node.queue_pending(instance, me);
        self.complete_fences(instance, me);
    }

    pub(super) fn complete_fences(&mut self, instance: &Instance, me: u8) {
        let node = &mut self.nodes[usize::from(me)];
        for number in 0..instance.operations {
            let Some(operation) = &node.operations[number] else { continue };
            let Action::Fence(state) = &operation.action else { continue };
            let behind = |other: &ModelOperation| {
                state.is_behind(operation.order(), other.order(), other.target, |_| None)
            };
            if !operation.queued || !state.all_answered() || node.operations.iter().flatten().any(behind) {
                continue;
            }
            let (fence, target) = (usize::from(operation.item), node_of(operation.target));
            let items = &instance.items[usize::from(me)];
            let covers = |to: u8| items[fence] == FenceAll || to == target;
            let missing = (0..fence).any(|item| items[item].target().is_some_and(covers) && !node.had[item]);
            if missing {
                self.wrong = Some("a fence ended before what it is behind");
            }
            node.had[fence] = true;
            node.end(number as u8);
        }
    }

    /// A target has all of an item.
    pub(super) fn had(&mut self, origin: u8, item: Option<u8>) {
        let Some(item) = item else { return };
        let had = &mut self.nodes[usize::from(origin)].had[usize::from(item)];
        if *had {
            self.wrong = Some("a message was delivered twice");
        }
        *had = true;
    }

    /// A handler is given an item: it has to be the next of its origin.
    pub(super) fn handle(&mut self, instance: &Instance, me: u8, origin: u8, item: u8) {
        let items = &instance.items[usize::from(origin)];
        let next = &mut self.nodes[usize::from(me)].next[usize::from(origin)];
        let due = (usize::from(*next)..items.len()).find(|&at| items[at].target() == Some(me));
        if due != Some(item.into()) {
            self.wrong = Some("a message came out of order, or twice");
        }
        *next = item + 1;
    }

    pub(super) fn arrive(&mut self, instance: &Instance, from: u8, me: u8) -> bool {
        let full = self.nodes[usize::from(me)].unexpected.iter().all(Option::is_some);
        if full && instance.has(Fault::Blocks) {
            return false;
        }
        let Some(packet) = self.wires[usize::from(from)][usize::from(me)].take() else { return false };
        let node = &mut self.nodes[usize::from(me)];
        let origin = usize::from(from);
        match packet {
            Packet::Plain(item) => {
                self.handle(instance, me, from, item);
                self.had(from, Some(item));
            }
            Packet::Acked(item, message) => {
                let (owed, bit) = (node.owe(instance, from), bit_of(message).unwrap_or(0));
                owed.into_iter().for_each(|owed| owed.acknowledge(bit));
                self.handle(instance, me, from, item);
                self.had(from, Some(item));
            }
            Packet::Asked(item, message) | Packet::Rts(item, message) => {
                let overtakes = instance.has(Fault::Overtakes);
                let opens = node.door(instance, from).opens_for(message) || overtakes;
                if opens && (node.record(instance, from) || instance.has(Fault::LooksAnyway)) {
                    self.ask(instance, (from, me), item, message, matches!(packet, Packet::Rts(..)));
                }
            }
            Packet::Fence(message) => {
                let passes = instance.has(Fault::FencePasses);
                if let Some(bit) = bit_of(message).filter(|_| passes || !node.doors[origin].hides(message)) {
                    let order = node.arrival();
                    let hurries = instance.has(Fault::FenceHurries);
                    if hurries || !node.hold_fences(from, order, bit) {
                        node.owe(instance, from).into_iter().for_each(|owed| owed.fence(bit, order));
                    }
                }
            }
            Packet::Retry(_) if instance.has(Fault::Unheard) => {}
            Packet::Retry(message) | Packet::RetryAgain(message) => {
                if !node.refused(instance, from, message) {
                    self.wrong = Some("what was never refused is asked for again");
                }
                if instance.has(Fault::CallsTwice) && matches!(packet, Packet::Retry(_)) {
                    self.wires[origin][usize::from(me)] = Some(Packet::RetryAgain(message));
                }
            }
            Packet::Acks(set) => {
                for number in bits(set) {
                    if !node.awaited(from, number) {
                        self.wrong = Some("what nobody waits for is acknowledged");
                        return true;
                    }
                    self.wrong = self.wrong.or(node.ends_early(instance, me, number));
                    node.let_in(number);
                    node.end(number);
                }
            }
            Packet::Admitted(set) => bits(set).for_each(|number| {
                if node.awaited(from, number) {
                    node.let_in(number);
                } else {
                    self.wrong = Some("what nobody waits for is let in");
                }
            }),
            Packet::FenceAcks(set) => {
                for number in bits(set) {
                    let state = node.get(number).and_then(|operation| match &mut operation.action {
                        Action::Fence(state) => Some(state),
                        Action::Message { .. } => None,
                    });
                    if !state.is_some_and(|state| state.answered(endpoint(from))) {
                        self.wrong = Some("a fence that did not ask is answered");
                    }
                }
            }
            Packet::RendezvousDone(message) => {
                let number = (message as usize % REQUESTS) as u8;
                if node.awaited(from, number) {
                    self.wrong = self.wrong.or(node.ends_early(instance, me, number));
                    node.let_in(number);
                    node.end(number);
                } else {
                    self.wrong = Some("what nobody waits for was pulled");
                }
            }
            Packet::Query(set, question) => node.asked(instance, from, set, question),
            Packet::Unknown(set, question) => {
                self.wrong = self.wrong.or(node.unknown(instance, (me, from), set, question));
            }
            Packet::Get(number) => node.unit.push_back((from, Packet::Got(number))),
            Packet::Got(number) => {
                let Some(request) = &mut node.receive_requests[usize::from(number)] else {
                    self.wrong = Some("an answer to no get");
                    return true;
                };
                request.stage = Stage::Answer;
                let item = request.item;
                self.had(from, item);
            }
        }
        true
    }

    /// A message that is looked at: it finds a place or is refused.
    pub(super) fn ask(
        &mut self,
        instance: &Instance,
        (origin, me): (u8, u8),
        item: u8,
        message: u32,
        rendezvous: bool,
    ) {
        let node = &mut self.nodes[usize::from(me)];
        let place = node.receive_requests.iter().position(Option::is_none);
        if rendezvous && (place.is_none() || node.room_for(origin) == 0) {
            return node.refuse(instance, origin, message);
        }
        let Some(bit) = bit_of(message) else { return };
        if instance.items[usize::from(origin)][usize::from(item)].is_wanted_later() {
            let Some(free) = node.unexpected.iter().position(Option::is_none) else {
                if instance.has(Fault::SaysTooSoon) {
                    node.owed[usize::from(origin)].admit(bit);
                }
                return node.refuse(instance, origin, message);
            };
            let order = node.arrival();
            node.unexpected[free] = Some(Unexpected { origin, order, item, message, rendezvous, fences: 0 });
            // Who does not ask to hear of it is told now.
            let quiet = is_quiet(instance, origin, Some(item));
            let note = if quiet { Owed::acknowledge } else { Owed::admit };
            node.owe(instance, origin).into_iter().for_each(|owed| note(owed, bit));
        } else if let (true, Some(number)) = (rendezvous, place) {
            let (order, answer) = (node.arrival(), Answer::RendezvousDone(message));
            let asks = ReceiveRequest { origin, order, item: Some(item), stage: Stage::Asks, answer };
            node.receive_requests[number] = Some(asks);
            if instance.is_crowded() {
                node.owe(instance, origin).into_iter().for_each(|owed| owed.admit(bit));
            }
        } else {
            node.owe(instance, origin).into_iter().for_each(|owed| owed.acknowledge(bit));
            self.had(origin, Some(item));
        }
        self.handle(instance, me, origin, item);
    }

    pub(super) fn put(&mut self, from: u8, to: u8, packet: Packet) -> bool {
        let wire = &mut self.wires[usize::from(from)][usize::from(to)];
        let room = wire.is_none();
        if room {
            *wire = Some(packet);
        }
        room
    }

    pub(super) fn leave(&mut self, from: u8) -> bool {
        let Some(&(to, packet)) = self.nodes[usize::from(from)].injection.front() else { return false };
        let left = self.put(from, to, packet);
        if left {
            self.nodes[usize::from(from)].injection.pop_front();
        }
        left
    }

    pub(super) fn reply(&mut self, from: u8) -> bool {
        let Some(&(to, packet)) = self.nodes[usize::from(from)].unit.front() else { return false };
        let left = self.put(from, to, packet);
        if left {
            self.nodes[usize::from(from)].unit.pop_front();
        }
        left
    }

    /// Everything goes on for a while, and messages are accepted if they are.
    pub(super) fn run(mut self, instance: &Instance, accepts: bool) -> Self {
        let nodes = 0..self.nodes.len() as u8;
        let rounds = if instance.is_crowded() { 240 } else { 60 };
        for round in 0..rounds {
            for node in nodes.clone() {
                self.start(instance, node);
                if accepts {
                    self.nodes[usize::from(node)].accept(instance);
                }
                if round % 8 == 7 {
                    self.nodes[usize::from(node)].ask_after(instance, (round / 8 % nodes.len()) as u8);
                }
                self.progress(instance, node, true);
                // Neither the FIFO nor the unit has all of a wire.
                if round % 2 == 0 {
                    self.reply(node);
                }
                self.leave(node);
                self.reply(node);
            }
            for (from, to) in nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to))) {
                self.arrive(instance, from, to);
            }
            if self.wrong.is_some() || self.is_done() {
                break;
            }
        }
        self
    }

    pub(super) fn has_ended(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.had.iter().all(|&had| had) && node.operations.iter().all(Option::is_none)
    }

    pub(super) fn is_done(&self) -> bool {
        let rests = |node: &Node| {
            node.injection.is_empty()
                && node.unit.is_empty()
                && node.owed.iter().all(|owed| !owed.any())
                && node.unknown.iter().all(|&(unknown, _)| unknown == 0)
                && node.doors.iter().all(|door| !door.is_shut())
                && node.receive_requests.iter().all(Option::is_none)
                && node.unexpected.iter().all(Option::is_none)
        };
        let wires = self.wires.iter().flatten().all(Option::is_none);
        wires && (0..self.nodes.len()).all(|node| self.has_ended(node)) && self.nodes.iter().all(rests)
    }
}
