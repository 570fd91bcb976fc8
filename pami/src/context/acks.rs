//! What a context owes to origins: noted when it arises, sent when there is room (SPEC R-1).

use super::{Active, Due, Stage};
use crate::acks::{Lack, Owed, Owing, Record, bit_of};
use crate::device::{Path, Port, Unreachable};
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use crate::receive_request::Answer;
use crate::region::RegionFault;

impl<P: Port> Active<P> {
    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint, or there is no
    /// place.
    #[inline]
    fn owe(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let Self { acks, port, transport, incoming, due, .. } = self;
        let is_there = || transport.locate(port, origin) != Err(Unreachable::NoSuchEndpoint);
        let record = acks.owe(origin, is_there, |other| incoming.has(other))?;
        *due = Due::ALL;
        Some(record)
    }

    /// There is no record for an answer: its origin does not exist, or will ask. Returns whether it will.
    #[cold]
    fn owe_nothing(&mut self, origin: Endpoint) -> bool {
        let is_there = self.transport.locate(&self.port, origin) != Err(Unreachable::NoSuchEndpoint);
        let asks = is_there && self.acks.is_crowded();
        if asks {
            self.acks.forget_answer();
        } else {
            self.transport.protocol_error();
        }
        asks
    }

    /// Sees to it that a message which asks to be let in can be answered. Without a record for its origin it is not looked at.
    #[inline]
    pub(crate) fn can_answer(&mut self, origin: Endpoint) -> bool {
        !self.acks.is_crowded() || self.has_record_for(origin)
    }

    #[cold]
    #[inline(never)]
    fn has_record_for(&mut self, origin: Endpoint) -> bool {
        let has = self.owe(origin).is_some();
        if has {
            self.acks.pin(origin);
        } else {
            self.owe_nothing(origin);
        }
        has
    }

    /// As [`owe`](Self::owe), for an operation of the origin. Returns whether there was no place and the origin will ask.
    fn owe_for(&mut self, origin: Endpoint, message: u32, note: impl FnOnce(&mut Owed, u64)) -> bool {
        let Some(bit) = bit_of(message) else {
            self.transport.protocol_error();
            return false;
        };
        let Some(record) = self.owe(origin) else { return self.owe_nothing(origin) };
        note(record.owed(), bit);
        false
    }

    /// Notes that `origin` is to hear of `message`.
    pub(crate) fn owe_ack(&mut self, origin: Endpoint, message: u32) {
        self.owe_for(origin, message, Owed::acknowledge);
    }

    /// Notes that `origin` is to hear that its `message` is kept.
    pub(crate) fn owe_admission(&mut self, origin: Endpoint, message: u32) {
        self.owe_for(origin, message, Owed::admit);
    }

    /// Notes that `origin` is to hear that its `message` was not processed.
    pub(crate) fn owe_refusal(&mut self, origin: Endpoint, message: u32, fault: RegionFault) {
        self.owe_for(origin, message, |owed, bit| owed.refuse(bit, fault));
    }

    /// Notes that `origin` is to hear that its put with signal `message` was refused. It hears at least that some were.
    #[cold]
    pub(crate) fn owe_refused_signal(&mut self, origin: Endpoint, message: u32, fault: RegionFault) {
        if self.owe_for(origin, message, |owed, bit| owed.refuse(bit, fault)) {
            self.acks.forget_refusal();
        }
    }

    /// Notes that fences of `origin` are to be answered once the callbacks of what came before `order` have been called.
    pub(crate) fn owe_fences(&mut self, origin: Endpoint, fences: u64, order: u64) {
        match self.owe(origin) {
            Some(record) => record.owed().fence(fences, order),
            None => (0..fences.count_ones()).for_each(|_| _ = self.owe_nothing(origin)),
        }
    }

    /// Notes that `origin` is to hear that nothing is known of these operations, in answer to question `number`. Without a
    /// place it asks again.
    pub(crate) fn owe_unknown(&mut self, origin: Endpoint, operations: u64, number: u32) {
        if let Some(record) = self.owe(origin) {
            let asked = record.does_not_know(operations, number);
            self.acks.note_question(asked);
        }
    }

    /// Leaves a message with its origin until there is a place for it.
    pub(crate) fn refuse(&mut self, envelope: &Envelope, lack: Lack) {
        let Some(record) = self.owe(envelope.origin) else {
            self.transport.protocol_error();
            return;
        };
        record.refuse(envelope.message, lack);
    }

    /// Once round those that something is owed to. Returns the number of packets that went out.
    pub(crate) fn send_answers(&mut self, blocked: &mut Blocked) -> usize {
        if self.acks.turns() == 0 { 0 } else { self.send_all_answers(blocked) }
    }

    #[inline(never)]
    fn send_all_answers(&mut self, blocked: &mut Blocked) -> usize {
        let mut events = 0;
        // In a crowded job one more than there are, which does no harm.
        for _ in 0..self.acks.turns() {
            let Some(at) = self.acks.take_turn() else { break };
            events += self.answer(at, blocked);
        }
        self.acks.end_round();
        if self.acks.is_crowded() { events + self.look_after(blocked) } else { events }
    }

