//! The bytes of elements, in the order in which they are packed.

use super::Datatype;

/// How far a walk along elements of a type has come. It has no end: the caller says how much it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Of the element, from the first one's origin.
    base: isize,
    run: usize,
    block: usize,
    within: usize,
}

impl Walk {
    /// A walk that begins `skip` packed bytes on.
    pub fn new(datatype: &Datatype, skip: usize) -> Self {
        let shape = datatype.shape();
        let (Some(element), mut rest) = (skip.checked_div(shape.size), skip % shape.size.max(1)) else {
            return Self { base: 0, run: 0, block: 0, within: 0 };
        };
        let base = shape.extent().wrapping_mul(element as isize);
        for (index, run) in datatype.runs().enumerate() {
            let all = run.block * run.count;
            if rest < all {
                return Self { base, run: index, block: rest / run.block, within: rest % run.block };
            }
            rest -= all;
        }
        Self { base, run: 0, block: 0, within: 0 }
    }

    /// The next piece of at most `most` bytes: its offset from the first element's origin, and its length. `None` for a type
    /// without data.
    pub fn next(&mut self, datatype: &Datatype, most: usize) -> Option<(isize, usize)> {
        let run = datatype.run(self.run)?;
        let block = run.stride.wrapping_mul(self.block as isize);
        let offset =
            self.base.wrapping_add(run.offset).wrapping_add(block).wrapping_add(self.within as isize);
        let len = (run.block - self.within).min(most);
        self.within += len;
        if self.within == run.block {
            (self.within, self.block) = (0, self.block + 1);
            if self.block == run.count {
                (self.block, self.run) = (0, self.run + 1);
                if self.run == datatype.run_count() {
                    (self.run, self.base) = (0, self.base.wrapping_add(datatype.extent()));
                }
            }
        }
        Some((offset, len))
    }
}
