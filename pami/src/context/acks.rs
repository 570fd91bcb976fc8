//! What a context owes to origins: noted when it arises, sent when there is room (SPEC R-1).

use super::{Active, Stage};
use crate::acks::{Lack, MOST_PAUSE, Owed, Record, bit_of};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use crate::receive_request::Answer;
use crate::region::RegionFault;

impl<P: Port> Active<P> {
    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint.
    #[inline]
    fn owe(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let at = self.acks.find(origin)?;
        if self.acks.places[at].is_none() {
            if self.transport.locate(origin) == Err(crate::device::Unreachable::NoSuchEndpoint) {
                return None;
            }
            self.acks.places[at] = Some(Record::new(origin));
        }
        self.acks.list(at);
        self.note_work();
        self.acks.places[at].as_mut()
    }

    /// As [`owe`](Self::owe), for an operation of the origin.
    fn owe_for(&mut self, origin: Endpoint, message: u32, note: impl FnOnce(&mut Owed, u64)) {
        if let Some(bit) = bit_of(message)
            && let Some(record) = self.owe(origin)
        {
            note(&mut record.owed, bit);
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
            record.owed.fence(fences, order);
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
        record.door.refuse(envelope.message);
        record.lack = lack;
        record.rounds = record.pause;
        record.pause = (record.pause * 2).min(MOST_PAUSE);
    }

    /// Once round those that something is owed to. Returns the number of packets that went out.
    pub(crate) fn send_answers(&mut self, blocked: &mut Blocked) -> usize {
        if self.acks.is_empty() { 0 } else { self.send_all_answers(blocked) }
    }

    #[inline(never)]
    fn send_all_answers(&mut self, blocked: &mut Blocked) -> usize {
        let mut events = 0;
        for _ in 0..self.acks.listed {
            let Some(at) = self.acks.unlist() else { break };
            let Some(mut record) = self.acks.places[at].take() else { break };
            events += self.answer(&mut record, blocked);
            let owes = record.owes();
            self.acks.places[at] = Some(record);
            if owes {
                self.acks.list(at);
            }
        }
        self.acks.freed &= core::mem::take(&mut self.acks.waits);
        events
    }

    fn answer(&mut self, record: &mut Record, blocked: &mut Blocked) -> usize {
        let Ok(path) = self.transport.locate(record.origin) else {
            // The origin died.
            record.forget();
            return 0;
        };
        let origin = record.origin;
        let mut told = 0;
        told += self.tell_set((path, origin), (Kind::Ack, 0), &mut record.owed.acks, blocked);
        told += self.tell_set((path, origin), (Kind::Admitted, 0), &mut record.owed.admitted, blocked);
        if record.owed.refusals != 0 {
            for fault in RegionFault::ALL {
                let mut set = record.owed.refused_for(fault);
                let all = set;
                told += self.tell_set((path, origin), (Kind::Refused, fault as u8), &mut set, blocked);
                record.owed.refusals &= !(all & !set);
            }
        }
        if record.owed.fences != 0 && !self.receive_requests.delivers_older(origin, record.owed.fence_order) {
            match path {
                Path::Local(_) => {
                    told +=
                        self.tell_set((path, origin), (Kind::FenceAck, 0), &mut record.owed.fences, blocked);
                }
                Path::Torus(_) => told += self.ask_for_fences(record),
            }
        }
        told + self.call(path, record, blocked)
    }

    /// Begins the second step of fences, if there is a place for it. Returns how many receive requests that takes.
    fn ask_for_fences(&mut self, record: &mut Record) -> usize {
        let Some(number) = self.receive_requests.free_place() else { return 0 };
        let answer = Answer::Fences(core::mem::take(&mut record.owed.fences));
        let order = self.transport.next_order();
        self.receive_at(number, record.origin, order, Some(answer), Stage::FenceAsks);
        1
    }

    /// Has an origin send again what was refused, if it is time. Returns the number of packets that went out.
    fn call(&mut self, path: Path, record: &mut Record, blocked: &mut Blocked) -> usize {
        let Some(message) = record.door.to_call() else { return 0 };
        record.rounds = record.rounds.saturating_sub(1);
        let room = match record.lack {
            Lack::ReceiveRequest => self.receive_requests.has_much_room_for(record.origin),
            Lack::Unexpected(len) => self.unexpected.has_free(len as usize),
            Lack::Half => self.has_half_for(record.origin),
        };
        let freed = self.acks.freed && room;
        if !freed && record.rounds > 0 {
            return 0;
        }
        let told = self.tell_origin((path, record.origin), (Kind::Retry, 0, message), &[], blocked);
        if told {
            record.door.called();
            self.acks.freed &= !freed;
        } else {
            self.acks.waits |= freed;
        }
        usize::from(told)
    }

    /// Has an origin know of the operations in a set, if there are any. Returns the number of packets that went out.
    fn tell_set(
        &mut self,
        whom: (Path, Endpoint),
        (kind, dispatch): (Kind, u8),
        set: &mut u64,
        blocked: &mut Blocked,
    ) -> usize {
        if *set == 0 || !self.tell_origin(whom, (kind, dispatch, 0), &set.to_le_bytes(), blocked) {
            return 0;
        }
        *set = 0;
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
            Envelope { kind, dispatch, origin: self.transport.me, target, message, offset: 0, total: 0 };
        let sent = self.transport.port.push_bcopy(path, &envelope, &[], data).is_ok();
        if !sent {
            let _ = blocked.push(path);
        }
        sent
    }
}
