//! Page tables of 4 KiB pages: of four levels for 48-bit addresses, or of the lower three for 39 bits. Sv48, Sv39 and AArch64
//! with T0SZ = 16 agree in all but the bits of an entry, which a [`Format`] makes. Everything is mapped where it lies.

use core::marker::PhantomData;
use core::ops::Range;

/// Bytes of the smallest page.
pub const PAGE: usize = 4096;
const ENTRIES: usize = 512;
/// Bytes that one entry maps, by level.
const SPAN: [usize; 4] = [1 << 39, 1 << 30, 1 << 21, 1 << 12];

/// Where what harts reach of addresses ends: the lower half of Sv39's and of Sv48's, and of AArch64's 48 bits all.
pub const SV39_END: usize = 1 << 38;
/// See [`SV39_END`].
pub const SV48_END: usize = 1 << 47;
/// See [`SV39_END`].
pub const AARCH64_END: usize = 1 << 48;

/// What a range of addresses is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryType {
    /// Read and execute.
    Code,
    /// Read only.
    Constant,
    /// Read and write.
    Data,
    /// Device registers: read and write, never cached or reordered.
    Device,
}

/// The bits of an architecture's entries.
pub trait Format {
    /// Mapped addresses are below this, with the uppermost level or without.
    fn end(wide: bool) -> usize;
    /// An entry that maps what lies at `address`; `level` 3 is a 4 KiB page, 2 and 1 are blocks.
    fn leaf(address: usize, access: MemoryType, level: usize) -> u64;
    /// An entry that points to the next level's table.
    fn link(table: usize) -> u64;
    /// The address in an entry.
    fn address(entry: u64) -> usize;
    /// Whether the entry is a [`link`](Self::link).
    fn is_link(entry: u64) -> bool;
}

/// One table, as the hardware reads it.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct Table([u64; ENTRIES]);

impl Table {
    /// A table that maps nothing.
    pub const EMPTY: Self = Self([0; ENTRIES]);
}

/// Why a range could not be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// Bounds that are no multiples of [`PAGE`], or beyond [`Format::end`].
    Bounds,
    /// Part of it is mapped already.
    Twice,
    /// No table is left.
    OutOfTables,
}

/// A translation under construction.
pub struct PageTables<'a, F> {
    tables: &'a mut [Table],
    used: usize,
    wide: bool,
    format: PhantomData<F>,
}

impl<'a, F: Format> PageTables<'a, F> {
    /// A translation that maps nothing and takes its tables from `tables`, which must not move any more; a `wide` one has the
    /// uppermost level.
    ///
    /// # Errors
    /// [`MapError::OutOfTables`] if there is not even one.
    pub fn new(tables: &'a mut [Table], wide: bool) -> Result<Self, MapError> {
        tables.first_mut().ok_or(MapError::OutOfTables)?.0.fill(0);
        Ok(Self { tables, used: 1, wide, format: PhantomData })
    }

    /// Address of the first level's table.
    pub fn root(&self) -> usize {
        self.tables.as_ptr() as usize
    }

    /// Maps `range`, in pages as large as fit.
    ///
    /// # Errors
    /// [`MapError`]; part of the range may be mapped then.
    pub fn map(&mut self, range: Range<usize>, access: MemoryType) -> Result<(), MapError> {
        if !range.start.is_multiple_of(PAGE)
            || !range.end.is_multiple_of(PAGE)
            || range.end > F::end(self.wide)
        {
            return Err(MapError::Bounds);
        }
        let mut address = range.start;
        while address < range.end {
            address += self.map_one(address, range.end - address, access)?;
        }
        Ok(())
    }

    /// Maps the largest page that starts at `address` and is at most `bytes` long. Returns its length.
    fn map_one(&mut self, address: usize, bytes: usize, access: MemoryType) -> Result<usize, MapError> {
        let mut table = 0;
        for (level, span) in SPAN.into_iter().enumerate().skip(usize::from(!self.wide)) {
            let index = address / span % ENTRIES;
            let entry = self.tables[table].0[index];
            // There are no blocks as large as the uppermost level's.
            if entry == 0 && level > 0 && address.is_multiple_of(span) && bytes >= span {
                self.tables[table].0[index] = F::leaf(address, access, level);
                return Ok(span);
            }
            if entry != 0 && !F::is_link(entry) || level == 3 {
                return Err(MapError::Twice);
            }
            table = if entry == 0 {
                let next = self.used;
                self.tables.get_mut(next).ok_or(MapError::OutOfTables)?.0.fill(0);
                self.used += 1;
                self.tables[table].0[index] = F::link(self.address_of(next));
                next
            } else {
                (F::address(entry) - self.root()) / size_of::<Table>()
            };
        }
        Err(MapError::Twice)
    }

