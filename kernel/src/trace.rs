//! What this node's harts do, kept for the host's timeline (SPEC X-6), in an image with the feature `trace`; without it nothing of
//! this is there. Each hart writes into memory of its own, which the end of the node sends.

use pami::endpoint::Endpoint;
use pami::trace::Event;

/// Heap that `harts` harts need for so many events each.
pub(crate) fn heap_bytes(harts: usize, events: usize) -> usize {
    harts * (events * crate::timeline::RECORD_BYTES + 256)
}

#[cfg(feature = "trace")]
mod kept {
    use super::{Endpoint, Event};
    use crate::timeline::{Record, Timeline};
    use crate::{arch, clock};
    use alloc::vec::Vec;
    use spin::Once;

    /// Whether this image keeps anything.
    pub(crate) const KEEPS: bool = true;

    static TIMELINES: Once<Vec<Timeline<'static>>> = Once::new();

    /// From now on `harts` harts keep so many events each. Allocates.
    pub(crate) fn start(harts: usize, events: usize) {
        let timeline = |_| {
            let records: Vec<_> = (0..events).map(|_| Record::default()).collect();
            Timeline::new(records.leak())
        };
        TIMELINES.call_once(|| (0..harts).map(timeline).collect());
    }

    /// This hart does something with a context of endpoint `at`.
    #[inline]
    pub(crate) fn note_at(at: Endpoint, event: Event) {
        if let Some(timeline) = TIMELINES.get().and_then(|all| all.get(arch::hart())) {
            timeline.note(clock::now_ns(), at.to_bits(), event);
        }
    }

    /// Gives the payloads of frames with what all harts did to `send`.
    pub(crate) fn send(mut send: impl FnMut(&[u8])) {
        let Some(all) = TIMELINES.get() else { return };
        (0..).zip(all).for_each(|(hart, timeline)| timeline.send(hart, all.len() as u64, &mut send));
    }
}

#[cfg(not(feature = "trace"))]
mod kept {
    use super::{Endpoint, Event};

    pub(crate) const KEEPS: bool = false;

    pub(crate) fn start(_harts: usize, _events: usize) {}

    #[inline(always)]
    pub(crate) fn note_at(_at: Endpoint, _event: Event) {}

    pub(crate) fn send(_send: impl FnMut(&[u8])) {}
}

pub(crate) use kept::{KEEPS, note_at, send, start};

/// This hart does something.
#[inline(always)]
pub(crate) fn note(event: Event) {
    note_at(Endpoint::from_bits(0), event);
}
