//! What this node's ports asked other nodes for and have not heard of yet (SPEC D-5, F-2).
//!
//! A node answers what it was asked in the order in which it was asked, and the network keeps order; so an answer is
//! for the oldest request to the node that it comes from, or for none. It is checked against that one alone: whose it
//! is, how it is numbered, of what kind it is, where its data goes and how much there is. What does not fit is not
//! placed.
//!
//! A node that does not answer is asked [`WINDOW`] times and no more; what else is for it is [parked](super::parked),
//! and keeps nothing back that is for others (SPEC R-1).

use super::statistics::Counters;
use alloc::boxed::Box;
use heapless::Deque;
use pami::device::{Completed, REQUESTS};
use pami::packet::{Envelope, Kind};
use pami::region::RegionFault;
use rings::shared::Shared;

/// Requests to one node that may be under way at once.
pub const WINDOW: usize = 32;

/// What an answer is to bring.
pub(crate) enum Awaited {
    /// Nothing, to a put.
    End,
    /// The old value, to an update.
    Word,
    /// `left` bytes more, whose place is `at`; none without memory.
    Data { into: Option<Shared>, at: u32, left: u32, last: bool },
}

/// A request under way.
pub(crate) struct Request {
    pub(crate) port: u16,
    pub(crate) message: u32,
    pub(crate) awaited: Awaited,
}

/// What became of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It fits no request.
    Unsolicited,
    /// Its data is where it belongs, and more will come.
    Placed,
    /// The message has ended.
    Ended(Completed),
}

/// The requests under way, by node in use.
pub(crate) struct Outstanding {
    windows: Box<[Deque<Request, WINDOW>]>,
    /// By port and message: what was refused of a message that goes on.
    faults: Box<[[Option<RegionFault>; REQUESTS]]>,
}

impl Outstanding {
    /// For `nodes` nodes in use. Allocates.
    pub(crate) fn new(nodes: usize, ports: usize) -> Self {
        Self {
            windows: (0..nodes).map(|_| Deque::new()).collect(),
            faults: (0..ports).map(|_| [None; REQUESTS]).collect(),
        }
    }

    /// About how many bytes of heap it takes.
    pub(crate) const fn heap_bytes(nodes: usize, ports: usize) -> usize {
        nodes * size_of::<Deque<Request, WINDOW>>() + ports * REQUESTS
    }

    /// Whether a node may be asked once more.
    #[inline]
    pub(crate) fn has_room(&self, node: u16) -> bool {
        self.windows.get(usize::from(node)).is_none_or(|window| !window.is_full())
    }

    /// Whether a node owes nothing.
    pub(crate) fn is_idle(&self, node: u16) -> bool {
        self.windows.get(usize::from(node)).is_none_or(Deque::is_empty)
    }

    /// A request is on its way. False if there is no room for it.
    pub(crate) fn add(&mut self, node: u16, request: Request) -> bool {
        self.windows.get_mut(usize::from(node)).is_some_and(|window| window.push_back(request).is_ok())
    }

    /// A request will never be on its way.
    #[cold]
    pub(crate) fn forget(&mut self, request: &Request) {
        note(&mut self.faults, request.port, request.message, None);
    }

    /// Nothing more will be heard from a node: drops its requests.
    #[cold]
    pub(crate) fn purge(&mut self, node: u16) {
        let Some(window) = self.windows.get_mut(usize::from(node)) else { return };
        while let Some(request) = window.pop_front() {
            note(&mut self.faults, request.port, request.message, None);
        }
    }

    /// Takes in what a node answered to port `port`.
    pub(crate) fn take(
        &mut self,
        node: u16,
        port: u16,
        envelope: &Envelope,
        data: &[u8],
        counters: &Counters,
    ) -> Taken {
        let window = self.windows.get_mut(usize::from(node));
        let Some(request) = window.and_then(|window| window.front_mut()) else { return Taken::Unsolicited };
        if (request.port, request.message) != (port, envelope.message) {
            return Taken::Unsolicited;
        }
        let refused = match envelope.dispatch {
            0 => None,
            byte => match RegionFault::from_byte(byte) {
                Some(fault) => Some(fault),
                None => return Taken::Unsolicited,
            },
        };
        let (mut result, mut last) = (refused.map_or(Ok(0), Err), true);
        match (&mut request.awaited, envelope.kind) {
            (Awaited::End, Kind::Reply) if data.is_empty() => {}
            (Awaited::Word, Kind::Reply) if refused.is_some() == data.is_empty() => {
                if refused.is_none() {
                    let Ok(word) = data.try_into() else { return Taken::Unsolicited };
                    result = Ok(u64::from_le_bytes(word));
                }
            }
            (Awaited::Data { last: is_last, .. }, Kind::GetLast) if refused.is_some() && data.is_empty() => {
                last = *is_last;
            }
            (Awaited::Data { into, at, left, last: is_last }, kind @ (Kind::GetData | Kind::GetLast)) => {
                let len = data.len() as u32;
                let fits = if kind == Kind::GetLast { len == *left } else { 0 < len && len < *left };
                if refused.is_some() || envelope.offset != *at || !fits {
                    return Taken::Unsolicited;
                }
                if let Some(Err(misplaced)) = into.as_ref().map(|memory| memory.write(*at as usize, data)) {
                    // The port asked for more than it has room for.
                    result = Err(misplaced.into());
                }
                last = *is_last;
                *at = at.wrapping_add(len);
                *left -= len;
                if kind == Kind::GetData {
                    if let Err(fault) = result {
                        note(&mut self.faults, port, envelope.message, Some(fault));
                    }
                    counters.placed.add(1);
                    return Taken::Placed;
                }
            }
            _ => return Taken::Unsolicited,
        }
        if let Some(window) = self.windows.get_mut(usize::from(node)) {
            window.pop_front();
        }
        counters.placed.add(1);
        let before = fault(&mut self.faults, port, envelope.message);
        if let Some(before) = before.and_then(Option::take) {
            result = Err(before);
        }
        if last {
            return Taken::Ended(Completed { message: envelope.message, result });
        }
        if let Err(fault) = result {
            note(&mut self.faults, port, envelope.message, Some(fault));
        }
        Taken::Placed
    }
}