    fn answer(&mut self, at: usize, blocked: &mut Blocked) -> usize {
        let Self { acks, port, transport, receive_requests, .. } = self;
        let forgot = acks.has_forgotten_refusals();
        let Some(record) = acks.at(at) else { return 0 };
        let origin = record.origin();
        let Ok(path) = transport.locate(port, origin) else {
            // The origin died.
            record.forget();
            return 0;
        };
        let mut teller = Teller { port, me: transport.me(), path, origin, blocked };
        let mut told = teller.tell_owed(record, Owing::Acks);
        told += teller.tell_owed(record, Owing::Admitted);
        if record.owed().has_refused() {
            for fault in RegionFault::ALL {
                told += teller.tell_owed(record, Owing::Refusals(fault));
            }
        }
        let mut second_step = None;
        if let Some(order) = record.owed().fences_after()
            && !receive_requests.delivers_older(origin, order)
        {
            match path {
                Path::Local(_) => told += teller.tell_owed(record, Owing::Fences),
                // If there is a place for it.
                Path::Torus(_) => {
                    second_step = receive_requests.free_place().map(|number| (number, record.take_fences()));
                }
            }
        }
        let (unknown, question) = record.unknown();
        if unknown != 0 && teller.tell((Kind::Unknown, forgot.into(), question), &unknown.to_le_bytes()) {
            record.told_unknown();
            told += 1;
        }
        // If something is owed on, it is the last now.
        let owes = record.owes();
        let call = if owes { record.next_call() } else { None };
        if owes {
            acks.list(at);
        }
        if let Some((number, fences)) = second_step {
            let order = self.transport.next_order();
            self.receive_at(number, origin, order, Some(Answer::Fences(fences)), Stage::FenceAsks);
            told += 1;
        }
        match call {
            Some(call) => told + self.call((path, origin), at, call, blocked),
            None => told,
        }
    }

    /// Has an origin send again what was refused, if it is time. Returns the number of packets that went out.
    fn call(
        &mut self,
        (path, origin): (Path, Endpoint),
        at: usize,
        (message, lack, pauses): (u32, Lack, bool),
        blocked: &mut Blocked,
    ) -> usize {
        let room = match lack {
            Lack::ReceiveRequest => self.receive_requests.has_much_room_for(origin),
            Lack::Unexpected(len) => self.unexpected.has_free(len as usize),
            Lack::Half => self.has_half_for(origin),
        };
        let freed = self.acks.has_freed() && room;
        if !freed && pauses {
            return 0;
        }
        let crowded = self.acks.is_crowded();
        let told = self.teller((path, origin), blocked).tell((Kind::Retry, 0, message), &[]);
        if let Some(record) = self.acks.at(at).filter(|_| told) {
            record.called(crowded);
        }
        self.acks.note_call(told, freed);
        usize::from(told)
    }

    /// To tell one endpoint something.
    pub(crate) fn teller<'a>(
        &'a mut self,
        (path, origin): (Path, Endpoint),
        blocked: &'a mut Blocked,
    ) -> Teller<'a, P> {
        Teller { port: &mut self.port, me: self.transport.me(), path, origin, blocked }
    }
}

/// Tells one endpoint what it waits for.
pub(crate) struct Teller<'a, P: Port> {
    port: &'a mut P,
    me: Endpoint,
    path: Path,
    origin: Endpoint,
    blocked: &'a mut Blocked,
}

impl<P: Port> Teller<'_, P> {
    /// Has it know of the operations that are to hear this, if there are any. Returns the number of packets that went out.
    #[inline(always)]
    fn tell_owed(&mut self, record: &mut Record, owing: Owing) -> usize {
        let set = record.owed().of(owing);
        if set == 0 { 0 } else { self.tell_set(record, owing, set) }
    }

    #[inline(never)]
    fn tell_set(&mut self, record: &mut Record, owing: Owing, set: u64) -> usize {
        let (kind, dispatch) = match owing {
            Owing::Acks => (Kind::Ack, 0),
            Owing::Admitted => (Kind::Admitted, 0),
            Owing::Refusals(fault) => (Kind::Refused, fault as u8),
            Owing::Fences => (Kind::FenceAck, 0),
        };
        if !self.tell((kind, dispatch, 0), &set.to_le_bytes()) {
            return 0;
        }
        record.owed().told(owing, set);
        1
    }

    /// Whether a packet went out. Notes its path if that has no room.
    pub(crate) fn tell(&mut self, (kind, dispatch, message): (Kind, u8, u32), data: &[u8]) -> bool {
        if self.blocked.contains(&self.path) {
            return false;
        }
        let (origin, target) = (self.me, self.origin);
        let envelope = Envelope { kind, dispatch, origin, target, message, offset: 0, total: 0 };
        let sent = self.port.push_bcopy(self.path, &envelope, &[], data).is_ok();
        if !sent {
            let _ = self.blocked.push(self.path);
        }
        sent
    }
}
