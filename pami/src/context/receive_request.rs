//! Receive requests of a context: what they pull, tell and call (SPEC P-6, F-2).

use super::{Active, Partial, ReceiveRequest, Stage};
use crate::device::{Completed, OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Blocked, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::receive_request::{Answer, FIRST_PIECE};
use crate::transport::Queued;

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
            Stage::Whole { len, .. } | Stage::Pieces { partial: Partial { total: len, .. }, .. } => {
                // One that died before is not told of again.
                ended = self.gone_home(origin).map(Err).or((*len == 0).then_some(Ok(())));
            }
            Stage::Deliver(..) => ended = Some(Ok(())),
            _ => {}
        }
        self.receive_requests
            .begin(number, ReceiveRequest { origin, order, answer, local: None, ended, stage });
        self.note_work();
    }

    /// Once round the line, as with operations. Returns how many moved.
    pub(crate) fn queue_receives(&mut self, blocked: &mut Blocked) -> usize {
        if self.receive_requests.has_pending() { self.queue_all_receives(blocked) } else { 0 }
    }

    #[inline(never)]
    fn queue_all_receives(&mut self, blocked: &mut Blocked) -> usize {
        let mut line = self.receive_requests.take_line();
        let mut moved = 0;
        line.retain(|&number| {
            let queued = self.queue_receive(number, blocked);
            moved += usize::from(queued != Queued::Nothing);
            if queued == Queued::Part {
                // Others have their turn before its next pieces.
                self.receive_requests.stand_behind(number);
            }
            queued == Queued::Nothing
        });
        self.receive_requests.keep_line(line);
        moved
    }

    /// Queues what has room of what a receive request has to send.
    fn queue_receive(&mut self, number: u8, blocked: &mut Blocked) -> Queued {
        let Some(request) = self.receive_requests.get(number) else { return Queued::All };
        let origin = request.origin;
        let located = match (&request.stage, request.local) {
            (Stage::Whole { .. } | Stage::Pieces { .. }, Some(local)) => self.port.locate(origin, local).ok(),
            _ => self.transport.locate(&self.port, origin).ok(),
        };
        let path = match (&request.stage, located) {
            (Stage::Answer, path) | (Stage::Whole { .. } | Stage::Pieces { .. }, path @ Some(_)) => path,
            // What is pulled from a node that died ends when its death is noted; a fence's get follows the units' others.
            _ => self.port.node_of(origin.task()).map(Path::Torus),
        };
        let Some(path) = path else {
            // It died, or never was.
            self.free_receive(number);
            return Queued::All;
        };
        if blocked.contains(&path) {
            return Queued::Nothing;
        }
        let mut envelope = Envelope {
            kind: Kind::Get,
            dispatch: 0,
            origin: self.transport.me(),
            target: origin,
            message: 0,
            offset: 0,
            total: 0,
        };
        let answers = matches!(request.stage, Stage::Answer);
        let (queued, full) = if let Stage::Pieces { .. } = request.stage {
            let Self { receive_requests, transport, port, .. } = self;
            receive_requests.push_pieces(number, port, path, envelope, |index| {
                let order = transport.next_order();
                (order, message_number(order, index))
            })
        } else {
            envelope.message = message_number(request.order, OPERATIONS + usize::from(number));
            let queued = self.receive_requests.push(number, &mut self.port, path, envelope);
            if queued && answers {
                self.free_receive(number);
            }
            (Queued::whole(queued), !queued)
        };
        if full {
            let _ = blocked.push(path);
        }
        queued
    }

    /// A get of a receive request has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        let index = completed.message as usize % REQUESTS;
        let result = completed.result.map(drop).map_err(OperationError::Region);
        let is_of = |order| message_number(order, index) == completed.message;
        if let Some(landing) = index.checked_sub(FIRST_PIECE) {
            return self.receive_requests.end_piece(landing, is_of, result);
        }
        let number = (index - OPERATIONS) as u8;
        if self.receive_requests.get(number).is_some_and(|request| is_of(request.order)) {
            self.receive_requests.end(number, result);
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
        if let Stage::Pieces { .. } = request.stage {
            return self.settle_pieces(number, request);
        }
        let (origin, ended) = (request.origin, request.ended.take());
        let Some(result) = ended else {
            self.receive_requests.put(number, request);
            return false;
        };
        match request.stage {
            Stage::Whole { data, into, len, total, then } => match into.reclaim() {
                Ok(buffer) => {
                    let len = if result.is_ok() { len as usize } else { 0 };
                    let total = total as usize;
                    (then.call)(self, Received { origin, buffer, len, total, result, cookie: then.cookie });
                }
                Err(into) => {
                    let stage = Stage::Whole { data, into, len, total, then };
                    self.receive_requests.put(number, ReceiveRequest { ended, stage, ..request });
                    return false;
                }
            },
            Stage::Deliver(received, then) => (then.call)(self, received),
            // A fence.
            _ => {}
        }
        self.answer_at_end(number, ReceiveRequest { stage: Stage::Answer, ..request });
        true
    }

    /// Puts the pieces that have landed in their places, in order, and ends with the last. Returns whether any moved.
    fn settle_pieces(&mut self, number: u8, mut request: ReceiveRequest<P>) -> bool {
        let Stage::Pieces { data, mut partial, asked } = request.stage else { return false };
        let mut moved = false;
        while let Some((piece, memory)) = self.receive_requests.take_piece(number) {
            // Nothing behind one that did not come.
            match (request.ended, piece.ended) {
                (None, Some(Ok(()))) => {
                    let bytes = memory.as_slice().get(..piece.len as usize).unwrap_or_default();
                    self.absorb(&mut partial, bytes);
                    partial.received += piece.len;
                }
                (None, failed) => {
                    request.ended = failed;
                    self.receive_requests.leave_line(number);
                }
                _ => {}
            }
            self.receive_requests.free_landing(memory);
            moved = true;
        }
        let left = self.receive_requests.has_first_ended(number);
        let over = request.ended.is_some() || partial.received == partial.total;
        if left.is_none() && over {
            self.deliver(partial, request.ended.take().unwrap_or(Ok(())));
            self.answer_at_end(number, ReceiveRequest { stage: Stage::Answer, ..request });
            return true;
        }
        let request = ReceiveRequest { stage: Stage::Pieces { data, partial, asked }, ..request };
        // One that has ended is still being written: to be looked at again.
        if left == Some(true) {
            self.receive_requests.put(number, request);
        } else {
            self.receive_requests.put_to_rest(number, request);
        }
        moved
    }

    /// All of a receive request is done but to tell its origin.
    fn answer_at_end(&mut self, number: u8, mut request: ReceiveRequest<P>) {
        let origin = request.origin;
        // It goes from here where there may be no other place for it.
        let noted = |answer: &mut Answer| matches!(answer, Answer::Ack(_)) && !self.acks.is_crowded();
        if let Some(Answer::Ack(message)) = request.answer.take_if(noted) {
            self.owe_ack(origin, message);
        }
        if request.answer.is_some() {
            self.receive_requests.line_up(number, request);
        } else {
            self.free_receive(number);
        }
    }

    /// Ends a receive request: others may have been refused for want of its place.
    fn free_receive(&mut self, number: u8) {
        self.leave_receive(number);
        self.acks.note_room();
    }

    /// Leaves the place of a receive request to the acceptance that waits longest for one.
    pub(crate) fn leave_receive(&mut self, number: u8) {
        self.receive_requests.free(number);
        if self.unexpected.has_accepted() {
            self.accept_waiting();
        }
    }
}
