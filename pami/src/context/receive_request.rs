//! Receive requests of a context: what they pull, tell and call (SPEC P-6, F-2).

use super::{Active, ReceiveRequest, Stage};
use crate::device::{Completed, OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Blocked, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::receive_request::Answer;

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
        self.receive_requests.begin(number, ReceiveRequest { origin, order, answer, ended, stage });
        self.note_work();
    }

    /// Once round the line, as with operations. Returns how many left it.
    pub(crate) fn queue_receives(&mut self, blocked: &mut Blocked) -> usize {
        if !self.receive_requests.has_pending() {
            return 0;
        }
        let mut line = self.receive_requests.take_line();
        let before = line.len();
        line.retain(|&number| !self.queue_receive(number, blocked));
        let left = before - line.len();
        self.receive_requests.keep_line(line);
        left
    }

    /// Queues what a receive request has to send. Returns whether it is.
    #[inline(never)]
    fn queue_receive(&mut self, number: u8, blocked: &mut Blocked) -> bool {
        let Some(request) = self.receive_requests.get(number) else { return true };
        let origin = request.origin;
        let answers = matches!(request.stage, Stage::Answer);
        let path = if answers {
            self.transport.locate(&self.port, origin).ok()
        } else {
            self.port.node_of(origin.task()).map(Path::Torus)
        };
        let Some(path) = path else {
            // It died, or never was.
            self.free_receive(number);
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let envelope = Envelope {
            kind: Kind::Get,
            dispatch: 0,
            origin: self.transport.me(),
            target: origin,
            message: message_number(request.order, OPERATIONS + usize::from(number)),
            offset: 0,
            total: 0,
        };
        let queued = self.receive_requests.push(number, &mut self.port, path, envelope);
        match queued {
            Some(true) if answers => self.free_receive(number),
            Some(false) => _ = blocked.push(path),
            _ => {}
        }
        queued == Some(true)
    }

    /// A get of a receive request has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        let index = completed.message as usize % REQUESTS;
        let number = (index - OPERATIONS) as u8;
        let Some(request) = self.receive_requests.get(number) else { return };
        if message_number(request.order, index) == completed.message {
            self.receive_requests.end(number, completed.result.map(drop).map_err(OperationError::Region));
        }
    }

    /// The origin of a receive request died: nothing more comes, and nobody is to be told.
    pub(crate) fn abandon_reception(&mut self, number: u8, error: OperationError) {
        if self.receive_requests.abandon(number, error) {
            self.free_receive(number);
        }
    }

    /// Goes on with the receive requests that something has become of. Returns how many moved.
    pub(crate) fn settle_receives(&mut self) -> usize {
        bits(self.receive_requests.settling()).filter(|&number| self.settle_receive(number)).count()
    }

    #[inline(never)]
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
                            self.receive_requests.return_landing(buffer.share());
                        }
                        Err(memory) => {
                            let stage = Stage::Pieces { region, partial, landing: Some((memory, len)) };
                            self.receive_requests.put(number, ReceiveRequest { ended, stage, ..request });
                            return false;
                        }
                    }
                }
                if result.is_ok() && partial.received < partial.total {
                    let stage = Stage::Pieces { region, partial, landing: None };
                    self.receive_requests.line_up(number, ReceiveRequest { stage, ..request });
                    return true;
                }
                self.deliver(partial, result);
            }
            Stage::Deliver(received, then) => (then.call)(self, received),
            // A fence.
            _ => {}
        }
        request.stage = Stage::Answer;
        if let Some(Answer::Ack(message)) = request.answer.take_if(|answer| matches!(answer, Answer::Ack(_)))
        {
            self.owe_ack(origin, message);
        }
        if request.answer.is_some() {
            self.receive_requests.line_up(number, request);
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
