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

    /// Things of the shorter parts, and how many are longer.
    fn lens(&self) -> (usize, usize) {
        let parts = self.parts as usize;
        (self.total / parts, self.total % parts)
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

/// As a [`Partition`], but the longer parts are next to each other anywhere: where one of them has a thing that is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionAround {
    even: Partition,
    /// The first of the longer parts.
    longer: u32,
}

impl PartitionAround {
    /// `total` things around `thing`, which is below the total; no parts count as one.
    pub fn new(total: usize, parts: u32, thing: usize) -> Self {
        let even = Partition::new(total, parts);
        let (short, more) = even.lens();
        let longer = thing.checked_div(short).unwrap_or(0).min(even.parts as usize - more);
        Self { even, longer: longer as u32 }
    }

    /// Number of parts.
    pub fn parts(&self) -> u32 {
        self.even.parts
    }

    /// Things before part `index`.
    pub fn start(&self, index: u32) -> usize {
        let (short, more) = self.even.lens();
        index as usize * short + (index.saturating_sub(self.longer) as usize).min(more)
    }

    /// Part `index`.
    pub fn range(&self, index: u32) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    /// Things of the longest part.
    pub fn longest(&self) -> usize {
        self.even.range(0).len()
    }

    /// The part that holds `thing`, which is below the total.
    pub fn part_of(&self, thing: usize) -> u32 {
        let (short, _) = self.even.lens();
        let before = self.longer as usize * short;
        if thing < before {
            return (thing / short) as u32;
        }
        let rest = Partition::new(self.even.total - before, self.even.parts - self.longer);
        self.longer + rest.part_of(thing - before)
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

        #[test]
        fn g4_a_thing_that_is_chosen_is_in_a_longer_part(total in 1usize..200, parts in 1u32..40, of in 0usize..200) {
            let chosen = of % total;
            let partition = PartitionAround::new(total, parts, chosen);
            let lens = (0..parts).map(|part| partition.range(part).len());
            let longest = lens.clone().max().unwrap();
            prop_assert!(longest - lens.clone().min().unwrap() <= 1);
            prop_assert_eq!(lens.sum::<usize>(), total);
            prop_assert_eq!(partition.range(partition.part_of(chosen)).len(), longest);
            for thing in 0..total {
                prop_assert!(partition.range(partition.part_of(thing)).contains(&thing));
            }
        }
    }
}
