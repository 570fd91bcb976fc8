//! What a context owes to origins: noted when it arises, sent when there is room (SPEC R-1).

use super::{Active, Stage};
use crate::acks::{Lack, Owed, Owing, Record, bit_of};
use crate::device::{Path, Port, Unreachable};
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use crate::receive_request::Answer;
use crate::region::RegionFault;

impl<P: Port> Active<P> {
    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint.
    #[inline]
    fn owe(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let Self { acks, port, transport, busy, stalled, .. } = self;
        let is_there = || transport.locate(port, origin) != Err(Unreachable::NoSuchEndpoint);
        let record = acks.owe(origin, is_there)?;
        (*busy, *stalled) = (true, 0);
        Some(record)
    }

    /// As [`owe`](Self::owe), for an operation of the origin.
    fn owe_for(&mut self, origin: Endpoint, message: u32, note: impl FnOnce(&mut Owed, u64)) {
        if let Some(bit) = bit_of(message)
            && let Some(record) = self.owe(origin)
        {
            note(record.owed(), bit);
        } else {
            self.transport.protocol_error();
        }
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

    /// Notes that fences of `origin` are to be answered once the callbacks of what came before `order` have been called.
    pub(crate) fn owe_fences(&mut self, origin: Endpoint, fences: u64, order: u64) {
        if let Some(record) = self.owe(origin) {
            record.owed().fence(fences, order);
        } else {
            self.transport.protocol_error();
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
        if self.acks.is_empty() { 0 } else { self.send_all_answers(blocked) }
    }

    #[inline(never)]
    fn send_all_answers(&mut self, blocked: &mut Blocked) -> usize {
        let mut events = 0;
        for _ in 0..self.acks.len() {
            let Some((at, mut record)) = self.acks.take_next() else { break };
            events += self.answer(&mut record, blocked);
            self.acks.put_back(at, record);
        }
        self.acks.end_round();
        events
    }

    fn answer(&mut self, record: &mut Record, blocked: &mut Blocked) -> usize {
        let origin = record.origin();
        let Ok(path) = self.transport.locate(&self.port, origin) else {
            // The origin died.
            record.forget();
            return 0;
        };
        let mut told = self.tell_owed((path, origin), record, Owing::Acks, blocked);
        told += self.tell_owed((path, origin), record, Owing::Admitted, blocked);
        if record.owed().has_refused() {
            for fault in RegionFault::ALL {
                told += self.tell_owed((path, origin), record, Owing::Refusals(fault), blocked);
            }
        }
        if let Some(order) = record.owed().fences_after()
            && !self.receive_requests.delivers_older(origin, order)
        {
            told += match path {
                Path::Local(_) => self.tell_owed((path, origin), record, Owing::Fences, blocked),
                Path::Torus(_) => self.ask_for_fences(record),
            };
        }
        told + self.call(path, record, blocked)
    }

    /// Begins the second step of fences, if there is a place for it. Returns how many receive requests that takes.
    fn ask_for_fences(&mut self, record: &mut Record) -> usize {
        let Some(number) = self.receive_requests.free_place() else { return 0 };
        let fences = record.owed().of(Owing::Fences);
        record.owed().told(Owing::Fences, fences);
        let order = self.transport.next_order();
        self.receive_at(number, record.origin(), order, Some(Answer::Fences(fences)), Stage::FenceAsks);
        1
    }

    /// Has an origin send again what was refused, if it is time. Returns the number of packets that went out.
    fn call(&mut self, path: Path, record: &mut Record, blocked: &mut Blocked) -> usize {
        let Some((message, lack)) = record.next_call() else { return 0 };
        let origin = record.origin();
        let room = match lack {
            Lack::ReceiveRequest => self.receive_requests.has_much_room_for(origin),
            Lack::Unexpected(len) => self.unexpected.has_free(len as usize),
            Lack::Half => self.has_half_for(origin),
        };
        let freed = self.acks.has_freed() && room;
        if !freed && record.pauses() {
            return 0;
        }
        let told = self.tell_origin((path, origin), (Kind::Retry, 0, message), &[], blocked);
        if told {
            record.called();
        }
        self.acks.note_call(told, freed);
        usize::from(told)
    }

    /// Has an origin know of the operations that are to hear this, if there are any. Returns the number of packets that went
    /// out.
    fn tell_owed(
        &mut self,
        whom: (Path, Endpoint),
        record: &mut Record,
        owing: Owing,
        blocked: &mut Blocked,
    ) -> usize {
        let set = record.owed().of(owing);
        let (kind, dispatch) = match owing {
            Owing::Acks => (Kind::Ack, 0),
            Owing::Admitted => (Kind::Admitted, 0),
            Owing::Refusals(fault) => (Kind::Refused, fault as u8),
            Owing::Fences => (Kind::FenceAck, 0),
        };
        if set == 0 || !self.tell_origin(whom, (kind, dispatch, 0), &set.to_le_bytes(), blocked) {
            return 0;
        }
        record.owed().told(owing, set);
        1
    }

    /// Whether an answer went out. Notes its path if that has no room.
    fn tell_origin(
        &mut self,
        (path, target): (Path, Endpoint),
        (kind, dispatch, message): (Kind, u8, u32),
        data: &[u8],
        blocked: &mut Blocked,
    ) -> bool {
        if blocked.contains(&path) {
            return false;
        }
        let envelope =
            Envelope { kind, dispatch, origin: self.transport.me(), target, message, offset: 0, total: 0 };
        let sent = self.port.push_bcopy(path, &envelope, &[], data).is_ok();
        if !sent {
            let _ = blocked.push(path);
        }
        sent
    }
}
