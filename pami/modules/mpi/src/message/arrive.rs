//! What comes: messages, answers, data that was asked for. Nothing in it is trusted.

use super::unexpected::CHUNK;
use super::{At, Messages};
use crate::envelope::{
    ANSWER, ASK, CTS, Control, DataHeader, Envelope, MATCHED, RECALL, REFUSED, RETURN, RTS, SHORT_OF_CREDIT,
    Source,
};
use crate::lags::{Lag, Lags};
use crate::request::{Awaited, Progress, Receiving, Requests};
use pami::device::Port;
use pami::{Message, Part, Receive};
use zerocopy::FromBytes;

/// Set in the cookie of parts of a message that waits; the rest is its place.
const WAITS: usize = 1 << 63;

/// The envelope of a message that brings all of its data, and whose sender waits for nothing.
#[inline(always)]
fn plain<'a>(message: &Message<'a>) -> Option<&'a Envelope> {
    // Where it lies, if that is where words can be read.
    let envelope = Envelope::ref_from_bytes(message.header).ok()?;
    let is_plain = envelope.flags == 0 && envelope.len.get() as usize == message.total && message.is_whole();
    is_plain.then_some(envelope)
}

/// What became of a message that was to be [taken at once](Messages::take_at_once).
pub(crate) enum Taken {
    /// Its receive has it, and nothing else is to be done.
    Whole,
    /// Its receive has it, and its sender is still to be [credited](Messages::passed).
    Uncredited,
    /// Nothing was done.
    Not,
}

impl Messages {
    /// Takes in what most messages are: [plain], a word, for the receive that was posted first.
    #[inline(always)]
    pub(crate) fn take_at_once(
        &mut self,
        requests: &mut Requests,
        awaited: &Awaited,
        message: &Message<'_>,
    ) -> Taken {
        let Some(envelope) = plain(message) else { return Taken::Not };
        let takes =
            |receiving: &Receiving| receiving.wanted().is(envelope) && receiving.data.put_word(message.data);
        if !requests.end_first(&mut self.posted, awaited, takes, || envelope.status()) {
            return Taken::Not;
        }
        if self.pass_unit(message.origin, envelope.credit.get()) { Taken::Whole } else { Taken::Uncredited }
    }

    /// Credits the sender of a message that was taken at once.
    pub(crate) fn credit_taken(&mut self, lags: &Lags, message: &Message<'_>) {
        if let Some(envelope) = plain(message) {
            self.took(lags, message, envelope);
        }
    }

    /// Takes in any other [plain] message: for a receive that was posted later, or for one that is to come, unless its sender
    /// was not granted that. Returns whether it did.
    pub(crate) fn take_or_keep(
        &mut self,
        requests: &mut Requests,
        lags: &Lags,
        message: &Message<'_>,
    ) -> bool {
        let Some(envelope) = plain(message) else { return false };
        if let Some(slot) = self.take_posted(requests, envelope) {
            requests.end_receive(slot, |receiving| receiving.all_came(envelope, message.data));
            self.took(lags, message, envelope);
            return true;
        }
        let kept = self.keep_whole(message.origin, envelope, message.data);
        if kept {
            self.credited(message.origin, envelope.credit.get());
        }
        kept
    }

    /// A plain message has its receive.
    fn took(&mut self, lags: &Lags, message: &Message<'_>, envelope: &Envelope) {
        let (origin, credit) = (message.origin, envelope.credit.get());
        if message.total > CHUNK || !self.pass_unit(origin, credit) {
            self.passed(origin, credit, message.total);
        }
        if self.waits() {
            // Credit may be due: with the next advance.
            lags.set(Lag::Messages);
        }
    }
}

