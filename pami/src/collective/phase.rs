//! The parts that algorithms are made of.

use super::fan::Reduction;
use super::gather::Store;
use super::step::Span;
use super::tree::Tree;

/// A part of an algorithm.
pub(super) enum Phase<'a> {
    Copy {
        into: Span,
        from: Span,
    },
    Combine(Span),
    Spread {
        span: Span,
        source: bool,
    },
    /// A rank's span is sent to another's; nothing if they are one.
    Hand {
        from: (u32, Span),
        to: (u32, Span),
    },
    Dissemination,
    Up(Tree<'a>),
    Down(Tree<'a>),
    Broadcast {
        tree: Tree<'a>,
        vector: Span,
        chunk: usize,
    },
    Reduction {
        tree: Tree<'a>,
        reduction: Reduction,
    },
    Gather {
        tree: Tree<'a>,
        store: Store,
        own: Span,
    },
    Scatter {
        tree: Tree<'a>,
        store: Store,
        own: Option<Span>,
    },
    RingAllgather,
    DoublingAllgather,
    BruckAllgather,
    RingReduceScatter(Span),
    HalvingReduceScatter(Span),
    PairwiseReduceScatter,
    DoublingAllreduce {
        partial: Span,
        arrival: Span,
    },
    HalvingAllreduce,
    /// All blocks of the output go to scratch memory.
    Save,
    PairwiseAlltoall,
    BruckAlltoall,
    Shift,
    Scan {
        first: u32,
    },
}
