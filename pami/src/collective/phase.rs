//! The parts that algorithms are made of.

use super::fan::Reduction;
use super::gather::Store;
use super::step::Span;

/// A part of an algorithm. One that goes along a tree has its place in it beside it: most need none, and that is long.
pub(super) enum Phase {
    Copy {
        into: Span,
        from: Span,
    },
    Combine(Span),
    Assemble {
        span: Span,
        own: Span,
    },
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
    Bulletin,
    /// Where each rank's memory lies.
    Direct,
    Up,
    Down,
    Broadcast {
        vector: Span,
        chunk: usize,
    },
    Reduction(Reduction),
    Gather {
        store: Store,
        own: Span,
    },
    Scatter {
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
    CollectRows,
    LeadersAlltoall,
    DealRows,
    Shift,
    Scan {
        first: u32,
    },
    ScanUp,
    ScanDown {
        exclusive: bool,
    },
}
