//! Gather and scatter along a tree whose subtrees are ranges of ranks, counted from the root on and round the end.
//!
//! A rank between the root and the leaves keeps the blocks of its subtree in scratch memory, its own first. Where
//! all ranks have room for all blocks, each block is in its final place from the start. A range that goes round
//! the end lies in two pieces at the root and travels as two messages.

use super::blocks::around;
use super::call::Call;
use super::step::{Area, Round, Span};
use super::tree::Tree;

/// Where a rank keeps the blocks of its subtree.
#[derive(Clone, Copy)]
pub(super) enum Store {
    /// All blocks of the call have their places in this area.
    Whole(Area),
    /// Only those of the subtree, in scratch memory from this offset on.
    Subtree(usize),
}

impl Store {
    /// A range of blocks that does not go round the end.
    fn span(self, call: &Call, ranks: &core::ops::Range<u32>) -> Span {
        let (blocks, start) = (&call.blocks, ranks.start);
        let len = blocks.start(ranks.end) - blocks.start(start);
        match self {
            // Of one alone it may be a part that is sent.
            Self::Whole(area) if ranks.len() == 1 => blocks.span(area, start),
            Self::Whole(area) => Span::new(area, blocks.start(start), len),
            Self::Subtree(base) => {
                Span::new(Area::Scratch, base + blocks.round_start(call.rank, start, call.size), len)
            }
        }
    }

    /// The `count` blocks from rank `start` on, in two pieces of which one may be empty.
    fn pieces(self, call: &Call, start: u32, count: u32) -> [Span; 2] {
        around(start, count, call.size).map(|ranks| self.span(call, &ranks))
    }
}

/// Elements of scratch memory that [`Store::Subtree`] takes, if the rank has a subtree at all.
pub(super) fn scratch(call: &Call, tree: &Tree) -> usize {
    if tree.children() == 0 { 0 } else { call.blocks.round_len(call.rank, tree.extent(), call.size) }
}

/// Sends the blocks of the subtree to the root. `own` is this rank's block; at the root and in a store of all
/// blocks it may be in its place already.
pub(super) fn gather(call: &Call, tree: &Tree, store: Store, own: Span, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    let [place, _] = store.pieces(call, call.rank, 1);
    if at == 0 {
        if children > 0 || tree.parent().is_none() {
            out.copy(place, own);
        }
    } else if at <= children {
        let child = tree.child(at - 1);
        for (number, piece) in store.pieces(call, child, tree.child_extent(at - 1)).into_iter().enumerate() {
            out.receive(child, number, piece);
        }
    } else if at == children + 1 {
        out.wait();
        let Some(parent) = tree.parent() else { return false };
        let pieces =
            if children > 0 { store.pieces(call, call.rank, tree.extent()) } else { [own, own.first(0)] };
        for (number, piece) in pieces.into_iter().enumerate() {
            out.send(parent, number, piece);
        }
        out.wait();
    } else {
        return false;
    }
    true
}

/// Sends blocks down from the root, whose store has them all. Each rank's block ends in `own`, if it is elsewhere
/// than in the store.
pub(super) fn scatter(
    call: &Call,
    tree: &Tree,
    store: Store,
    own: Option<Span>,
    at: usize,
    out: &mut Round,
) -> bool {
    let children = tree.children();
    if at == 0 {
        if let Some(parent) = tree.parent() {
            let pieces = match own {
                Some(own) if children == 0 => [own, own.first(0)],
                _ => store.pieces(call, call.rank, tree.extent()),
            };
            for (number, piece) in pieces.into_iter().enumerate() {
                out.receive(parent, number, piece);
            }
            out.wait();
        }
    } else if at <= children {
        // The largest subtree first: it takes longest.
        let (child, extent) = (tree.child(children - at), tree.child_extent(children - at));
        for (number, piece) in store.pieces(call, child, extent).into_iter().enumerate() {
            out.send(child, number, piece);
        }
    } else if at == children + 1 {
        out.wait();
        if let Some(own) = own
            && (children > 0 || tree.parent().is_none())
        {
            out.copy(own, store.pieces(call, call.rank, 1)[0]);
        }
    } else {
        return false;
    }
    true
}