    fn address_of(&self, table: usize) -> usize {
        self.root() + table * size_of::<Table>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address in the upper bits, access above the link bit.
    struct Plain;
    impl Format for Plain {
        fn end(wide: bool) -> usize {
            if wide { 1 << 48 } else { 1 << 39 }
        }
        fn leaf(address: usize, access: MemoryType, _: usize) -> u64 {
            address as u64 | (access as u64 + 1) << 1
        }
        fn link(table: usize) -> u64 {
            table as u64 | 1
        }
        fn address(entry: u64) -> usize {
            entry as usize & !0xfff
        }
        fn is_link(entry: u64) -> bool {
            entry & 1 != 0
        }
    }

    fn walk(tables: &PageTables<Plain>, address: usize) -> Option<(usize, u64)> {
        let mut table = 0;
        for span in SPAN.into_iter().skip(usize::from(!tables.wide)) {
            let entry = tables.tables[table].0[address / span % ENTRIES];
            if entry == 0 {
                return None;
            }
            if !Plain::is_link(entry) {
                return Some((Plain::address(entry) + address % span, (entry >> 1 & 7) - 1));
            }
            table = (Plain::address(entry) - tables.root()) / size_of::<Table>();
        }
        None
    }

    #[test]
    fn n10_what_is_mapped_is_itself_and_nothing_else_is() {
        let mut pool = vec![Table::EMPTY; 16];
        let mut tables = PageTables::<Plain>::new(&mut pool, false).unwrap();
        let ranges = [
            (0x4020_0000..0x4023_5000, MemoryType::Code),
            (0x4023_5000..0x4024_0000, MemoryType::Constant),
            (0x4024_1000..0x4028_1000, MemoryType::Data),
            (0x4060_0000..0x1_2345_6000, MemoryType::Data),
            (0x0900_0000..0x0900_1000, MemoryType::Device),
        ];
        for (range, access) in ranges.clone() {
            tables.map(range, access).unwrap();
        }
        for (range, access) in ranges {
            for address in [range.start, range.start + 0x123, range.end - 1] {
                assert_eq!(walk(&tables, address), Some((address, access as u64)), "{address:#x}");
            }
        }
        for hole in [0, 0x4024_0000, 0x4028_1000, 0x405f_ffff, 0x1_2345_6000, 0x0900_1000, 0x401f_ffff] {
            assert_eq!(walk(&tables, hole), None, "{hole:#x}");
        }
    }

    #[test]
    fn b3_addresses_of_48_bits_are_mapped_with_one_level_more() {
        let mut pool = vec![Table::EMPTY; 16];
        let mut tables = PageTables::<Plain>::new(&mut pool, true).unwrap();
        // Across two entries of the uppermost level, and up to the end.
        let high = (1 << 40) - (1 << 30)..(1 << 40) + (1 << 21) + PAGE;
        let last = (1 << 48) - PAGE..1 << 48;
        for range in [0x8000_0000..0xc000_0000, high.clone(), last.clone()] {
            tables.map(range.clone(), MemoryType::Data).unwrap();
            for address in [range.start, range.end - 1] {
                assert_eq!(walk(&tables, address), Some((address, MemoryType::Data as u64)), "{address:#x}");
            }
        }
        assert_eq!(walk(&tables, high.start - 1), None);
        assert_eq!(walk(&tables, high.end), None);
        assert_eq!(walk(&tables, 0x80_8000_0000), None, "what is below by 512 GiB is another");
        assert_eq!(tables.map(last.start..last.end + PAGE, MemoryType::Data), Err(MapError::Bounds));
        // All of an entry of the uppermost level: blocks of 1 GiB.
        tables.map(2 << 39..3 << 39, MemoryType::Data).unwrap_err();
        tables.map(3 << 39..4 << 39, MemoryType::Data).unwrap();
        assert_eq!(walk(&tables, (4 << 39) - 1), Some(((4 << 39) - 1, MemoryType::Data as u64)));
    }

    #[test]
    fn n10_large_ranges_take_large_pages() {
        let mut pool = vec![Table::EMPTY; 3];
        let mut tables = PageTables::<Plain>::new(&mut pool, false).unwrap();
        tables.map(0x8000_0000..0x1_8020_0000, MemoryType::Data).unwrap();
        assert_eq!(tables.used, 2);
    }

    #[test]
    fn n10_no_address_is_mapped_twice() {
        let mut pool = vec![Table::EMPTY; 4];
        let mut tables = PageTables::<Plain>::new(&mut pool, false).unwrap();
        tables.map(0x20_0000..0x40_0000, MemoryType::Data).unwrap();
        assert_eq!(tables.map(0x20_1000..0x20_2000, MemoryType::Code), Err(MapError::Twice));
        assert_eq!(tables.map(0..0x40_0000, MemoryType::Code), Err(MapError::Twice));
        assert_eq!(tables.map(1..0x1000, MemoryType::Code), Err(MapError::Bounds));
        assert_eq!(tables.map((1 << 39) - PAGE..(1 << 39) + PAGE, MemoryType::Code), Err(MapError::Bounds));
    }

    #[test]
    fn n10_too_few_tables_are_an_error() {
        let mut pool = vec![Table::EMPTY; 2];
        let mut tables = PageTables::<Plain>::new(&mut pool, false).unwrap();
        assert_eq!(tables.map(0x1000..0x2000, MemoryType::Data), Err(MapError::OutOfTables));
        assert!(PageTables::<Plain>::new(&mut [], false).is_err());
    }
}
