//! Where the pieces of a message lie between their gets and their places.

use crate::device::Path;
use crate::error::OperationError;
use rings::buffer::Buffer;
use rings::shared::Shared;

/// Memory that a piece lands in.
pub(crate) struct Landing {
    /// There but while the piece is put in its place.
    memory: Option<Shared>,
    piece: Option<Piece>,
}

/// A piece of a message, from its get to its place.
pub(crate) struct Piece {
    /// The receive request that it is of.
    pub(crate) of: u8,
    /// Where it comes from.
    pub(crate) path: Path,
    /// Of gets of pieces: those of one message are put in their places in this order.
    pub(crate) order: u64,
    pub(crate) len: u32,
    /// How its get ended.
    pub(crate) ended: Option<Result<(), OperationError>>,
}

impl Landing {
    /// For pieces of at most as many bytes as there are of memory.
    pub(crate) fn new(memory: Option<Shared>) -> Self {
        Self { memory, piece: None }
    }

    /// Its memory, if no piece is to land there.
    pub(super) fn free(&self) -> Option<&Shared> {
        self.memory.as_ref().filter(|_| self.piece.is_none())
    }

    /// A piece is to land there.
    pub(super) fn expect(&mut self, piece: Piece) {
        self.piece = Some(piece);
    }

    /// The piece that is to land there, or has.
    pub(super) fn piece(&self) -> Option<&Piece> {
        self.piece.as_ref()
    }

    /// The get of its piece has ended.
    pub(super) fn end(&mut self, result: Result<(), OperationError>) {
        if let Some(piece) = &mut self.piece {
            piece.ended = Some(result);
        }
    }

    /// Takes a piece whose get has ended out, if nobody writes the memory any more.
    pub(super) fn take(&mut self) -> Option<(Piece, Buffer)> {
        let has_ended = |piece: &Piece| piece.ended.is_some();
        if !self.piece.as_ref().is_some_and(has_ended) {
            return None;
        }
        match self.memory.take()?.reclaim() {
            Ok(buffer) => Some((self.piece.take()?, buffer)),
            Err(memory) => {
                self.memory = Some(memory);
                None
            }
        }
    }

    /// Whether its memory is out with a piece that is put in its place.
    pub(super) fn is_out(&self) -> bool {
        self.memory.is_none()
    }

    /// It has memory again.
    pub(super) fn refill(&mut self, memory: Buffer) {
        self.memory = Some(memory.share());
    }
}
