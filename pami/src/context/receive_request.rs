//! Receive requests of a context: what they pull, tell and call (SPEC P-6, F-2).

use super::{Active, ReceiveRequest, Stage};
use crate::device::{Completed, OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Blocked, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::receive_request::{Answer, LANDING_BYTES};
use crate::region::RegionId;

impl<P: Port> Active<P> {
    /// Begins a receive request at a place that is free or reserved for it.
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
            self.receive_requests.settling |= 1 << number;
        } else {
            // As long as there are receive requests.
            let _ = self.receive_requests.line.push(number);
        }
        self.receive_requests.reserve(number);
        self.receive_requests.put(number, ReceiveRequest { origin, order, answer, ended, stage });
        self.note_work();
    }

    /// Once round the line, as with operations. Returns how many left it.
    pub(crate) fn queue_receives(&mut self, blocked: &mut Blocked) -> usize {
        if self.receive_requests.line.is_empty() {
            return 0;
        }
        let mut line = core::mem::take(&mut self.receive_requests.line);
        let before = line.len();
        line.retain(|&number| !self.queue_receive(number, blocked));
        self.receive_requests.line = line;
        before - self.receive_requests.line.len()
    }

    /// Queues what a receive request has to send. Returns whether it is.
    fn queue_receive(&mut self, number: u8, blocked: &mut Blocked) -> bool {
        let Some(request) = self.receive_requests.get(number) else { return true };
        let origin = request.origin;
        let path = match request.stage {
            Stage::Answer => self.transport.locate(origin).ok(),
            _ => self.transport.port.node_of(origin.task()).map(Path::Torus),
        };
        let Some(path) = path else {
            // It died, or never was.
            self.free_receive(number);
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
        let request = self.receive_requests.places.get_mut(usize::from(number))?.as_mut()?;
        let mut envelope = Envelope {
            kind: Kind::Get,
            dispatch: 0,
            origin: me,
            target: request.origin,
            message: message_number(request.order, OPERATIONS + usize::from(number)),
            offset: 0,
            total: 0,
        };
        let port = &mut self.transport.port;
        match (&mut request.stage, path) {
            (Stage::Whole { region, into, len, .. }, Path::Torus(node)) => {
                envelope.total = *len;
                Some(port.push_get(node, &envelope, *region, Some((into, 0)), true).is_ok())
            }
            (Stage::Pieces { region, partial, landing }, Path::Torus(node)) => {
                let memory = self.receive_requests.landing.take()?;
                envelope.offset = partial.received;
                envelope.total = (partial.total - partial.received).min(LANDING_BYTES as u32);
                let queued = port.push_get(node, &envelope, *region, Some((&memory, 0)), true).is_ok();
                if queued {
                    *landing = Some((memory, envelope.total));
                } else {
                    self.receive_requests.landing = Some(memory);
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
                let queued = match request.answer {
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
                    self.free_receive(number);
                }
                Some(queued)
            }
            _ => Some(true),
        }
    }

    /// A get of a receive request has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        let index = completed.message as usize % REQUESTS;
        let number = (index - OPERATIONS) as u8;
        let Some(request) = self.receive_requests.get(number) else { return };
        if message_number(request.order, index) == completed.message {
            request.ended = Some(completed.result.map(drop).map_err(OperationError::Region));
            self.receive_requests.settling |= 1 << number;
        }
    }

    /// The origin of a receive request died: nothing more comes, and nobody is to be told.
    pub(crate) fn abandon_reception(&mut self, number: u8, error: OperationError) {
        let Some(request) = self.receive_requests.get(number) else { return };
        request.answer = None;
        match request.stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that has ended before is told as it ended.
                request.ended.get_or_insert(Err(error));
                self.receive_requests.settling |= 1 << number;
            }
            Stage::Deliver(..) => {}
            _ => self.free_receive(number),
        }
        self.receive_requests.line.retain(|&other| other != number);
    }

    /// Goes on with the receive requests that something has become of. Returns how many moved.
    pub(crate) fn settle_receives(&mut self) -> usize {
        bits(self.receive_requests.settling).filter(|&number| self.settle_receive(number)).count()
    }

    fn settle_receive(&mut self, number: u8) -> bool {
        // While its callback runs the place is reserved, and empty.
        let Some(mut request) = self.receive_requests.take(number) else { return false };
        let (origin, ended) = (request.origin, request.ended.take());
        let Some(result) = ended else {
            self.receive_requests.put(number, request);
            return false;
        };
        match request.stage {
            Stage::Whole { region, into, len, total, then } => match into.reclaim() {
                Ok(buffer) => {
                    let len = if result.is_ok() { len as usize } else { 0 };
                    let total = total as usize;
                    (then.call)(self, Received { origin, buffer, len, total, result, cookie: then.cookie });
                }
                Err(into) => {
                    let stage = Stage::Whole { region, into, len, total, then };
                    self.receive_requests.put(number, ReceiveRequest { ended, stage, ..request });
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
                                partial.received += data.len() as u32;
                            }
                            self.receive_requests.landing = Some(buffer.share());
                        }
                        Err(memory) => {
                            let stage = Stage::Pieces { region, partial, landing: Some((memory, len)) };
                            self.receive_requests.put(number, ReceiveRequest { ended, stage, ..request });
                            return false;
                        }
                    }
                }
                if result.is_ok() && partial.received < partial.total {
                    self.receive_requests.settling &= !(1 << number);
                    let _ = self.receive_requests.line.push(number);
                    let stage = Stage::Pieces { region, partial, landing: None };
                    self.receive_requests.put(number, ReceiveRequest { stage, ..request });
                    return true;
                }
                self.deliver(partial, result);
            }
            Stage::Deliver(received, then) => (then.call)(self, received),
            // A fence.
            _ => {}
        }
        request.stage = Stage::Answer;
        self.receive_requests.settling &= !(1 << number);
        if let Some(Answer::Ack(message)) = request.answer.take_if(|answer| matches!(answer, Answer::Ack(_)))
        {
            self.owe_ack(origin, message);
        }
        if request.answer.is_some() {
            let _ = self.receive_requests.line.push(number);
            self.receive_requests.put(number, request);
        } else {
            self.free_receive(number);
        }
        true
    }

    /// Ends a receive request: others may have been refused for want of its place.
    fn free_receive(&mut self, number: u8) {
        self.receive_requests.free(number);
        self.acks.note_room();
    }
}
