//! What a process does for others' windows as messages come: requests, their answers, signals.
//!
//! An origin asks a target for one answer at a time, so the target has a place for each process that its windows can have and
//! never has to keep a request waiting for the room that its answer needs.

use super::answers::ANSWER_BYTES;
use super::operate::{WindowBlocks, WindowOperation};
use super::peer::Peer;
use super::table::Windows;
use super::wire::{AccumulateKind, Reply, Signal, WindowRequest, basic_of, op_of};
use crate::error::{Error, Result};
use crate::protocols::windows::WindowProtocols;
use crate::request::Requests;
use pami::device::Port;
use pami::{Active, Message};
use zerocopy::FromBytes;

impl Windows {
    /// A request to be carried out here. Returns whether its answer waits for room. What makes no sense is refused.
    pub(crate) fn request_came<P: Port>(
        &mut self,
        active: &mut Active<P>,
        message: &Message<'_>,
        protocols: &WindowProtocols,
    ) -> bool {
        let Ok(request) = WindowRequest::read_from_bytes(message.header) else { return false };
        let Some(kind) = AccumulateKind::from_byte(request.kind).filter(|_| message.is_whole()) else {
            return false;
        };
        if kind == AccumulateKind::Combine {
            // Nobody waits for what came of it, and a correct origin's request is never refused.
            let _ = self.carry_out(&request, kind, message.data, None);
            return false;
        }
        // It goes out and in again while it is filled.
        let mut values = [0; ANSWER_BYTES];
        let len = (request.len.get() as usize).min(ANSWER_BYTES);
        let Some(place) = self.answers.place_for(message.origin) else { return false };
        let good = self.carry_out(&request, kind, message.data, Some(&mut values[..len])).is_ok();
        let Some(answer) = self.answers.places.get_mut(place) else { return false };
        answer.waits = Some(message.origin);
        answer.reply = Reply { ask: request.ask, good: u32::from(good).into() };
        answer.len = if good { len } else { 0 };
        answer.values = values;
        let waits = answer.send(active, protocols);
        self.answers.waiting += usize::from(waits);
        waits
    }

    fn carry_out(
        &mut self,
        request: &WindowRequest,
        kind: AccumulateKind,
        data: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<()> {
        let slot = u8::try_from(request.slot.get()).map_err(|_| Error::Win)?;
        if self.generation(slot) != Some(request.generation.get()) {
            return Err(Error::Win);
        }
        let win = self.win(slot).ok_or(Error::Win)?;
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
        for answer in self.answers.places.iter_mut().filter(|answer| answer.waits.is_some()) {
            if !answer.send(active, protocols) {
                self.answers.waiting -= 1;
            }
            if self.answers.waiting == 0 {
                break;
            }
        }
        self.answers.waiting > 0
    }

    pub(crate) fn reply_came(&mut self, requests: &mut Requests, message: &Message<'_>) {
        let Ok(reply) = Reply::read_from_bytes(message.header) else { return };
        let place = reply.ask.get() as usize;
        // Only who was asked has an answer.
        let asked = self.asks.get(place).is_some_and(|ask| ask.by_message && ask.target == message.origin);
        if asked && message.is_whole() {
            let value = if reply.good.get() == 1 { Ok(message.data) } else { Err(Error::Win) };
            self.answered(requests, place, value);
        }
    }

    pub(crate) fn signal_came(&mut self, message: &Message<'_>) {
        let Ok(signal) = Signal::read_from_bytes(message.header) else { return };
        let Ok(slot) = u8::try_from(signal.slot.get()) else { return };
        if self.generation(slot) != Some(signal.generation.get()) {
            return;
        }
        let peer = self.peer(slot, signal.rank.get()).filter(|peer| peer.endpoint == message.origin);
        if let Some(peer) = peer {
            let count = if signal.complete.get() == 1 { &mut peer.completes } else { &mut peer.posts };
            *count = count.saturating_add(1);
        }
    }

    /// Ends what waits for nodes that died, and has the network look after those that something waits for.
    pub(crate) fn look_after<P: Port>(&mut self, active: &mut Active<P>, requests: &mut Requests) {
        let mut after = 0;
        loop {
            let next = self.asks.by_message().find(|(place, _)| *place >= after);
            let Some((place, target)) = next else { break };
            after = place + 1;
            match active.death_of(target) {
                Some(node) => self.answered(requests, place, Err(Error::NodeDead(node))),
                None => active.watch(target),
            }
        }
        for slot in self.slots() {
            let mut dead = None;
            let waits =
                |peer: &&mut Peer| peer.exposed && peer.completes == 0 || peer.accessed && peer.posts == 0;
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
