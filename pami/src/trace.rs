//! What harts do, event by event, for whoever draws it over time (SPEC X-6). A [`Port`](crate::device::Port) is told; one that
//! keeps nothing has no code for it.

use crate::endpoint::Endpoint;

/// Something that a hart begins, ends or does, at the moment when it is told. What is begun is ended in reverse order, by the
/// same hart, but for collectives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Begins to run a thread of this task.
    Task(u32),
    /// The thread has returned.
    TaskEnded,
    /// Begins to wait, by advancing and by sleeping.
    Wait,
    /// What it waited for is there, or time is up.
    Waited,
    /// Begins to advance a context.
    Advance,
    /// Has advanced it, and so much has moved: nothing was to be done if that is 0.
    Advanced(usize),
    /// Falls asleep.
    Sleep,
    /// Is awake.
    Slept,
    /// Begins to queue the first packet of a message to this endpoint.
    Send(Endpoint),
    /// The last event is not so: there was no room.
    Unsent,
    /// Has the first packet of a message from this endpoint, and hands it over.
    Receive(Endpoint),
    /// Starts a collective.
    Collective(CollectiveCall),
    /// One is over.
    CollectiveEnded(CollectiveCall),
    /// All nodes are there, which all are told at once.
    Joined,
}

/// A collective of an endpoint: no two of it have one number in a geometry at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectiveCall {
    /// Which collective, as [`Collective`](crate::collective::Collective) numbers them; 0 at its end.
    pub what: u8,
    /// The geometry.
    pub geometry: u32,
    /// Its number there.
    pub number: u32,
    /// Whether that is the caller's, and not counted by the geometry.
    pub called: bool,
}

/// In the first word of a call whose number is the caller's.
const CALLED: u64 = 1 << 16;

impl Event {
    /// The event in two words.
    pub fn to_words(self) -> [u64; 2] {
        let call = |code, CollectiveCall { what, geometry, number, called }| {
            let called = if called { CALLED } else { 0 };
            [code | u64::from(what) << 8 | called, u64::from(geometry) << 32 | u64::from(number)]
        };
        match self {
            Self::Task(task) => [0, task.into()],
            Self::TaskEnded => [1, 0],
            Self::Wait => [2, 0],
            Self::Waited => [3, 0],
            Self::Advance => [4, 0],
            Self::Advanced(moved) => [5, moved as u64],
            Self::Sleep => [6, 0],
            Self::Slept => [7, 0],
            Self::Send(to) => [8, to.to_bits()],
            Self::Unsent => [9, 0],
            Self::Receive(from) => [10, from.to_bits()],
            Self::Collective(of) => call(11, of),
            Self::CollectiveEnded(of) => call(12, of),
            Self::Joined => [13, 0],
        }
    }

    /// The event of [`to_words`](Self::to_words).
    pub fn from_words([first, second]: [u64; 2]) -> Option<Self> {
        let call = || CollectiveCall {
            what: (first >> 8) as u8,
            geometry: (second >> 32) as u32,
            number: second as u32,
            called: first & CALLED != 0,
        };
        Some(match first as u8 {
            0 => Self::Task(second as u32),
            1 => Self::TaskEnded,
            2 => Self::Wait,
            3 => Self::Waited,
            4 => Self::Advance,
            5 => Self::Advanced(second as usize),
            6 => Self::Sleep,
            7 => Self::Slept,
            8 => Self::Send(Endpoint::from_bits(second)),
            9 => Self::Unsent,
            10 => Self::Receive(Endpoint::from_bits(second)),
            11 => Self::Collective(call()),
            12 => Self::CollectiveEnded(call()),
            13 => Self::Joined,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};

    #[test]
    fn x6_an_event_reads_back_from_its_words() {
        let peer = Endpoint::from_parts(ClientId::new(3, 7), u32::MAX, ContextOffset(255));
        let call = CollectiveCall { what: 10, geometry: u32::MAX, number: 5, called: true };
        let all = [
            Event::Task(u32::MAX),
            Event::TaskEnded,
            Event::Wait,
            Event::Waited,
            Event::Advance,
            Event::Advanced(9),
            Event::Sleep,
            Event::Slept,
            Event::Send(peer),
            Event::Unsent,
            Event::Receive(peer),
            Event::Collective(call),
            Event::CollectiveEnded(CollectiveCall { what: 0, called: false, ..call }),
            Event::Joined,
        ];
        for (code, event) in all.into_iter().enumerate() {
            let words = event.to_words();
            assert_eq!((words[0] as u8, Event::from_words(words)), (code as u8, Some(event)));
        }
        assert_eq!(Event::from_words([all.len() as u64, 0]), None);
    }
}
