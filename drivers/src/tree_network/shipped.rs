//! This node's calls to its I/O node (SPEC S-2).
//!
//! There are [`SHIPPED_CALLS`] places. Each answer has a receive buffer of its own, which it stays in until its caller
//! has read it, so that a caller who is late holds up nobody else. A place whose caller gave up is free again when the answer
//! has come: until then the network counts it as taken.

use crate::adapter::RxBuffer;
use pami::combine::TreeEnvelope;
use pami::combine::packet::SHIPPED_CALLS;

/// A call under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShippedCall {
    place: u8,
    sequence: u32,
}

impl ShippedCall {
    /// Its place among the node's calls, below [`SHIPPED_CALLS`].
    pub(super) fn place(self) -> u32 {
        self.place.into()
    }

    /// What tells it from earlier ones in its place.
    pub(super) fn sequence(self) -> u32 {
        self.sequence
    }
}

#[derive(Default)]
enum Place {
    #[default]
    Free,
    Waits(u32),
    /// Its caller has given up.
    Left(u32),
    Answered(u32, RxBuffer),
}

/// The places of all calls.
#[derive(Default)]
pub(super) struct ShippedCalls {
    places: [Place; SHIPPED_CALLS],
    next: u32,
}

impl ShippedCalls {
    /// The call that can be sent next, if a place is free. It is none before it [was sent](Self::sent).
    pub fn free(&self) -> Option<ShippedCall> {
        let place = self.places.iter().position(|place| matches!(place, Place::Free))?;
        Some(ShippedCall { place: place as u8, sequence: self.next })
    }

    /// The call was sent.
    pub fn sent(&mut self, call: ShippedCall) {
        self.places[usize::from(call.place)] = Place::Waits(call.sequence);
        self.next = self.next.wrapping_add(1);
    }

    /// Takes an answer in; gives it back if nobody waits for it: the flag tells whether it was expected at all.
    pub fn arrive(&mut self, envelope: &TreeEnvelope, buffer: RxBuffer) -> Result<(), (RxBuffer, bool)> {
        let place = usize::try_from(envelope.argument).ok().and_then(|place| self.places.get_mut(place));
        let Some(place) = place else { return Err((buffer, false)) };
        match *place {
            Place::Waits(sequence) if sequence == envelope.sequence => {
                *place = Place::Answered(sequence, buffer);
                Ok(())
            }
            Place::Left(sequence) if sequence == envelope.sequence => {
                *place = Place::Free;
                Err((buffer, true))
            }
            _ => Err((buffer, false)),
        }
    }

    /// The answer, if it has come.
    pub fn answer(&self, call: ShippedCall) -> Option<&RxBuffer> {
        match &self.places[usize::from(call.place)] {
            Place::Answered(sequence, buffer) if *sequence == call.sequence => Some(buffer),
            _ => None,
        }
    }

    /// The caller has done with `call`, answered or not. Gives back the buffer of the answer, if there is one.
    pub fn leave(&mut self, call: ShippedCall) -> Option<RxBuffer> {
        let place = &mut self.places[usize::from(call.place)];
        match core::mem::take(place) {
            Place::Answered(sequence, buffer) if sequence == call.sequence => Some(buffer),
            Place::Waits(sequence) if sequence == call.sequence => {
                *place = Place::Left(sequence);
                None
            }
            other => {
                *place = other;
                None
            }
        }
    }
}
