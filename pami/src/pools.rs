//! How much a context has for what is under way: its pools (SPEC R-9).
//!
//! All of it is there from when the context is made, and never more. What finds a pool empty waits or comes again, and stops
//! nothing else; what happens past each is in the table of docs/limits.md.

use crate::device::OPERATIONS;
use crate::receive::HALVES_LIMIT;
use crate::receive_request::{PIECES, RECEIVE_REQUESTS};
use crate::unexpected::UNEXPECTED_LIMIT;

/// What each context of a client has for what is under way. What it has for collectives is [`Limits`](crate::Limits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pools {
    /// Operations that can be under way: sends, puts, gets, updates, fences and messages to be processed. 1 to [`OPERATIONS`].
    pub operations: usize,
    /// Receive requests: messages whose data is being pulled, or whose end is to be told. 1 to [`RECEIVE_REQUESTS`].
    pub receive_requests: usize,
    /// Messages of several packets that are half-way in, the same at all tasks: 1 to [`HALVES_LIMIT`], as the next power of two.
    /// In a job of at most half as many endpoints each is sure of a place.
    pub halves: usize,
    /// Messages that are kept for later. Up to [`UNEXPECTED_LIMIT`].
    pub unexpected: usize,
    /// Bytes of data of eager ones, of all together, the same at all tasks. Longer data stays with its sender. Below 4 GiB.
    pub unexpected_bytes: usize,
    /// Pieces that are pulled at a time of data which is wanted in packets or scattered. 1 to 4.
    pub pieces: usize,
    /// Bytes of one of these, at least 1. Below 4 GiB.
    pub piece_bytes: usize,
}

impl Pools {
    /// What a client has that names none: with all else of a context less than 16 KiB.
    pub const SMALL: Self = Self {
        operations: 8,
        receive_requests: 8,
        halves: 8,
        unexpected: 4,
        unexpected_bytes: 2 << 10,
        pieces: 2,
        piece_bytes: 1 << 10,
    };
    /// For a context that much goes through: as many operations and receive requests as there can be.
    pub const LARGE: Self = Self {
        operations: OPERATIONS,
        receive_requests: RECEIVE_REQUESTS,
        halves: HALVES_LIMIT,
        unexpected: 8,
        unexpected_bytes: 512 << 10,
        pieces: PIECES,
        // So much that packets of the longest kind are on their way while the next piece is asked for.
        piece_bytes: 128 << 10,
    };

    /// The first that there cannot be so many of, and how many there can be.
    pub(crate) fn mistake(&self) -> Option<(&'static str, usize)> {
        let longest = u32::MAX as usize;
        let pools = [
            ("places for operations", self.operations, 1, OPERATIONS),
            ("receive requests", self.receive_requests, 1, RECEIVE_REQUESTS),
            ("places for half messages", self.halves, 1, HALVES_LIMIT),
            ("places of the unexpected queue", self.unexpected, 0, UNEXPECTED_LIMIT),
            ("bytes of unexpected messages", self.unexpected_bytes, 0, longest),
            ("pieces at a time", self.pieces, 1, PIECES),
            ("bytes of a piece", self.piece_bytes, 1, longest),
        ];
        let mut wrong =
            pools.into_iter().filter(|(_, number, least, most)| !(least..=most).contains(&number));
        wrong.next().map(|(what, _, _, limit)| (what, limit))
    }
}
