//! Receptions of a context: what they pull, tell and call (SPEC P-6, F-2).

use super::{Active, Reception, Stage};
use crate::device::{Completed, OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Blocked, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::reception::{Answer, LANDING_BYTES};
use crate::region::RegionId;

impl<P: Port> Active<P> {
    /// Begins a reception at a place that is free or reserved for it.
    pub(crate) fn receive_at(
        &mut self,
        number: u8,
        origin: Endpoint,
        order: u64,
        answer: Option<Answer>,
        stage: Stage<P>,
    ) {
        let mut ended = None;
        match &stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that died before is not told of again.
                ended = self.gone_home(origin).map(Err);
                if let Stage::Whole { len: 0, .. } = stage {
                    ended = ended.or(Some(Ok(())));
                }
            }
            Stage::Deliver(..) => ended = Some(Ok(())),
            _ => {}
        }
        if ended.is_some() {
            self.receptions.settling |= 1 << number;
        } else {
            // As long as there are receptions.
            let _ = self.receptions.line.push(number);
        }
        self.receptions.reserve(number);
        self.receptions.put(number, Reception { origin, order, answer, ended, stage });
        self.note_work();
    }

    /// Once round the line, as with operations. Returns how many left it.
    pub(crate) fn queue_receptions(&mut self, blocked: &mut Blocked) -> usize {
        if self.receptions.line.is_empty() {
            return 0;
        }
        let mut line = core::mem::take(&mut self.receptions.line);
        let before = line.len();
        line.retain(|&number| !self.queue_reception(number, blocked));
        self.receptions.line = line;
        before - self.receptions.line.len()
    }

    /// Queues what a reception has to send. Returns whether it is.
    fn queue_reception(&mut self, number: u8, blocked: &mut Blocked) -> bool {
        let Some(reception) = self.receptions.get(number) else { return true };
        let origin = reception.origin;
        let path = match reception.stage {
            Stage::Answer => self.transport.locate(origin).ok(),
            _ => self.transport.port.node_of(origin.task()).map(Path::Torus),
        };
        let Some(path) = path else {
            // It died, or never was.
            self.free_reception(number);
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let queued = self.push_for_reception(number, path);
        if queued == Some(false) {
            let _ = blocked.push(path);
        }
        queued == Some(true)
    }

    /// Whether the packet was queued; `None` if not for want of landing memory.
    fn push_for_reception(&mut self, number: u8, path: Path) -> Option<bool> {
        let me = self.transport.me;
        let reception = self.receptions.places.get_mut(usize::from(number))?.as_mut()?;
        let mut envelope = Envelope {
            kind: Kind::Get,
            dispatch: 0,
            origin: me,
            target: reception.origin,
            message: message_number(reception.order, OPERATIONS + usize::from(number)),
            offset: 0,
            total: 0,
        };
        let port = &mut self.transport.port;
        match (&mut reception.stage, path) {
            (Stage::Whole { region, into, len, .. }, Path::Torus(node)) => {
                envelope.total = *len;
                Some(port.push_get(node, &envelope, *region, Some((into, 0)), true).is_ok())
            }
            (Stage::Pieces { region, partial, landing }, Path::Torus(node)) => {
                let memory = self.receptions.landing.take()?;
                envelope.offset = partial.received;
                envelope.total = (partial.total - partial.received).min(LANDING_BYTES as u32);
                let queued = port.push_get(node, &envelope, *region, Some((&memory, 0)), true).is_ok();
                if queued {
                    *landing = Some((memory, envelope.total));
                } else {
                    self.receptions.landing = Some(memory);
                }
                Some(queued)
            }
            (stage @ Stage::FenceAsks, Path::Torus(node)) => {
                let queued = port.push_get(node, &envelope, RegionId::NONE, None, true).is_ok();
                if queued {
                    *stage = Stage::FenceAsked;
                }
                Some(queued)
            }
            (Stage::Answer, path) => {
                let queued = match reception.answer {
                    None | Some(Answer::Ack(_)) => true,
                    Some(Answer::RendezvousDone(message)) => {
                        let envelope = Envelope { kind: Kind::RendezvousDone, message, ..envelope };
                        port.push_bcopy(path, &envelope, &[], &[]).is_ok()
                    }
                    Some(Answer::Fences(set)) => {
                        let envelope = Envelope { kind: Kind::FenceAck, message: 0, ..envelope };
                        port.push_bcopy(path, &envelope, &[], &set.to_le_bytes()).is_ok()
                    }
                };
                if queued {
                    self.free_reception(number);
                }
                Some(queued)
            }
            _ => Some(true),
        }
    }

    /// A get of a reception has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        let index = completed.message as usize % REQUESTS;
        let number = (index - OPERATIONS) as u8;
        let Some(reception) = self.receptions.get(number) else { return };
        if message_number(reception.order, index) == completed.message {
            reception.ended = Some(completed.result.map(drop).map_err(OperationError::Region));
            self.receptions.settling |= 1 << number;
        }
    }

    /// The origin of a reception died: nothing more comes, and nobody is to be told.
    pub(crate) fn abandon_reception(&mut self, number: u8, error: OperationError) {
        let Some(reception) = self.receptions.get(number) else { return };
        reception.answer = None;
        match reception.stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that has ended before is told as it ended.
                reception.ended.get_or_insert(Err(error));
                self.receptions.settling |= 1 << number;
            }
            Stage::Deliver(..) => {}
            _ => self.free_reception(number),
        }
        self.receptions.line.retain(|&other| other != number);
    }

    /// Goes on with the receptions that something has become of. Returns how many moved.
    pub(crate) fn settle_receptions(&mut self) -> usize {
        bits(self.receptions.settling).filter(|&number| self.settle_reception(number)).count()
    }

    fn settle_reception(&mut self, number: u8) -> bool {
        // While its callback runs the place is reserved, and empty.
        let Some(mut reception) = self.receptions.take(number) else { return false };
        let (origin, ended) = (reception.origin, reception.ended.take());
        let Some(result) = ended else {
            self.receptions.put(number, reception);
            return false;
        };
        match reception.stage {
            Stage::Whole { region, into, len, total, then } => match into.reclaim() {
                Ok(buffer) => {
                    let len = if result.is_ok() { len as usize } else { 0 };
                    let total = total as usize;
                    (then.call)(self, Received { origin, buffer, len, total, result, cookie: then.cookie });
                }
                Err(into) => {
                    let stage = Stage::Whole { region, into, len, total, then };
                    self.receptions.put(number, Reception { ended, stage, ..reception });
                    return false;
                }
            },
            Stage::Pieces { region, mut partial, landing } => {
                if let Some((memory, len)) = landing {
                    match memory.reclaim() {
                        Ok(buffer) => {
                            if result.is_ok() {
                                let data = buffer.as_slice().get(..len as usize).unwrap_or_default();
                                self.absorb(&mut partial, data);
                            }
                            self.receptions.landing = Some(buffer.share());
                        }
                        Err(memory) => {
                            let stage = Stage::Pieces { region, partial, landing: Some((memory, len)) };
                            self.receptions.put(number, Reception { ended, stage, ..reception });
                            return false;
                        }
                    }
                }
                if result.is_ok() && partial.received < partial.total {
                    self.receptions.settling &= !(1 << number);
                    let _ = self.receptions.line.push(number);
                    let stage = Stage::Pieces { region, partial, landing: None };
                    self.receptions.put(number, Reception { stage, ..reception });
                    return true;
                }
                self.deliver(partial, result);
            }
            Stage::Deliver(received, then) => (then.call)(self, received),
            // A fence.
            _ => {}
        }
        reception.stage = Stage::Answer;
        self.receptions.settling &= !(1 << number);
        if let Some(Answer::Ack(message)) =
            reception.answer.take_if(|answer| matches!(answer, Answer::Ack(_)))
        {
            self.owe_ack(origin, message);
        }
        if reception.answer.is_some() {
            let _ = self.receptions.line.push(number);
            self.receptions.put(number, reception);
        } else {
            self.free_reception(number);
        }
        true
    }

    /// Ends a reception: others may have been refused for want of its place.
    fn free_reception(&mut self, number: u8) {
        self.receptions.free(number);
        self.acks.note_room();
    }
}
