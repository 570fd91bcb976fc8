//! One node of the model: what it has under way, and what it owes.

use super::faults::Fault;
use super::{Instance, Item, Packet, endpoint, node_of};
use crate::acks::{Owed, Owing, bit_of};
use crate::admission::{Doorway, goes_again, is_in};
use crate::device::REQUESTS;
use crate::endpoint::Endpoint;
use crate::fence::{FenceState, Next};
use crate::operation::{bits, message_number};
use crate::receive_request::share;
use crate::unexpected::hold;
use std::collections::VecDeque;
use std::vec::Vec;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Action {
    Message { rendezvous: bool },
    Fence(FenceState),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ModelOperation {
    pub(super) item: u8,
    pub(super) target: Endpoint,
    pub(super) queued: bool,
    /// The last question after it; 0 if there is none since it has gone.
    pub(super) question: u32,
    pub(super) action: Action,
}

impl ModelOperation {
    pub(super) fn order(&self) -> u64 {
        self.item.into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    /// The get of the data, or of nothing, has to be queued; was.
    Asks,
    Asked,
    /// The callback has to be called.
    Deliver,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Answer {
    RendezvousDone(u32),
    Ack(u32),
    Fences(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ReceiveRequest {
    pub(super) origin: u8,
    pub(super) order: u64,
    /// The origin's item that comes with it.
    pub(super) item: Option<u8>,
    pub(super) stage: Stage,
    pub(super) answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Unexpected {
    pub(super) origin: u8,
    pub(super) order: u64,
    pub(super) item: u8,
    pub(super) message: u32,
    pub(super) rendezvous: bool,
    pub(super) fences: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Node {
    /// Items that were started; which of them the targets have, data and all; which fences have ended.
    pub(super) started: u8,
    pub(super) had: Vec<bool>,
    pub(super) operations: Vec<Option<ModelOperation>>,
    pub(super) line: Vec<u8>,
    pub(super) asking: u64,
    pub(super) injection: VecDeque<(u8, Packet)>,
    /// What the message unit answers by itself.
    pub(super) unit: VecDeque<(u8, Packet)>,
    /// By origin: what is owed to it, whether it is let in, and which of its items is next.
    pub(super) owed: Vec<Owed>,
    pub(super) doors: Vec<Doorway>,
    /// Whether it has a record for that, and the operations of its last question that it knows nothing of.
    pub(super) recorded: Vec<bool>,
    pub(super) unknown: Vec<(u64, u32)>,
    /// Whether an answer has found no place.
    pub(super) forgot: bool,
    /// Of its own last question.
    pub(super) question: u32,
    pub(super) next: Vec<u8>,
    pub(super) receive_requests: Vec<Option<ReceiveRequest>>,
    pub(super) unexpected: Vec<Option<Unexpected>>,
    pub(super) arrivals: u64,
}

impl Node {
    pub(super) fn new(items: usize, instance: &Instance) -> Self {
        let nodes = instance.items.len();
        Self {
            started: 0,
            had: std::vec![false; items],
            operations: std::vec![None; instance.operations],
            line: Vec::new(),
            asking: 0,
            injection: VecDeque::new(),
            unit: VecDeque::new(),
            owed: std::vec![Owed::default(); nodes],
            doors: std::vec![Doorway::default(); nodes],
            recorded: std::vec![false; nodes],
            unknown: std::vec![(0, 0); nodes],
            forgot: false,
            question: 0,
            next: std::vec![0; nodes],
            receive_requests: std::vec![None; instance.receive_requests],
            unexpected: std::vec![None; instance.unexpected],
            arrivals: 0,
        }
    }

    pub(super) fn push(&mut self, instance: &Instance, to: u8, packet: Packet) -> bool {
        let room = self.injection.len() < instance.room;
        if room {
            self.injection.push_back((to, packet));
        }
        room
    }

    pub(super) fn get(&mut self, number: u8) -> Option<&mut ModelOperation> {
        self.operations.get_mut(usize::from(number))?.as_mut()
    }

    pub(super) fn asks(&self, to: u8) -> bool {
        let target = |number: u8| self.operations[usize::from(number)].as_ref().map(|it| it.target);
        bits(self.asking).any(|number| target(number) == Some(endpoint(to)))
    }

    pub(super) fn awaited(&mut self, origin: u8, number: u8) -> bool {
        self.get(number).is_some_and(|operation| operation.queued && operation.target == endpoint(origin))
    }

    pub(super) fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Whether what is owed to an origin has a place, which one to whom nothing is owed may lose.
    pub(super) fn record(&mut self, instance: &Instance, origin: u8) -> bool {
        let origin = usize::from(origin);
        let taken = self.recorded.iter().filter(|&&recorded| recorded).count();
        if !instance.is_crowded() || self.recorded[origin] || taken < instance.records {
            self.recorded[origin] = true;
            return true;
        }
        let mut others = (0..self.recorded.len()).filter(|&at| self.recorded[at]);
        let free = |&at: &usize| !self.owed[at].any() && self.unknown[at].0 == 0;
        let rests = |&at: &usize| free(&at) && !self.doors[at].is_shut();
        let Some(other) = others.clone().find(rests).or_else(|| others.find(free)) else {
            self.forgot = true;
            return false;
        };
        (self.recorded[other], self.recorded[origin]) = (false, true);
        self.doors[other] = Doorway::default();
        true
    }

    /// What is owed to an origin, if there is a place for it.
    pub(super) fn owe(&mut self, instance: &Instance, origin: u8) -> Option<&mut Owed> {
        self.record(instance, origin).then(|| &mut self.owed[usize::from(origin)])
    }

    /// Asks a target after all that waits for it. Returns whether there was anything, and room.
    pub(super) fn ask_after(&mut self, instance: &Instance, to: u8) -> bool {
        let waits = |operation: &ModelOperation| match &operation.action {
            Action::Message { .. } => operation.queued && operation.target == endpoint(to),
            Action::Fence(state) => state.waits_for(endpoint(to)),
        };
        let all = self.operations.iter().enumerate();
        let set = all.filter(|(_, place)| place.as_ref().is_some_and(waits));
        let set = set.fold(0, |set: u64, (number, _)| set | 1 << number);
        let silent = !instance.is_crowded() || instance.has(Fault::NeverAsks);
        if silent || set == 0 || !self.push(instance, to, Packet::Query(set, self.question + 1)) {
            return false;
        }
        self.question += 1;
        for number in bits(set) {
            let question = self.question;
            self.get(number).into_iter().for_each(|operation| operation.question = question);
        }
        true
    }

    /// An origin asks what became of operations.
    pub(super) fn asked(&mut self, instance: &Instance, origin: u8, set: u64, question: u32) {
        let from = usize::from(origin);
        let requests = self.receive_requests.iter().flatten().filter(|request| request.origin == origin);
        let requests = requests.fold(0, |known, request| {
            known
                | match request.answer {
                    Answer::RendezvousDone(message) | Answer::Ack(message) => bit_of(message).unwrap_or(0),
                    Answer::Fences(fences) => fences,
                }
        });
        let kept = self.unexpected.iter().flatten().filter(|kept| kept.origin == origin);
        let kept = kept.fold(0, |known, kept| {
            let quiet = matches!(instance.items[from][usize::from(kept.item)], Item::Quiet(_));
            known | kept.fences | if quiet { 0 } else { bit_of(kept.message).unwrap_or(0) }
        });
        let record = self.owed[from].all() | self.doors[from].refused().and_then(bit_of).unwrap_or(0);
        let known = if instance.has(Fault::KnowsNothing) { 0 } else { requests | kept | record };
        if set & !known != 0 && self.record(instance, origin) {
            self.unknown[from] = (set & !known, question);
        }
    }

    /// A target knows nothing of operations. Returns what is wrong if they end.
    pub(super) fn unknown(
        &mut self,
        instance: &Instance,
        (me, origin): (u8, u8),
        set: u64,
        question: u32,
    ) -> Option<&'static str> {
        let mut wrong = None;
        for number in bits(set) {
            let asks = self.asking >> number & 1 == 1;
            let any = instance.has(Fault::OldAnswers);
            let Some(operation) = self.get(number).filter(|it| any || it.question == question) else {
                continue;
            };
            match &mut operation.action {
                Action::Fence(state) if state.waits_for(endpoint(origin)) => {
                    _ = state.ask_again(endpoint(origin))
                }
                Action::Message { .. } if operation.target != endpoint(origin) => continue,
                Action::Message { .. } if asks => operation.question = 0,
                Action::Message { rendezvous: false } => {
                    wrong = wrong.or(self.ends_early(instance, me, number));
                    self.end(number);
                    continue;
                }
                _ => continue,
            }
            operation.queued = false;
            self.line_up_again(number);
        }
        wrong
    }

    /// It goes again, in its turn.
    fn line_up_again(&mut self, number: u8) {
        if !self.line.contains(&number) {
            self.line.push(number);
        }
        let order = |&number: &u8| self.operations[usize::from(number)].as_ref().map(ModelOperation::order);
        let mut line = std::mem::take(&mut self.line);
        line.sort_unstable_by_key(order);
        self.line = line;
    }

    /// Whether an older message to `target` asks, so that nothing else that asks goes there, and no fence.
    fn is_held(&self, instance: &Instance, order: u64, target: Endpoint) -> bool {
        let mut asking = bits(self.asking).filter_map(|number| self.operations[usize::from(number)].as_ref());
        let holds = instance.is_crowded() && !instance.has(Fault::Unheld);
        holds && asking.any(|asking| asking.target == target && asking.order() < order)
    }

    pub(super) fn free_receive(&self) -> Option<usize> {
        self.receive_requests.iter().position(Option::is_none)
    }

    pub(super) fn room_for(&self, origin: u8) -> usize {
        let used = self.receive_requests.iter().flatten();
        let own = used.clone().filter(|request| request.origin == origin).count();
        share(self.receive_requests.len() - used.count(), own)
    }

    /// The target has let in what asked, up to the operation at this place.
    pub(super) fn let_in(&mut self, number: u8) {
        let Some(answered) = self.get(number).cloned() else { return };
        for number in bits(self.asking) {
            let Some(operation) = self.get(number) else { continue };
            if operation.target == answered.target && is_in(operation.order(), answered.order()) {
                self.asking &= !(1 << number);
            }
        }
    }

    /// What is wrong with a message that its target says to have, and has not; a quiet one's may keep it.
    pub(super) fn ends_early(&mut self, instance: &Instance, me: u8, number: u8) -> Option<&'static str> {
        let item = usize::from(self.get(number)?.item);
        let quiet = matches!(instance.items[usize::from(me)][item], Item::Quiet(_));
        (!quiet && !self.had[item]).then_some("a message ended before it was delivered")
    }

    pub(super) fn end(&mut self, number: u8) {
        self.operations[usize::from(number)] = None;
        self.asking &= !(1 << number);
    }

    /// What lets the messages of an origin in.
    pub(super) fn door(&mut self, instance: &Instance, origin: u8) -> &mut Doorway {
        let at = if instance.has(Fault::OneDoor) { 0 } else { origin };
        &mut self.doors[usize::from(at)]
    }

    /// There is no place for a message.
    pub(super) fn refuse(&mut self, instance: &Instance, origin: u8, message: u32) {
        if !instance.has(Fault::Forgets) {
            self.door(instance, origin).refuse(message);
        }
    }

    /// A message was refused. Returns whether that makes sense.
    pub(super) fn refused(&mut self, instance: &Instance, origin: u8, message: u32) -> bool {
        let number = (message as usize % REQUESTS) as u8;
        let asks = self.asking >> number & 1 == 1;
        let Some(first) = self.get(number).filter(|it| asks && it.target == endpoint(origin)).cloned() else {
            return false;
        };
        for number in 0..self.operations.len() as u8 {
            let asks = self.asking >> number & 1 == 1;
            let Some(operation) = self.get(number).filter(|it| goes_again(it.order(), first.order())) else {
                continue;
            };
            let again = match &mut operation.action {
                Action::Message { .. } if instance.has(Fault::Alone) => operation.item == first.item,
                Action::Message { .. } => asks && operation.target == endpoint(origin),
                Action::Fence(state) => state.ask_again(endpoint(origin)),
            };
            if again {
                (operation.queued, operation.question) = (false, 0);
                self.line_up_again(number);
            }
        }
        true
    }

    /// Queues what has room. Returns whether that is all of it.
    pub(super) fn queue(&mut self, instance: &Instance, me: u8, number: u8) -> bool {
        let Some(mut operation) = self.get(number).cloned() else { return true };
        let message = message_number(operation.order(), number.into());
        let queued = match &mut operation.action {
            Action::Message { rendezvous } => {
                let (to, item) = (node_of(operation.target), operation.item);
                let packet = match (*rendezvous, self.asking >> number & 1 == 1) {
                    (true, _) => Packet::Rts(item, message),
                    (false, true) => Packet::Asked(item, message),
                    (false, false) => Packet::Acked(item, message),
                };
                self.push(instance, to, packet)
            }
            Action::Fence(state) => loop {
                let next = state.next(endpoint(me), |_| None);
                let target = match next {
                    Next::Nobody => break true,
                    Next::Later => break false,
                    Next::Again(_, target) | Next::New(target) => target,
                };
                let held = self.is_held(instance, operation.item.into(), target);
                if held || !self.push(instance, node_of(target), Packet::Fence(message)) {
                    break false;
                }
                match next {
                    Next::Again(at, _) => state.asked_again(at),
                    _ => state.asked(Some(target)),
                }
            },
        };
        operation.queued = queued;
        self.operations[usize::from(number)] = Some(operation);
        queued
    }

    pub(super) fn queue_pending(&mut self, instance: &Instance, me: u8) {
        // All go by one injection FIFO: what finds no room stops what is behind it.
        let mut at = 0;
        while let Some(&number) = self.line.get(at) {
            // One to a single target stands in no line while it is held.
            let held = self.operations[usize::from(number)].as_ref().is_some_and(|operation| {
                let order = operation.order();
                operation.target != endpoint(me) && self.is_held(instance, order, operation.target)
            });
            if held {
                at += 1;
            } else if self.queue(instance, me, number) {
                self.line.remove(at);
            } else {
                return;
            }
        }
    }

    /// Says what is owed, as far as there is room.
    pub(super) fn answer(&mut self, instance: &Instance, origin: u8, calls: bool) {
        let from = usize::from(origin);
        let mut owed = self.owed[from];
        let [acks, admitted, fences] =
            [Owing::Acks, Owing::Admitted, Owing::Fences].map(|owing| owed.of(owing));
        if acks != 0 && self.push(instance, origin, Packet::Acks(acks)) {
            owed.told(Owing::Acks, acks);
        }
        if admitted != 0 && self.push(instance, origin, Packet::Admitted(admitted)) {
            owed.told(Owing::Admitted, admitted);
        }
        let older = |request: &ReceiveRequest, order: u64| {
            request.origin == origin && request.stage == Stage::Deliver && request.order < order
        };
        if let Some(order) = owed.fences_after()
            && !self.receive_requests.iter().flatten().any(|request| older(request, order))
        {
            if !instance.far {
                if self.push(instance, origin, Packet::FenceAcks(fences)) {
                    owed.told(Owing::Fences, fences);
                }
            } else if let Some(number) = self.free_receive() {
                let (order, answer) = (self.arrival(), Answer::Fences(fences));
                owed.told(Owing::Fences, fences);
                let asks = ReceiveRequest { origin, order, item: None, stage: Stage::Asks, answer };
                self.receive_requests[number] = Some(asks);
            }
        }
        self.owed[from] = owed;
        let (unknown, question) = self.unknown[from];
        if unknown != 0 && self.push(instance, origin, Packet::Unknown(unknown, question)) {
            self.unknown[from] = (0, 0);
        }
        if calls
            && let Some(message) = self.doors[from].to_call()
            && self.push(instance, origin, Packet::Retry(message))
        {
            self.doors[from].called();
            if instance.is_crowded() {
                self.doors[from] = Doorway::default();
            }
        }
    }

    pub(super) fn queue_receives(&mut self, instance: &Instance) {
        for number in 0..self.receive_requests.len() {
            let Some(mut request) = self.receive_requests[number] else { continue };
            let origin = request.origin;
            match (request.stage, request.answer) {
                (Stage::Asks, _) => {
                    if self.push(instance, origin, Packet::Get(number as u8)) {
                        request.stage = Stage::Asked;
                    }
                    self.receive_requests[number] = Some(request);
                }
                (Stage::Answer, answer) => {
                    let packet = match answer {
                        Answer::RendezvousDone(message) => Packet::RendezvousDone(message),
                        Answer::Fences(set) => Packet::FenceAcks(set),
                        Answer::Ack(message) => Packet::Acks(bit_of(message).unwrap_or(0)),
                    };
                    if self.push(instance, origin, packet) {
                        self.receive_requests[number] = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the oldest unexpected message, if there is a receive request for it.
    pub(super) fn accept(&mut self, instance: &Instance) -> bool {
        let Some(number) = self.free_receive() else { return false };
        let oldest = self.unexpected.iter_mut().filter(|place| place.is_some());
        let Some(unexpected) =
            oldest.min_by_key(|place| place.map(|unexpected| unexpected.order)).and_then(Option::take)
        else {
            return false;
        };
        let Unexpected { origin, order, item, message, rendezvous, fences } = unexpected;
        let (stage, answer) = if rendezvous {
            (Stage::Asks, Answer::RendezvousDone(message))
        } else {
            (Stage::Deliver, Answer::Ack(message))
        };
        self.receive_requests[number] =
            Some(ReceiveRequest { origin, order, item: Some(item), stage, answer });
        if fences != 0 && !self.hold_fences(origin, order, fences) {
            let now = self.arrival();
            self.owe(instance, origin).into_iter().for_each(|owed| owed.fence(fences, now));
        }
        true
    }

    pub(super) fn hold_fences(&mut self, origin: u8, order: u64, fences: u64) -> bool {
        let own = self.unexpected.iter_mut().flatten().filter(|unexpected| unexpected.origin == origin);
        hold(own.map(|unexpected| (unexpected.order, &mut unexpected.fences)), order, fences)
    }
}
