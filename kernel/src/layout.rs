//! Regions of addresses, and where RAM is free.

use crate::paging::PAGE;
use heapless::Vec;

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

/// RAM in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bank {
    /// Where it is.
    pub region: Region,
    /// The NUMA node that it is part of, as the device tree counts them (`numa-node-id`).
    pub domain: Option<u32>,
}

/// Most pieces that free RAM is kept in.
pub const PIECES: usize = 8;

/// Free RAM: whole pages, by rising address.
pub type Free = Vec<Bank, PIECES>;

/// The parts of `banks`, in whole pages below `end`, that touch none of `taken`. Of more than [`PIECES`] the smallest are left
/// out.
pub fn free(banks: &[Bank], taken: &[Region], end: usize) -> Free {
    let mut free = Free::new();
    for bank in banks {
        // What lies at address 0 is nothing to a pointer.
        let mut start = bank.region.start.max(PAGE);
        let bank_end = bank.region.end().min(end);
        while start < bank_end {
            // The next taken region at or behind `start`; those that hold it push it on.
            let over = taken.iter().filter(|region| region.contains(start)).map(Region::end).max();
            if let Some(over) = over {
                start = over;
                continue;
            }
            let ahead = taken.iter().filter(|region| region.bytes > 0 && region.start > start);
            let until = ahead.map(|region| region.start).min().unwrap_or(bank_end).min(bank_end);
            let region = Region::between(start, until).shrunk_to_pages();
            if region.bytes > 0 {
                keep(&mut free, Bank { region, ..*bank });
            }
            start = until;
        }
    }
    free.sort_unstable_by_key(|piece| piece.region.start);
    free
}

/// Adds a piece, in the place of the smallest if there is no room and that is smaller.
fn keep(free: &mut Free, piece: Bank) {
    if let Err(piece) = free.push(piece)
        && let Some(smallest) = free.iter_mut().min_by_key(|piece| piece.region.bytes)
        && smallest.region.bytes < piece.region.bytes
    {
        *smallest = piece;
    }
}

/// Bytes of all pieces.
pub fn bytes(banks: &[Bank]) -> usize {
    banks.iter().fold(0, |sum: usize, bank| sum.saturating_add(bank.region.bytes))
}

/// Takes up to `bytes` from the start of a piece.
fn cut(piece: &mut Region, bytes: usize) -> Region {
    let taken = Region { start: piece.start, bytes: bytes.min(piece.bytes) };
    *piece = Region::between(taken.end(), piece.end());
    taken
}

/// Takes `bytes` in one piece, of the domain `near` if it has one with so many.
pub fn take(free: &mut Free, bytes: usize, near: Option<u32>) -> Option<Region> {
    let fits = |piece: &Bank| piece.region.bytes >= bytes;
    let own = free.iter().position(|piece| piece.domain == near && fits(piece));
    let place = own.or_else(|| free.iter().position(fits))?;
    Some(cut(&mut free[place].region, bytes))
}

/// A share of the free RAM.
pub type Share = Vec<Region, PIECES>;

