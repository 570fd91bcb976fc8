//! Regions of addresses, and where RAM is free.

use crate::paging::PAGE;

/// A region of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Region {
    /// The first address.
    pub start: usize,
    /// Its length.
    pub bytes: usize,
}

impl Region {
    /// From `start` up to but not including `end`; empty if that is below.
    pub fn between(start: usize, end: usize) -> Self {
        Self { start, bytes: end.saturating_sub(start) }
    }

    /// The first address behind it.
    pub fn end(&self) -> usize {
        self.start.saturating_add(self.bytes)
    }

    /// Whether `address` lies in it.
    pub fn contains(&self, address: usize) -> bool {
        (self.start..self.end()).contains(&address)
    }

    /// The whole pages that touch it.
    pub fn grown_to_pages(&self) -> Self {
        Self::between(self.start & !(PAGE - 1), self.end().saturating_add(PAGE - 1) & !(PAGE - 1))
    }

    /// The whole pages inside it.
    pub fn shrunk_to_pages(&self) -> Self {
        Self::between(self.start.saturating_add(PAGE - 1) & !(PAGE - 1), self.end() & !(PAGE - 1))
    }
}

/// The largest part of `memory`, in whole pages, that touches none of `taken`.
pub fn largest_free(memory: Region, taken: &[Region]) -> Region {
    let mut best = Region::default();
    let mut start = memory.start;
    while start < memory.end() {
        // The next taken region at or behind `start`; those that hold it push it on.
        if let Some(over) = taken.iter().filter(|region| region.contains(start)).map(Region::end).max() {
            start = over;
            continue;
        }
        let ahead =
            taken.iter().filter(|region| region.bytes > 0 && region.start > start).map(|region| region.start);
        let end = ahead.min().unwrap_or(memory.end()).min(memory.end());
        let free = Region::between(start, end).shrunk_to_pages();
        if free.bytes > best.bytes {
            best = free;
        }
        start = end;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n5_free_memory_avoids_what_is_taken() {
        let memory = Region::between(0x8000_0000, 0x9000_0000);
        let taken = [
            Region::between(0x8fe0_0100, 0x8fe0_2000),
            Region::between(0x8020_0000, 0x8050_0000),
            Region::between(0x8000_0000, 0x8004_0000),
            Region::between(0x8003_0000, 0x8008_0000),
            Region::default(),
        ];
        assert_eq!(largest_free(memory, &taken), Region::between(0x8050_0000, 0x8fe0_0000));
        assert_eq!(largest_free(memory, &[]), memory);
        assert_eq!(largest_free(memory, &[memory]).bytes, 0);
        assert_eq!(largest_free(memory, &[Region::between(0, usize::MAX)]).bytes, 0);
    }
}
