//! What callers give to collectives.

use crate::data::Data;

/// What a process contributes: data, or what is in the receive buffer already.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// `MPI_IN_PLACE`.
    InPlace,
    /// Data of its own.
    Data(&'a Data),
}

/// `MPI_IN_PLACE`.
pub const IN_PLACE: Operand<'static> = Operand::InPlace;

impl<'a> From<&'a Data> for Operand<'a> {
    fn from(data: &'a Data) -> Self {
        Self::Data(data)
    }
}

impl<'a> Operand<'a> {
    pub(crate) fn data(self) -> Option<&'a Data> {
        match self {
            Self::InPlace => None,
            Self::Data(data) => Some(data),
        }
    }
}

/// A block for each process, of any length and anywhere: counts and displacements of the v forms.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// The buffer that displacements are from, and the type of its elements. Its own count means nothing.
    pub data: &'a Data,
    /// Elements of the block of each process.
    pub counts: &'a [usize],
    /// Where each block begins, in extents of the type from the buffer's start.
    pub displacements: &'a [isize],
}
