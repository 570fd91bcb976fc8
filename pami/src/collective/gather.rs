//! Gather and scatter along a tree.
//!
//! A rank between the root and the leaves keeps the blocks of its subtree in scratch memory, in the order of the tree's numbers,
//! so that those of each child are one message. Where all ranks have room for all blocks, each block is in its final place from
//! the start. There, and at the root, a range that goes round the end lies in two pieces and travels as two messages. Of trees
//! over affinity domains ranks below one child may be scattered: their blocks are *packed* in scratch memory on the way,
//! since a boundary is to be crossed once (SPEC A-6).

use super::call::Call;
use super::step::{Area, Round, Span};
use super::tree::Tree;
use core::ops::Range;

/// Where a rank keeps the blocks of its subtree.
#[derive(Clone, Copy)]
pub(super) enum Store {
    /// All blocks of the call have their places in this area.
    Whole(Area),
    /// Only those of the subtree, in scratch memory from this offset on.
    Subtree(usize),
}

impl Store {
    /// Blocks of ranks of the subtree, by their numbers, in two pieces of which one may be empty.
    fn pieces(self, call: &Call, tree: &Tree, numbers: Range<u32>) -> [Span; 2] {
        let ranges = tree.ranges(numbers.clone());
        match (self, ranges) {
            (Self::Whole(area), Some(ranges)) => ranges.map(|ranks| match ranks.len() {
                // Of one alone it may be a part that is sent.
                1 => call.block(area, ranks.start),
                _ => {
                    let [start, end] = [ranks.start, ranks.end].map(|rank| call.blocks.start(rank));
                    Span::new(area, start, end - start)
                }
            }),
            (_, ranges) => {
                let head = ranges.map_or(numbers.end, |[head, _]| numbers.start + head.len() as u32);
                [numbers.start..head, head..numbers.end].map(|numbers| {
                    let offset = self.packed(call) + tree.elements(&call.blocks, 0..numbers.start);
                    Span::new(Area::Scratch, offset, tree.elements(&call.blocks, numbers))
                })
            }
        }
    }

    /// Where in scratch memory blocks stand in the order of the tree's numbers.
    fn packed(self, call: &Call) -> usize {
        match self {
            Self::Subtree(base) => base,
            Self::Whole(Area::Scratch) => call.total(),
            Self::Whole(_) => 0,
        }
    }

    /// Of those of the subtree's ranks whose blocks are packed though they have places of their own, the one with this index:
    /// its block there and in its place.
    fn scattered(self, call: &Call, tree: &Tree, index: usize) -> Option<(Span, Span)> {
        let Self::Whole(area) = self else { return None };
        if !tree.may_scatter() {
            return None;
        }
        let mut left = index as u32;
        for child in 0..tree.children() {
            let numbers = tree.below(child);
            let count = numbers.len() as u32;
            if tree.ranges(numbers.clone()).is_some() {
                continue;
            }
            if left < count {
                let number = numbers.start + left;
                let place = call.block(area, tree.entry(number));
                let before = tree.elements(&call.blocks, 0..number);
                return Some((Span::new(Area::Scratch, self.packed(call) + before, place.len), place));
            }
            left -= count;
        }
        None
    }

    /// Number of those ranks.
    fn scattered_count(self, tree: &Tree) -> usize {
        let scattered = |numbers: &Range<u32>| tree.ranges(numbers.clone()).is_none();
        match self {
            Self::Whole(_) if tree.may_scatter() => {
                let below = (0..tree.children()).map(|child| tree.below(child));
                below.filter(scattered).map(|numbers| numbers.len()).sum()
            }
            _ => 0,
        }
    }
}

/// Elements of scratch memory up to the last that a rank with this store names.
pub(super) fn scratch(call: &Call, tree: &Tree, store: Store) -> usize {
    let all = || store.packed(call) + tree.elements(&call.blocks, 0..tree.extent());
    match store {
        Store::Subtree(base) if tree.children() == 0 => base,
        Store::Whole(area) if store.scattered_count(tree) == 0 => {
            if area == Area::Scratch {
                call.total()
            } else {
                0
            }
        }
        _ => all(),
    }
}

/// Sends the blocks of the subtree to the root. `own` is this rank's block; at the root and in a store of all
/// blocks it may be in its place already.
pub(super) fn gather(call: &Call, tree: &Tree, store: Store, own: Span, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    if at == 0 {
        if children > 0 || tree.parent().is_none() {
            let [place, _] = store.pieces(call, tree, 0..1);
            out.copy(place, own);
        }
    } else if at <= children {
        let child = tree.child(at - 1);
        for (number, piece) in store.pieces(call, tree, tree.below(at - 1)).into_iter().enumerate() {
            out.receive(child, number, piece);
        }
    } else if at == children + 1 {
        out.wait();
        if let Some(parent) = tree.parent() {
            let pieces =
                if children > 0 { store.pieces(call, tree, 0..tree.extent()) } else { [own, own.first(0)] };
            for (number, piece) in pieces.into_iter().enumerate() {
                out.send(parent, number, piece);
            }
            out.wait();
        }
    } else {
        let scattered = store.scattered(call, tree, at - children - 2);
        if let Some((packed, place)) = scattered {
            out.copy(place, packed);
        }
        return scattered.is_some();
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
                _ => store.pieces(call, tree, 0..tree.extent()),
            };
            for (number, piece) in pieces.into_iter().enumerate() {
                out.receive(parent, number, piece);
            }
            out.wait();
        }
        return true;
    }
    let scattered = store.scattered_count(tree);
    if at <= scattered {
        if let Some((packed, place)) = store.scattered(call, tree, at - 1) {
            out.copy(packed, place);
        }
        return true;
    }
    let at = at - scattered;
    if at <= children {
        // The largest subtree first: it takes longest.
        let child = children - at;
        for (number, piece) in store.pieces(call, tree, tree.below(child)).into_iter().enumerate() {
            out.send(tree.child(child), number, piece);
        }
    } else if at == children + 1 {
        out.wait();
        if let Some(own) = own
            && (children > 0 || tree.parent().is_none())
        {
            out.copy(own, store.pieces(call, tree, 0..1)[0]);
        }
    } else {
        return false;
    }
    true
}
