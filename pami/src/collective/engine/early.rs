//! Messages that came before their collective, or before its round.

use super::SHORT_LIMIT;
use super::wire::{Key, Label, Word};
use crate::endpoint::Endpoint;
use heapless::Vec;

/// A short message, a clear, a request or an abort.
pub(crate) struct Early {
    pub(super) origin: Endpoint,
    pub(super) word: Word,
    pub(super) label: Label,
    pub(super) total: u32,
    pub(super) data: Vec<u8, SHORT_LIMIT>,
}

/// A place for one.
pub(crate) type EarlyPlace = Option<Early>;

/// Takes the message for a receive out, or for a send: the clear.
pub(super) fn take(
    places: &mut [EarlyPlace],
    key: Key,
    (origin, tag): (Endpoint, u32),
    sends: bool,
) -> Option<Early> {
    let wanted = |early: &Early| {
        let fits =
            if sends { early.word == Word::Clear } else { matches!(early.word, Word::Short | Word::Request) };
        fits && early.label.key == key && early.origin == origin && early.label.tag == tag
    };
    places.iter_mut().find(|place| place.as_ref().is_some_and(wanted))?.take()
}

/// Takes out what says that a collective cannot end well: an abort, or a message of one who called something else.
pub(super) fn take_objection(places: &mut [EarlyPlace], key: Key, digest: u32) -> Option<Early> {
    let wanted = |early: &Early| {
        let differs = early.label.key == key && early.label.digest != digest;
        early.label.key.is_of(key) && (early.word == Word::Abort || differs)
    };
    places.iter_mut().find(|place| place.as_ref().is_some_and(wanted))?.take()
}

/// Drops the messages of collectives that nobody will ask for.
pub(super) fn forget(places: &mut [EarlyPlace], dropped: impl Fn(Key) -> bool) {
    for place in places {
        if place.as_ref().is_some_and(|early| dropped(early.label.key)) {
            *place = None;
        }
    }
}
