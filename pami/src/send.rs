//! Departure: immediate and eager sends, their order, back-pressure and completions (SPEC P-6, P-9, P-11).
//!
//! A send holds a numbered operation of its context from its start to its last completion. Operations that still
//! have packets to queue stand in line; each pass over the line goes on with every one whose path has room, and
//! an operation never overtakes an earlier one on the same path, so messages between two endpoints stay in order.

use crate::context::Active;
use crate::device::{Full, Path, Port};
use crate::dispatch::{Completion, DISPATCH_IDS, Done};
use crate::endpoint::Endpoint;
use crate::packet::{Envelope, Kind};
use core::fmt;
use core::ops::Range;
use heapless::{Deque, Vec};
use rings::buffer::{Buffer, Lease, Source};

/// Sends of one context that can be under way at once.
pub const OPERATIONS: usize = 64;
/// Most bytes of a message's header.
pub const HEADER_LIMIT: usize = 128;
/// Endpoints that a context can owe an acknowledgement to before it stops taking messages in. Acknowledgements are
/// cumulative, so there is at most one for each.
pub const ACKS_OWED: usize = 256;
/// Messages of at most this many bytes are copied when they are queued, which is cheaper than to lend them and
/// makes their local completion immediate.
pub const COPY_LIMIT: usize = 256;

/// The data of a send. It must live as long as the message unit may read it, which the types see to.
pub enum Payload {
    /// Bytes that never change.
    Static(&'static [u8]),
    /// These bytes of a buffer, which is handed over until the local completion gives it back.
    Buffer(Buffer, Range<usize>),
    /// A view of a buffer that the sender has lent itself, to send parts of it to several targets at once. The
    /// local completion says that every packet is queued; the lease says when nobody reads any more.
    Source(Source),
}

/// A message of any length.
pub struct Send<'a, P: Port> {
    /// Who is to have it.
    pub target: Endpoint,
    /// Id of the handler at the target.
    pub dispatch: u8,
    /// Copied before the call returns; at most [`HEADER_LIMIT`] bytes.
    pub header: &'a [u8],
    /// At most `u32::MAX` bytes.
    pub payload: Payload,
    /// Called when the payload is the caller's again. Without it a payload's buffer is not given back.
    pub local_done: Option<Done<P>>,
    /// Called when the target's handler has had the whole message.
    pub remote_done: Option<Done<P>>,
}

/// Why a send was not taken. The caller is at fault, but for `Again`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No room now: advance, then try again.
    Again,
    /// The header is over [`HEADER_LIMIT`], or header and data of an immediate send over
    /// [`Active::immediate_limit`], or the data over `u32::MAX` bytes.
    TooLong,
    /// The range is not inside the payload's buffer.
    Range,
    /// The dispatch id is not below [`DISPATCH_IDS`].
    DispatchId,
    /// The endpoint belongs to another client.
    ForeignClient,
    /// The job has no such endpoint, or the node has no shared-memory ring left for this pair of contexts.
    Unreachable,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("no room for the send now: advance the context, then send again"),
            Self::TooLong => write!(f, "the message is too long: a header has at most {HEADER_LIMIT} bytes"),
            Self::Range => f.write_str("the range does not lie inside the payload's buffer"),
            Self::DispatchId => write!(f, "the dispatch id is not below {DISPATCH_IDS}"),
            Self::ForeignClient => f.write_str("the target endpoint belongs to another client"),
            Self::Unreachable => f.write_str("the job has no such endpoint, or no ring is left to reach it"),
        }
    }
}

impl core::error::Error for SendError {}

/// An operation's state.
pub struct Operation<P: Port> {
    path: Path,
    target: Endpoint,
    dispatch: u8,
    message: u32,
    header: Vec<u8, HEADER_LIMIT>,
    data: Source,
    lease: Option<Lease>,
    sent: u32,
    started: bool,
    /// Every packet is.
    queued: bool,
    local_done: Option<Done<P>>,
    remote_done: Option<Done<P>>,
}

/// One place for an operation; its size is what a context's memory is reckoned by.
pub type Place<P> = Option<Operation<P>>;

