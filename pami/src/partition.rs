//! Even parts of a whole.

use core::ops::Range;

/// `total` things in `parts` parts that differ by one at most, the longer ones first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    total: usize,
    parts: u32,
}

impl Partition {
    /// A partition; no parts count as one.
    pub fn new(total: usize, parts: u32) -> Self {
        Self { total, parts: parts.max(1) }
    }

    /// Number of parts.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Things before part `index`.
    pub fn start(&self, index: u32) -> usize {
        let (parts, index) = (self.parts as usize, index as usize);
        index * (self.total / parts) + index.min(self.total % parts)
    }

    /// Part `index`.
    pub fn range(&self, index: u32) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    /// The part that holds `thing`, which is below the total.
    pub fn part_of(&self, thing: usize) -> u32 {
        let parts = self.parts as usize;
        let (short, longer) = (self.total / parts, self.total % parts);
        let in_longer = longer * (short + 1);
        let part = if thing < in_longer {
            thing / (short + 1)
        } else {
            // With no things left over, `short` is 0 only if there is nothing to ask for.
            longer + (thing - in_longer) / short.max(1)
        };
        part as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn g4_a_partition_is_even_and_knows_where_each_thing_is(total in 0usize..500, parts in 1u32..40) {
            let partition = Partition::new(total, parts);
            let lens = (0..parts).map(|part| partition.range(part).len());
            prop_assert!(lens.clone().max().unwrap() - lens.clone().min().unwrap() <= 1);
            prop_assert_eq!(lens.sum::<usize>(), total);
            for thing in 0..total {
                prop_assert!(partition.range(partition.part_of(thing)).contains(&thing));
            }
        }
    }
}