type Faults = [[Option<RegionFault>; REQUESTS]];

fn fault(faults: &mut Faults, port: u16, message: u32) -> Option<&mut Option<RegionFault>> {
    faults.get_mut(usize::from(port))?.get_mut(message as usize % REQUESTS)
}

fn note(faults: &mut Faults, port: u16, message: u32, what: Option<RegionFault>) {
    if let Some(place) = fault(faults, port, message) {
        *place = what;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pami::endpoint::{ClientId, ContextOffset, Endpoint};

    const PORT: u16 = 3;
    const MESSAGE: u32 = 7;

    fn take(requests: &mut Outstanding, (kind, dispatch): (Kind, u8), data: &[u8]) -> Taken {
        let origin = Endpoint::from_parts(ClientId(0), 1, ContextOffset(0));
        let envelope =
            Envelope { kind, dispatch, origin, target: origin, message: MESSAGE, offset: 0, total: 0 };
        requests.take(1, PORT, &envelope, data, &Counters::default())
    }

    fn asked(awaited: Awaited) -> Outstanding {
        let mut requests = Outstanding::new(2, 4);
        assert!(requests.add(1, Request { port: PORT, message: MESSAGE, awaited }));
        requests
    }

    fn ended(result: Result<u64, RegionFault>) -> Taken {
        Taken::Ended(Completed { message: MESSAGE, result })
    }

    #[test]
    fn d9_an_answer_has_what_was_asked_for_and_nothing_else() {
        let (fault, word) = (RegionFault::Rights, 9u64.to_le_bytes());
        let refused = (Kind::Reply, fault as u8);
        for (awaited, wrong, right, result) in [
            (|| Awaited::End, &word[..], &[][..], Ok(0)),
            (|| Awaited::Word, &[], &word[..], Ok(9)),
            (|| Awaited::Word, &word[..7], &word[..], Ok(9)),
        ] as [(fn() -> Awaited, _, _, _); 3]
        {
            let mut requests = asked(awaited());
            assert!(!requests.is_idle(1) && requests.is_idle(0));
            assert_eq!(take(&mut requests, (Kind::Reply, 0), wrong), Taken::Unsolicited);
            // What is refused brings no data.
            assert_eq!(take(&mut requests, refused, &word), Taken::Unsolicited);
            assert_eq!(take(&mut requests, (Kind::Reply, u8::MAX), &[]), Taken::Unsolicited);
            assert_eq!(take(&mut requests, (Kind::Reply, 0), right), ended(result));
            assert!(requests.is_idle(1));
            assert_eq!(take(&mut requests, (Kind::Reply, 0), right), Taken::Unsolicited);
            assert_eq!(take(&mut asked(awaited()), refused, &[]), ended(Err(fault)));
        }
    }

    #[test]
    fn d5_a_fault_of_one_packet_is_that_of_its_message_and_of_no_later_one() {
        let last = |last| Awaited::Data { into: None, at: 0, left: 0, last };
        let refused = (Kind::GetLast, RegionFault::Rights as u8);
        let mut requests = asked(last(false));
        assert_eq!(take(&mut requests, refused, &[]), Taken::Placed);
        assert!(requests.add(1, Request { port: PORT, message: MESSAGE, awaited: last(true) }));
        assert_eq!(take(&mut requests, (Kind::GetLast, 0), &[]), ended(Err(RegionFault::Rights)));
        // Of one that ended otherwise nothing is left for the next with its number.
        let forget = |requests: &mut Outstanding| {
            requests.forget(&Request { port: PORT, message: MESSAGE, awaited: Awaited::End });
        };
        for end in [forget, |requests| requests.purge(1)] as [fn(&mut Outstanding); 2] {
            let mut requests = asked(last(false));
            assert_eq!(take(&mut requests, refused, &[]), Taken::Placed);
            assert!(requests.add(1, Request { port: PORT, message: MESSAGE, awaited: last(true) }));
            end(&mut requests);
            let _ = requests.add(1, Request { port: PORT, message: MESSAGE, awaited: last(true) });
            assert_eq!(take(&mut requests, (Kind::GetLast, 0), &[]), ended(Ok(0)));
        }
    }
}