/// Cuts the free RAM into equal shares of whole pages, one for each of `near`: of that domain as far as it goes, then of others.
pub fn shares<const N: usize>(mut free: Free, near: &Vec<Option<u32>, N>) -> Vec<Share, N> {
    let each = (bytes(&free) / near.len().max(1)) & !(PAGE - 1);
    let mut shares: Vec<Share, N> = near.iter().map(|_| Share::new()).collect();
    // What is near to somebody goes to others only when all have what is near to them.
    for own in [true, false] {
        for (share, near) in shares.iter_mut().zip(near) {
            let mut wanted = each - share.iter().map(|piece| piece.bytes).sum::<usize>();
            for piece in free.iter_mut().filter(|piece| !own || piece.domain == *near) {
                let taken = cut(&mut piece.region, wanted);
                wanted -= taken.bytes;
                // A share has at most one part of each piece: the first time it took all that was near.
                if taken.bytes > 0 {
                    let _ = share.push(taken);
                }
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(start: usize, end: usize, domain: u32) -> Bank {
        Bank { region: Region::between(start, end), domain: Some(domain) }
    }

    fn regions(banks: &[Bank]) -> std::vec::Vec<Region> {
        banks.iter().map(|bank| bank.region).collect()
    }

    #[test]
    fn n5_free_memory_avoids_what_is_taken() {
        let memory = bank(0x8000_0000, 0x9000_0000, 0);
        let taken = [
            Region::between(0x8fe0_0100, 0x8fe0_2000),
            Region::between(0x8020_0000, 0x8050_0000),
            Region::between(0x8000_0000, 0x8004_0000),
            Region::between(0x8003_0000, 0x8008_0000),
            Region::default(),
        ];
        let left = free(&[memory], &taken, usize::MAX);
        let between = Region::between;
        assert_eq!(
            regions(&left),
            [
                between(0x8008_0000, 0x8020_0000),
                between(0x8050_0000, 0x8fe0_0000),
                between(0x8fe0_2000, 0x9000_0000)
            ]
        );
        assert_eq!(regions(&free(&[memory], &[], usize::MAX)), [memory.region]);
        assert_eq!(regions(&free(&[memory], &[], 0x8800_0000)), [between(0x8000_0000, 0x8800_0000)]);
        assert!(free(&[memory], &[memory.region], usize::MAX).is_empty());
        assert!(free(&[memory], &[between(0, usize::MAX)], usize::MAX).is_empty());
        assert!(free(&[memory], &[], 0x8000_0000).is_empty());
        assert_eq!(regions(&free(&[bank(0, 0x8000, 0)], &[], usize::MAX)), [between(0x1000, 0x8000)]);
    }

    #[test]
    fn b3_the_largest_pieces_are_kept_by_rising_address() {
        let taken: std::vec::Vec<_> =
            (0..12).map(|n| Region { start: (n + 1) * 0x10_0000 - n * 0x1000, bytes: 0x1000 }).collect();
        let left = free(&[bank(0, 0x100_0000, 0)], &taken, usize::MAX);
        assert_eq!(left.len(), PIECES);
        assert!(left.windows(2).all(|pair| pair[0].region.end() <= pair[1].region.start));
        // The last is what lies behind all: it is the largest, and came when there was no room.
        assert_eq!(left.last().map(|piece| piece.region.end()), Some(0x100_0000));
    }

    #[test]
    fn b3_every_share_is_as_large_and_near_as_far_as_that_goes() {
        let left = free(&[bank(0x1000, 0x9000, 0), bank(0x10_0000, 0x10_2000, 1)], &[], usize::MAX);
        let near = Vec::<_, 4>::from_slice(&[Some(1), Some(0)]).unwrap();
        let shares = shares(left.clone(), &near);
        let bytes = |share: &Share| share.iter().map(|piece| piece.bytes).sum::<usize>();
        assert_eq!(shares.iter().map(bytes).collect::<std::vec::Vec<_>>(), [0x5000; 2]);
        assert_eq!(shares[1], [Region { start: 0x1000, bytes: 0x5000 }]);
        // All that is near, and the rest of the other one.
        assert_eq!(
            shares[0],
            [Region { start: 0x10_0000, bytes: 0x2000 }, Region { start: 0x6000, bytes: 0x3000 }]
        );
        let alone = super::shares(left, &Vec::<_, 1>::from_slice(&[None]).unwrap());
        assert_eq!(alone[0].len(), 2);
    }

    #[test]
    fn b3_one_piece_is_taken_near_if_one_there_is_large_enough() {
        let mut left = free(&[bank(0x1000, 0x9000, 0), bank(0x10_0000, 0x10_2000, 1)], &[], usize::MAX);
        assert_eq!(take(&mut left, 0x1000, Some(1)), Some(Region { start: 0x10_0000, bytes: 0x1000 }));
        assert_eq!(take(&mut left, 0x3000, Some(1)), Some(Region { start: 0x1000, bytes: 0x3000 }));
        assert_eq!(take(&mut left, 0x8000, None), None);
        assert_eq!(super::bytes(&left), 0x6000);
    }
}