/// What one context has under way.
pub struct Sends<P: Port> {
    operations: &'static mut [Place<P>],
    /// Numbers of free operations.
    free: Vec<u8, OPERATIONS>,
    /// Numbers of operations that still have packets to queue, oldest first.
    line: Deque<u8, OPERATIONS>,
    /// Bit set of operations whose payload is out on loan.
    lent: u64,
    acks: Deque<(Endpoint, u32), ACKS_OWED>,
    messages: u32,
}

const _: () = assert!(OPERATIONS <= u64::BITS as usize, "one bit for each operation");

impl<P: Port> Sends<P> {
    /// Takes [`OPERATIONS`] places.
    pub(crate) fn new(operations: &'static mut [Place<P>]) -> Self {
        let free = (0..OPERATIONS.min(operations.len()) as u8).rev().collect();
        Self { operations, free, line: Deque::new(), lent: 0, acks: Deque::new(), messages: 0 }
    }

    /// The places, unless an operation is under way or an acknowledgement owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == self.operations.len() && self.acks.is_empty()
    }

    pub(crate) fn into_places(self) -> &'static mut [Place<P>] {
        self.operations
    }

    /// Whether the next message must wait because its acknowledgement could not be noted.
    pub(crate) fn acks_full(&self) -> bool {
        self.acks.is_full()
    }

    /// Messages of one origin are finished in their order, so the last one stands for all before it.
    pub(crate) fn owe_ack(&mut self, origin: Endpoint, message: u32) {
        match self.acks.iter_mut().find(|(owed, _)| *owed == origin) {
            Some((_, last)) => *last = message,
            // `advance` takes nothing in while this is full.
            None => _ = self.acks.push_back((origin, message)),
        }
    }

    /// Message numbers tell the operation in their low bits, so that an acknowledgement finds it.
    fn number(&mut self, operation: usize) -> u32 {
        self.messages = self.messages.wrapping_add(1);
        self.messages.wrapping_mul(OPERATIONS as u32).wrapping_add(operation as u32)
    }
}

impl<P: Port> Active<P> {
    /// Most bytes of header and data together in [`send_immediate`](Self::send_immediate).
    pub fn immediate_limit(&self) -> usize {
        self.port.mtu()
    }

    fn path_to(&self, target: Endpoint, dispatch: u8) -> Result<Path, SendError> {
        if usize::from(dispatch) >= DISPATCH_IDS {
            return Err(SendError::DispatchId);
        }
        if target.client != self.me.client {
            return Err(SendError::ForeignClient);
        }
        self.port.locate(target, self.local_paths).map_err(|_| SendError::Unreachable)
    }

    /// Sends a message that fits one packet; `header` and `data` are the caller's again on return.
    ///
    /// # Errors
    /// [`SendError::Again`] if the packet could not be queued at once; the message was not sent then.
    pub fn send_immediate(
        &mut self,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        let path = self.path_to(target, dispatch)?;
        if header.len() > HEADER_LIMIT || header.len() + data.len() > self.port.mtu() {
            return Err(SendError::TooLong);
        }
        if self.is_in_line(path) {
            return Err(SendError::Again);
        }
        let message = self.sends.number(0);
        let total = data.len() as u32;
        let envelope =
            Envelope { kind: Kind::First, dispatch, origin: self.me, target, message, offset: 0, total };
        self.port.push_copy(path, &envelope, header, data).map_err(|Full| SendError::Again)?;
        self.counters.sent += 1;
        Ok(())
    }

