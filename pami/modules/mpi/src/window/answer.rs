//! What a process does for others' windows as messages come: requests, their answers, signals.
//!
//! An origin asks a target for one answer at a time, and is one of a window's processes, so the target has a place for each that
//! its windows can have and never has to keep a request waiting for the room that its answer needs.

use super::answers::{ANSWER_BYTES, Answer};
use super::operate::{WindowBlocks, WindowOperation};
use super::peer::WindowPeer;
use super::table::Windows;
use super::wire::{AccumulateKind, Reply, Signal, WindowRequest, basic_of, op_of};
use crate::error::{Error, Result};
use crate::protocols::windows::WindowProtocols;
use crate::request::Requests;
use pami::device::Port;
use pami::{Active, Endpoint, Message};
use zerocopy::FromBytes;

impl Windows {
    /// A request to be carried out here. Returns whether its answer waits for room. What no process of the window would send is
    /// dropped, and counted as an error of the protocol.
    pub(crate) fn request_came<P: Port>(
        &mut self,
        active: &mut Active<P>,
        message: &Message<'_>,
        protocols: &WindowProtocols,
    ) -> bool {
        let Some((request, kind)) = self.request_of(message) else {
            active.note_protocol_error();
            return false;
        };
        if kind == AccumulateKind::Combine {
            // Nobody waits for what came of it, and a correct origin's request is never refused.
            let _ = self.carry_out(&request, kind, message.data, None);
            return false;
        }
        let mut values = [0; ANSWER_BYTES];
        let len = (request.len.get() as usize).min(ANSWER_BYTES);
        let good = self.carry_out(&request, kind, message.data, Some(&mut values[..len])).is_ok();
        let reply = Reply { fetch: request.fetch, good: u32::from(good).into() };
        let len = if good { len } else { 0 };
        let answer = Answer { to: message.origin, slot: request.slot, reply, len, values };
        self.answers.send(active, protocols, answer)
    }

    /// The request that a message is, if it comes from a process of a window that there is, which waits for no other answer.
    fn request_of(&mut self, message: &Message<'_>) -> Option<(WindowRequest, AccumulateKind)> {
        let request = WindowRequest::read_from_bytes(message.header).ok()?;
        let kind = AccumulateKind::from_byte(request.kind).filter(|_| message.is_whole())?;
        self.sender(message.origin, request.slot, request.generation.get(), request.rank.get())?;
        let answered = kind == AccumulateKind::Combine || self.answers.has_room_for(message.origin.task());
        answered.then_some((request, kind))
    }

    /// The process of a window that a message says that it is from, if it is.
    fn sender(&mut self, origin: Endpoint, slot: u8, generation: u32, rank: u32) -> Option<&mut WindowPeer> {
        self.generation(slot).filter(|&ours| ours == generation)?;
        self.peer(slot, rank).filter(|peer| peer.endpoint == origin)
    }

    fn carry_out(
        &mut self,
        request: &WindowRequest,
        kind: AccumulateKind,
        data: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<()> {
        let win = self.win(request.slot).ok_or(Error::Win)?;
        let offset = usize::try_from(request.offset.get()).map_err(|_| Error::RmaRange)?;
        let [block, stride, skip, len] =
            [request.block, request.stride, request.skip, request.len].map(|number| number.get() as usize);
        let within = WindowBlocks { first: offset, block, stride, skip, len };
        if within.end().is_none_or(|end| end > win.size) {
            return Err(Error::RmaRange);
        }
        let places = WindowBlocks { first: win.base + offset, ..within };
        let (op, basic) = (op_of(request.op), basic_of(request.basic));
        let operation = WindowOperation::new(op.ok_or(Error::Op)?, basic.ok_or(Error::Type)?, kind)?;
        let room = old.as_ref().is_none_or(|old| old.len() == len);
        if !operation.fits(&places) || operation.data_len(len) != data.len() || !room {
            return Err(Error::Count(len));
        }
        operation.carry_out(&win.memory, places, data, old)
    }

    /// Goes on with answers that found no room. Returns whether some still wait.
    pub(crate) fn go_on_answering<P: Port>(
        &mut self,
        active: &mut Active<P>,
        protocols: &WindowProtocols,
    ) -> bool {
        self.answers.go_on(active, protocols)
    }

    pub(crate) fn reply_came(&mut self, requests: &mut Requests, message: &Message<'_>) {
        let Ok(reply) = Reply::read_from_bytes(message.header) else { return };
        let place = reply.fetch.get() as usize;
        // Only who was asked has an answer.
        let asked = self
            .outstanding
            .get(place)
            .is_some_and(|fetch| fetch.by_message && fetch.target == message.origin);
        if asked && message.is_whole() {
            let value = if reply.good.get() == 1 { Ok(message.data) } else { Err(Error::Win) };
            self.answered(requests, place, value);
        }
    }

    pub(crate) fn signal_came(&mut self, message: &Message<'_>) {
        let Ok(signal) = Signal::read_from_bytes(message.header) else { return };
        let Ok(slot) = u8::try_from(signal.slot.get()) else { return };
        let sender = self.sender(message.origin, slot, signal.generation.get(), signal.rank.get());
        if let Some(peer) = sender {
            let count = if signal.complete.get() == 1 { &mut peer.completes } else { &mut peer.posts };
            *count = count.saturating_add(1);
        }
    }

    /// Ends what waits for nodes that died, and has the network look after those that something waits for.
    pub(crate) fn look_after<P: Port>(&mut self, active: &mut Active<P>, requests: &mut Requests) {
        let mut after = 0;
        loop {
            let next = self.outstanding.by_message().find(|(place, _)| *place >= after);
            let Some((place, target)) = next else { break };
            after = place + 1;
            match active.death_of(target) {
                Some(node) => self.answered(requests, place, Err(Error::NodeDead(node))),
                None => active.watch(target),
            }
        }
        for slot in self.slots() {
            let mut dead = None;
            let waits = |peer: &&mut WindowPeer| {
                peer.exposed && peer.completes == 0 || peer.accessed && peer.posts == 0
            };
            for peer in self.peers(slot).iter_mut().filter(waits) {
                match active.death_of(peer.endpoint) {
                    Some(node) => dead = dead.or(Some(Error::NodeDead(node))),
                    None => active.watch(peer.endpoint),
                }
            }
            if let (Some(error), Some(win)) = (dead, self.win(slot)) {
                win.error = win.error.or(Some(error));
            }
        }
    }
}