impl<P: Port> At<'_, P> {
    /// A message, with its data or without.
    pub(crate) fn message_came(&mut self, message: &Message<'_>) -> Receive<P> {
        match Envelope::read_from_bytes(message.header) {
            Ok(envelope) => self.enveloped_came(envelope, message),
            Err(_) => Receive::Done,
        }
    }

    fn enveloped_came(&mut self, envelope: Envelope, message: &Message<'_>) -> Receive<P> {
        let rts = envelope.has(RTS);
        if !rts && envelope.len.get() as usize != message.total {
            return Receive::Done;
        }
        let origin = message.origin;
        let (number, shut) = self.messages.came(origin, rts);
        if envelope.has(SHORT_OF_CREDIT) {
            self.messages.credit_short(origin);
            self.lags.set(Lag::Messages);
        }
        // Among RTS that are refused its CTS goes at once, before its sender hears of the others.
        let source = Source::read_from_bytes(message.data).ok().filter(|_| rts && !shut);
        if let Some(slot) = self.messages.take_posted(self.requests, &envelope) {
            self.messages.credited(origin, envelope.credit.get());
            self.matched(slot, origin, envelope, source);
            if rts {
                return Receive::Done;
            }
            self.messages.passed(origin, 0, message.total);
            if message.is_whole() {
                if let Some(receiving) = self.receiving(slot) {
                    receiving.place(0, message.data);
                }
                self.data_came(slot, None);
                return Receive::Done;
            }
            return Receive::Packets(self.callbacks.part(self.requests.cookie(slot)));
        }
        self.messages.credited(origin, envelope.credit.get());
        if rts {
            if shut || self.messages.unexpected.push_rts(origin, envelope, source).is_none() {
                self.refuse(origin, number);
            }
            return Receive::Done;
        }
        let Some(place) = self.messages.keep(origin, envelope) else {
            // Its sender ignores what it was granted.
            self.active.note_protocol_error();
            return Receive::Done;
        };
        if message.is_whole() {
            self.messages.unexpected.store(place, message.data);
            return Receive::Done;
        }
        Receive::Packets(self.callbacks.part(place as usize | WAITS))
    }

    /// Part of an eager message, or of data after a CTS.
    pub(crate) fn part_came(&mut self, part: &Part<'_>) {
        if part.cookie & WAITS != 0 {
            let place = (part.cookie & !WAITS) as u32;
            self.messages.unexpected.store(place, part.data);
            if let Some(here) = self.messages.unexpected.here(place) {
                here.broken = part.result.err();
            }
            return self.claim(place);
        }
        let Some(slot) = self.requests.of_cookie(part.cookie) else { return };
        if let Err(error) = part.result {
            return self.data_came(slot, Some(error));
        }
        self.data_of(slot, part.offset, part.data);
    }

    fn data_of(&mut self, slot: u16, at: usize, data: &[u8]) {
        let Some(receiving) = self.receiving(slot).filter(|receiving| receiving.message.is_some()) else {
            return;
        };
        receiving.place(at, data);
        if receiving.is_whole() {
            self.data_came(slot, None);
        }
    }

    /// Data that was asked for.
    pub(crate) fn data_arrived(&mut self, message: &Message<'_>) -> Receive<P> {
        let Ok(header) = DataHeader::read_from_bytes(message.header) else { return Receive::Done };
        let slot = header.receiver.get();
        let from = self.receiving(slot).and_then(|receiving| receiving.message);
        let asked = from.is_some_and(|from| {
            from.origin == message.origin
                && from.envelope.has(RTS)
                && matches!(from.progress, Progress::Placed(_))
        });
        if !asked {
            return Receive::Done;
        }
        if message.is_whole() {
            self.data_of(slot, 0, message.data);
            return Receive::Done;
        }
        Receive::Packets(self.callbacks.part(self.requests.cookie(slot)))
    }

    /// What the receiver of messages from here says.
    pub(crate) fn control_came(&mut self, message: &Message<'_>) {
        let Ok(control) = Control::read_from_bytes(message.header) else { return };
        self.messages.credited(message.origin, control.credit.get());
        let (slot, origin) = (control.sender.get(), message.origin);
        match control.kind {
            MATCHED => self.acknowledged(origin, slot),
            REFUSED => self.refused(origin, control.len.get(), slot),
            ANSWER | ASK | RECALL | RETURN => self.account(origin, control.kind, control.len.get()),
            CTS => self.clear_to_send(origin, slot, control.receiver.get(), control.len.get()),
            // Credit, or nothing that is known.
            _ => {}
        }
    }
}