    /// Sends a message of any length. What finds no room now goes on in later advances.
    ///
    /// # Errors
    /// The payload comes back with the reason; [`SendError::Again`] if [`OPERATIONS`] sends are under way.
    pub fn send(&mut self, send: Send<'_, P>) -> Result<(), (SendError, Payload)> {
        let Send { target, dispatch, header, payload, local_done, remote_done } = send;
        let path = match self.path_to(target, dispatch) {
            Ok(path) => path,
            Err(error) => return Err((error, payload)),
        };
        // A first packet without room for data would never let the rest follow.
        if header.len() >= self.port.mtu() {
            return Err((SendError::TooLong, payload));
        }
        let Ok(header) = Vec::from_slice(header) else { return Err((SendError::TooLong, payload)) };
        let bytes = match &payload {
            Payload::Static(bytes) => Some(*bytes),
            Payload::Buffer(buffer, range) => buffer.as_slice().get(range.clone()),
            Payload::Source(source) => Some(source.as_slice()),
        };
        let Some(len) = bytes.map(<[u8]>::len) else { return Err((SendError::Range, payload)) };
        if u32::try_from(len).is_err() {
            return Err((SendError::TooLong, payload));
        }
        let Some(number) = self.sends.free.pop() else { return Err((SendError::Again, payload)) };
        let (data, lease) = match payload {
            Payload::Static(bytes) => (Source::from(bytes), None),
            Payload::Source(source) => (source, None),
            Payload::Buffer(buffer, range) => {
                let lease = buffer.lend();
                // The range was seen to lie inside.
                (lease.source().slice(range).unwrap_or_else(|| lease.source()), Some(lease))
            }
        };
        let message = self.sends.number(usize::from(number));
        let operation = Operation {
            path,
            target,
            dispatch,
            message,
            header,
            data,
            lease,
            sent: 0,
            started: false,
            queued: false,
            local_done,
            remote_done,
        };
        let waits = self.is_in_line(path);
        self.sends.operations[usize::from(number)] = Some(operation);
        // Neither can be full: each holds as many as there are operations.
        let _ = self.sends.line.push_back(number);
        self.counters.sent += 1;
        if !waits && self.queue_packets(number) {
            self.sends.line.pop_back();
            self.all_queued(number);
        }
        Ok(())
    }

    fn is_in_line(&self, path: Path) -> bool {
        let operations = &self.sends.operations;
        self.sends.line.iter().any(|&n| operations[usize::from(n)].as_ref().is_some_and(|op| op.path == path))
    }

    /// Goes on with everything under way. Returns the number of operations and acknowledgements that went out and of
    /// completions called.
    pub(crate) fn progress_sends(&mut self) -> usize {
        let mut events = 0;
        let mut blocked: Vec<Path, OPERATIONS> = Vec::new();
        // Once round each line: what finds no room goes on at the end. No callback is called here, since what it
        // sends must not come between.
        for _ in 0..self.sends.acks.len() {
            let Some(owed) = self.sends.acks.pop_front() else { break };
            if self.send_ack(owed, &mut blocked) {
                events += 1;
            } else {
                let _ = self.sends.acks.push_back(owed);
            }
        }
        blocked.clear();
        for _ in 0..self.sends.line.len() {
            let Some(number) = self.sends.line.pop_front() else { break };
            let Some(path) = self.sends.operations[usize::from(number)].as_ref().map(|op| op.path) else {
                continue;
            };
            let waits = blocked.contains(&path);
            if !waits && self.queue_packets(number) {
                self.all_queued(number);
                events += 1;
                continue;
            }
            if !waits {
                let _ = blocked.push(path);
            }
            let _ = self.sends.line.push_back(number);
        }
        let mut lent = self.sends.lent;
        while lent != 0 {
            let number = lent.trailing_zeros() as u8;
            lent &= lent - 1;
            events += usize::from(self.returned(number));
        }
        events
    }

