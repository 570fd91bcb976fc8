//! The ends of operations: what the layer below calls.

use super::outstanding::Destination;
use super::peer::WindowPeer;
use super::table::Windows;
use crate::error::{Error, Result};
use crate::request::Requests;

/// What an operation's callback says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// This process's memory is its own again.
    Local,
    /// The target has carried a put out.
    Remote,
    /// A get is over, here and there.
    Both,
    /// A fence is.
    Fence,
    /// One of all processes is.
    FenceAll,
    /// What is split between origin and target is.
    Split,
}

impl End {
    const ALL: [Self; 6] = [Self::Local, Self::Remote, Self::Both, Self::Fence, Self::FenceAll, Self::Split];

    fn is_fence(self) -> bool {
        matches!(self, Self::Fence | Self::FenceAll)
    }
}

/// An operation, as its callback knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub end: End,
    pub window: u8,
    /// The target; of those of all processes, 0.
    pub rank: u32,
    /// The request that it is part of, or [`NONE`](crate::request::NONE).
    pub request: u16,
}

impl Name {
    pub(crate) fn cookie(self) -> usize {
        let Self { end, window, rank, request } = self;
        usize::from(request) | usize::from(window) << 16 | (end as usize) << 24 | (rank as usize) << 32
    }

    pub(crate) fn of_cookie(cookie: usize) -> Option<Self> {
        let end = *End::ALL.get(cookie >> 24 & 0xff)?;
        Some(Self { end, window: (cookie >> 16) as u8, rank: (cookie >> 32) as u32, request: cookie as u16 })
    }
}

impl Windows {
    /// The processes that an operation is towards.
    fn concerned(&mut self, name: Name) -> &mut [WindowPeer] {
        let peers = self.peers(name.window);
        if name.end == End::FenceAll {
            return peers;
        }
        let rank = name.rank as usize;
        peers.get_mut(rank..).and_then(|from| from.get_mut(..1)).unwrap_or_default()
    }

    /// An operation was begun that ends in this way.
    pub(crate) fn begun(&mut self, name: Name) {
        let Name { end, window, request, .. } = name;
        let (local, remote) = (matches!(end, End::Local | End::Both), end != End::Local);
        if let Some(win) = self.win(window) {
            win.local += u32::from(local);
            win.remote += u32::from(remote);
        }
        for peer in self.concerned(name) {
            peer.under_way += u32::from(remote);
            peer.served += u32::from(end.is_fence());
            peer.split += u32::from(end == End::Split);
        }
        if local {
            self.outstanding.add_part(request);
        }
    }

    pub(crate) fn ended(&mut self, requests: &mut Requests, name: Name, result: Result<()>) {
        let Name { end, window, request, .. } = name;
        let (local, remote) = (matches!(end, End::Local | End::Both), end != End::Local);
        if let Some(win) = self.win(window) {
            win.local = win.local.saturating_sub(u32::from(local));
            win.remote = win.remote.saturating_sub(u32::from(remote));
        }
        for peer in self.concerned(name) {
            peer.under_way = peer.under_way.saturating_sub(u32::from(remote));
            peer.served = peer.served.saturating_sub(u32::from(end.is_fence()));
            peer.split = peer.split.saturating_sub(u32::from(end == End::Split));
        }
        let untold = if local { self.outstanding.part_ended(requests, request, result) } else { result };
        if let (Err(error), Some(win)) = (untold, self.win(window)) {
            win.error = win.error.or(Some(error));
        }
    }

    pub(crate) fn fetched(&mut self, requests: &mut Requests, place: usize, word: Result<u64>) {
        let Some(fetch) = self.outstanding.get(place) else { return };
        match (&fetch.destination, word) {
            // The lower half is the word.
            (Destination::Data { len: 4, .. }, Ok(word)) => {
                self.answered(requests, place, Ok(&(word as u32).to_ne_bytes()));
            }
            (_, Ok(word)) => self.answered(requests, place, Ok(&word.to_ne_bytes())),
            (_, Err(error)) => self.answered(requests, place, Err(error)),
        }
    }

    /// The target's value for a fetch has come, or will not.
    pub(crate) fn answered(&mut self, requests: &mut Requests, place: usize, value: Result<&[u8]>) {
        let Some(fetch) = self.outstanding.get(place) else { return };
        let (window, rank, request, by_message) = (fetch.window, fetch.rank, fetch.request, fetch.by_message);
        let result = match &mut fetch.destination {
            Destination::Data { data, skip, len } => value.and_then(|bytes| {
                let bytes = bytes.get(..*len).ok_or(Error::Win)?;
                Ok(data.unpack_bytes(*skip, bytes)?)
            }),
            Destination::Word(word) => {
                // Who looks for it frees the place.
                *word = Some(value.and_then(|bytes| {
                    let bytes = bytes.try_into().map_err(|_| Error::Win)?;
                    Ok(u64::from_ne_bytes(bytes))
                }));
                return;
            }
        };
        self.outstanding.take(place);
        if let Some(peer) = self.peer(window, rank) {
            peer.under_way = peer.under_way.saturating_sub(1);
            peer.served = peer.served.saturating_sub(u32::from(by_message));
        }
        if let Some(win) = self.win(window) {
            win.local = win.local.saturating_sub(1);
            win.remote = win.remote.saturating_sub(1);
        }
        if let Err(error) = self.outstanding.part_ended(requests, request, result)
            && let Some(win) = self.win(window)
        {
            win.error = win.error.or(Some(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p7_a_cookie_says_all_of_an_operation() {
        for end in End::ALL {
            let name = Name { end, window: 200, rank: 3_000_000_001, request: 65_535 };
            assert_eq!(Name::of_cookie(name.cookie()), Some(name));
        }
        assert_eq!(Name::of_cookie(usize::MAX), None);
    }
}