    /// Whether the acknowledgement went out, or nobody waits for it. Notes its path if that has no room.
    fn send_ack(&mut self, (target, message): (Endpoint, u32), blocked: &mut Vec<Path, OPERATIONS>) -> bool {
        let Ok(path) = self.port.locate(target, self.local_paths) else {
            // The origin named an endpoint that the job does not have.
            self.counters.strays += 1;
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let origin = self.me;
        let envelope =
            Envelope { kind: Kind::Ack, dispatch: 0, origin, target, message, offset: 0, total: 0 };
        let sent = self.port.push_copy(path, &envelope, &[], &[]).is_ok();
        if !sent {
            let _ = blocked.push(path);
        }
        sent
    }

    /// Queues packets of an operation until its path is full. Returns whether the last one is queued.
    fn queue_packets(&mut self, number: u8) -> bool {
        let Some(op) = &mut self.sends.operations[usize::from(number)] else { return true };
        let total = op.data.len();
        let first_kind = if op.remote_done.is_some() { Kind::FirstAcked } else { Kind::First };
        let mtu = self.port.mtu();
        loop {
            let header: &[u8] = if op.started { &[] } else { &op.header };
            let room = match op.path {
                Path::Local(_) => total,
                Path::Torus(_) => mtu.saturating_sub(header.len()),
            };
            let sent = op.sent as usize;
            let len = room.min(total - sent);
            let envelope = Envelope {
                kind: if op.started { Kind::Next } else { first_kind },
                dispatch: op.dispatch,
                origin: self.me,
                target: op.target,
                message: op.message,
                offset: op.sent,
                total: total as u32,
            };
            let queued = if len <= COPY_LIMIT && header.len() + len <= mtu {
                let data = op.data.as_slice().get(sent..sent + len).unwrap_or_default();
                self.port.push_copy(op.path, &envelope, header, data)
            } else {
                // The range ends inside the data.
                let Some(piece) = op.data.slice(sent..sent + len) else { return true };
                self.port.push_lend(op.path, &envelope, header, &piece)
            };
            if queued.is_err() {
                return false;
            }
            op.started = true;
            op.sent += len as u32;
            if op.sent as usize == total {
                return true;
            }
        }
    }

    /// The last packet of an operation is queued: its payload is free as soon as nobody reads it any more, which the
    /// next pass over what is lent finds out.
    fn all_queued(&mut self, number: u8) {
        let Some(op) = &mut self.sends.operations[usize::from(number)] else { return };
        // The operation itself counts as a reader while it holds the source.
        op.data = Source::from(&[][..]);
        op.queued = true;
        self.sends.lent |= 1 << number;
    }

    /// Calls the local completion if the payload is back. Returns whether it is.
    fn returned(&mut self, number: u8) -> bool {
        let Some(op) = &mut self.sends.operations[usize::from(number)] else { return true };
        let buffer = match op.lease.take().map(Lease::reclaim) {
            None => None,
            Some(Ok(buffer)) => Some(buffer),
            Some(Err(lease)) => {
                op.lease = Some(lease);
                return false;
            }
        };
        self.sends.lent &= !(1 << number);
        let (target, done) = (op.target, op.local_done.take());
        if op.remote_done.is_none() {
            self.free(number);
        }
        if let Some(done) = done {
            (done.call)(self, Completion { target, buffer, cookie: done.cookie });
        }
        true
    }

    /// The target has this message and all before it: calls the remote completions, oldest first.
    pub(crate) fn acknowledged(&mut self, target: Endpoint, message: u32) {
        let mut any = false;
        while let Some((number, done)) = self.oldest_acknowledged(target, message) {
            any = true;
            if self.sends.lent & 1 << number == 0 {
                self.free(number);
            }
            (done.call)(self, Completion { target, buffer: None, cookie: done.cookie });
        }
        self.counters.strays += u64::from(!any);
    }

    /// An acknowledgement can come before our own unit has let go of the payload, but not before the last packet was
    /// queued: a forged one ends nothing that is not.
    fn oldest_acknowledged(&mut self, target: Endpoint, message: u32) -> Option<(u8, Done<P>)> {
        // How long before the acknowledged message one was sent; those after it come out over half the range.
        let age = |op: &Operation<P>| message.wrapping_sub(op.message);
        let waiting = self.sends.operations.iter_mut().zip(0..).filter_map(|(place, number)| {
            let op = place.as_mut()?;
            let ours =
                op.target == target && op.queued && op.remote_done.is_some() && age(op) <= u32::MAX / 2;
            ours.then_some((op, number))
        });
        let (op, number) = waiting.max_by_key(|(op, _)| age(op))?;
        Some((number, op.remote_done.take()?))
    }

    fn free(&mut self, number: u8) {
        self.sends.operations[usize::from(number)] = None;
        let _ = self.sends.free.push(number);
    }
}
