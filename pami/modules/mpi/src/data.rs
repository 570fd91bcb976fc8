//! What a call sends, receives or works on: elements of a datatype in shared memory.

use crate::datatype::{Datatype, Native};
use core::fmt;
use core::sync::atomic::Ordering;
use pami::layout::Cursor;
use pami::{Layout, Shared};
use rings::shared::Spot;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes that are copied at a time between two memories.
const PIECE: usize = 512;
/// Bytes of what is read and written at once.
pub(crate) const WORD: usize = size_of::<u64>();

/// `count` elements of a datatype, the first with its origin at byte `offset` of some memory: the standard's triple of
/// buffer, count and datatype. All its bytes lie in the memory; [`Data::new`] sees to it.
#[derive(Clone)]
pub struct Data {
    span: Span,
    offset: usize,
    count: usize,
    datatype: Datatype,
}

/// Where the bytes of some data lie, whatever they mean: what a message asks, and a request keeps.
#[derive(Clone)]
pub(crate) struct Span {
    /// How they lie from the lowest if not in one piece, and the type whose table says so. In front, as what is known to be in one
    /// piece is dropped without a call then.
    apart: Option<(Layout, Datatype)>,
    /// The memory, and its first word if that is one of the memory's, and all lie in one piece.
    spot: Spot,
    /// The lowest byte.
    start: usize,
    /// Bytes without gaps.
    bytes: usize,
}

/// Why data is refused. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataError {
    /// The elements reach outside their memory, or have more data than can be sent.
    Range {
        /// The origin of the first.
        offset: usize,
        /// How many there are.
        count: usize,
        /// Bytes of the memory.
        memory: usize,
    },
    /// There are fewer values or bytes than this.
    Short {
        /// What was asked for, in bytes.
        asked: usize,
        /// What there is.
        bytes: usize,
    },
    /// The values are of another type than the data.
    Type,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { offset, count, memory } => {
                write!(
                    f,
                    "{count} elements from byte {offset} on reach outside the memory's {memory} bytes, or are over 4 GiB"
                )
            }
            Self::Short { asked, bytes } => write!(f, "{asked} bytes do not fit: there are {bytes}"),
            Self::Type => f.write_str("the values are of another type than the data's elements"),
        }
    }
}

impl core::error::Error for DataError {}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {:?} at {}", self.count, self.datatype, self.offset)
    }
}

impl Data {
    /// `count` elements, the first with its origin at byte `offset`.
    ///
    /// # Errors
    /// [`DataError::Range`].
    pub fn new(
        memory: Shared,
        offset: usize,
        count: usize,
        datatype: impl Into<Datatype>,
    ) -> Result<Self, DataError> {
        let datatype = datatype.into();
        let range = DataError::Range { offset, count, memory: memory.len() };
        let (first, end) = datatype.reach(count).ok_or(range)?;
        let inside = offset.checked_add_signed(first).is_some()
            && offset.checked_add_signed(end).is_some_and(|end| end <= memory.len());
        // Without data it does not matter where; but the offset has to be one of the memory's.
        let inside = inside && offset <= memory.len();
        // Layouts name places in 32 bits.
        let small = |number: Option<usize>| number.is_some_and(|number| u32::try_from(number).is_ok());
        let small =
            small(end.checked_sub(first).map(|reach| reach as usize)) && small(datatype.pack_size(count));
        if !inside || !small {
            return Err(range);
        }
        let bytes = datatype.pack_size(count).ok_or(range)?;
        let (low, layout) = datatype.layout(count).ok_or(range)?;
        let start = offset.checked_add_signed(low).ok_or(range)?;
        let apart = (layout != Layout::Contiguous).then(|| (layout, datatype.clone()));
        Ok(Self { span: Span::new(memory, start, bytes, apart), offset, count, datatype })
    }

    /// `count` numbers from byte `offset` on.
    ///
    /// # Errors
    /// [`DataError::Range`].
    pub fn of<T: Native>(memory: &Shared, offset: usize, count: usize) -> Result<Self, DataError> {
        Self::new(memory.clone(), offset, count, Datatype::of::<T>())
    }

    /// As many numbers as the memory has room for.
    pub fn all<T: Native>(memory: &Shared) -> Self {
        let count = memory.len() / size_of::<T>().max(1);
        let bytes = count * size_of::<T>();
        let span = Span::new(memory.clone(), 0, bytes, None);
        Self { span, offset: 0, count, datatype: Datatype::of::<T>() }
    }

    /// `count` of its elements, from the one with this number on.
    ///
    /// # Errors
    /// [`DataError::Range`].
    pub fn part(&self, first: usize, count: usize) -> Result<Self, DataError> {
        let range = DataError::Range { offset: self.offset, count, memory: self.span.memory().len() };
        if first.checked_add(count).is_none_or(|end| end > self.count) {
            return Err(range);
        }
        let at = isize::try_from(first).ok().and_then(|first| first.checked_mul(self.datatype.extent()));
        let offset = at.and_then(|at| self.offset.checked_add_signed(at)).ok_or(range)?;
        Self::new(self.span.memory().clone(), offset, count, self.datatype.clone())
    }

    /// Another number of elements, the first with its origin `displacement` extents on from this one's: as the v forms
    /// of collectives name blocks.
    ///
    /// # Errors
    /// [`DataError::Range`].
    pub fn displaced(&self, displacement: isize, count: usize) -> Result<Self, DataError> {
        let range = DataError::Range { offset: self.offset, count, memory: self.span.memory().len() };
        let at = displacement.checked_mul(self.datatype.extent());
        let offset = at.and_then(|at| self.offset.checked_add_signed(at)).ok_or(range)?;
        Self::new(self.span.memory().clone(), offset, count, self.datatype.clone())
    }

    /// The memory.
    pub fn memory(&self) -> &Shared {
        self.span.memory()
    }

    /// Where the first element has its origin, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What they are.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Where its bytes lie.
    #[inline]
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Bytes of data, without gaps.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.span.bytes
    }

    /// Where its lowest byte is and how all lie from there, for PAMI to take it as it is.
    #[inline]
    pub fn layout(&self) -> (usize, Layout) {
        self.span.layout()
    }

    /// The same, if all lie in one piece: a copy of it is short.
    #[inline(always)]
    pub(crate) fn piece(&self) -> Option<Piece<'_>> {
        self.span.apart.is_none().then_some(Piece(&self.span))
    }

    /// Where its first byte is, if all lie in one piece.
    #[inline]
    pub fn contiguous(&self) -> Option<usize> {
        self.span.contiguous()
    }

    /// Copies its bytes without gaps, from the packed byte `skip` on, as many as `into` has room for.
    ///
    /// # Errors
    /// [`DataError::Short`].
    #[inline]
    pub fn pack_bytes(&self, skip: usize, into: &mut [u8]) -> Result<(), DataError> {
        self.span.pack_bytes(skip, into)
    }

    /// Puts bytes without gaps in their places, from the packed byte `skip` on.
    ///
    /// # Errors
    /// [`DataError::Short`] if the data has fewer bytes; none was put.
    #[inline]
    pub fn unpack_bytes(&self, skip: usize, from: &[u8]) -> Result<(), DataError> {
        self.span.unpack_bytes(skip, from)
    }

    /// Copies all its bytes without gaps to byte `at` of other memory; returns how many these are (`MPI_Pack`).
    ///
    /// # Errors
    /// [`DataError::Short`] if that memory is too short.
    pub fn pack(&self, into: &Shared, at: usize) -> Result<usize, DataError> {
        let bytes = self.bytes();
        let room = into.len().saturating_sub(at);
        if bytes > room {
            return Err(DataError::Short { asked: bytes, bytes: room });
        }
        let (mut walk, mut piece, mut done) = (self.span.walk(0)?, [0; PIECE], 0);
        while done < bytes {
            let now = &mut piece[..PIECE.min(bytes - done)];
            walk.gather(now)?;
            into.write(at + done, now).map_err(|_| self.span.range())?;
            done += now.len();
        }
        Ok(bytes)
    }

    /// Puts `bytes` bytes without gaps from byte `at` of other memory on in their places (`MPI_Unpack`).
    ///
    /// # Errors
    /// [`DataError::Short`] if there are fewer, here or there; none was put.
    pub fn unpack(&self, from: &Shared, at: usize, bytes: usize) -> Result<(), DataError> {
        self.span.has(0, bytes)?;
        let there = from.len().saturating_sub(at);
        if bytes > there {
            return Err(DataError::Short { asked: bytes, bytes: there });
        }
        let (mut walk, mut piece, mut done) = (self.span.walk(0)?, [0; PIECE], 0);
        while done < bytes {
            let now = &mut piece[..PIECE.min(bytes - done)];
            from.read(at + done, now).map_err(|_| self.span.range())?;
            walk.spread(now)?;
            done += now.len();
        }
        Ok(())
    }

    /// Copies its data into `to`'s places, whatever the types: as a message to itself would.
    ///
    /// # Errors
    /// [`DataError::Short`] if `to` has fewer bytes; nothing was copied.
    pub fn copy(&self, to: &Self) -> Result<(), DataError> {
        let bytes = self.bytes();
        to.span.has(0, bytes)?;
        let (mut here, mut there) = (self.span.walk(0)?, to.span.walk(0)?);
        let (mut piece, mut done) = ([0; PIECE], 0);
        while done < bytes {
            let now = &mut piece[..PIECE.min(bytes - done)];
            here.gather(now)?;
            there.spread(now)?;
            done += now.len();
        }
        Ok(())
    }

    fn check_type<T: Native>(&self) -> Result<(), DataError> {
        let fits = self.datatype.uniform().is_none_or(|basic| basic == T::BASIC);
        if fits { Ok(()) } else { Err(DataError::Type) }
    }

    /// Writes numbers into its first elements, in the order of the type.
    ///
    /// # Errors
    /// [`DataError::Short`], [`DataError::Type`]; nothing was written.
    pub fn write<T: Native>(&self, values: &[T]) -> Result<(), DataError> {
        self.check_type::<T>()?;
        self.unpack_bytes(0, values.as_bytes())
    }

    /// Reads the numbers of its first elements, in the order of the type.
    ///
    /// # Errors
    /// [`DataError::Short`], [`DataError::Type`]; nothing was read.
    pub fn read<T: Native>(&self, values: &mut [T]) -> Result<(), DataError> {
        self.check_type::<T>()?;
        self.pack_bytes(0, values.as_mut_bytes())
    }
}

/// A [`Span`] of bytes that lie in one piece.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a>(&'a Span);

impl Piece<'_> {
    #[inline(always)]
    pub(crate) fn span(self) -> Span {
        let spot = self.0.spot.clone();
        Span { apart: None, spot, start: self.0.start, bytes: self.0.bytes }
    }
}

impl Span {
    fn new(memory: Shared, start: usize, bytes: usize, apart: Option<(Layout, Datatype)>) -> Self {
        let has_word = apart.is_none() && bytes >= WORD;
        let spot = if has_word { Spot::at(memory, start) } else { Spot::of(memory) };
        Self { apart, spot, start, bytes }
    }

    /// The memory.
    #[inline]
    pub(crate) fn memory(&self) -> &Shared {
        self.spot.memory()
    }

    /// As [`Data::bytes`].
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// As [`Data::layout`].
    #[inline]
    pub(crate) fn layout(&self) -> (usize, Layout) {
        (self.start, self.apart.as_ref().map_or(Layout::Contiguous, |(layout, _)| *layout))
    }

    /// As [`Data::contiguous`].
    #[inline]
    pub(crate) fn contiguous(&self) -> Option<usize> {
        self.apart.is_none().then_some(self.start)
    }

    /// Its bytes, if they are one whole word of the memory.
    #[inline]
    pub(crate) fn word(&self) -> Option<[u8; WORD]> {
        let word = self.spot.word().filter(|_| self.bytes == WORD)?;
        Some(word.load(Ordering::Relaxed).to_ne_bytes())
    }

    /// Puts a word where its first bytes lie, if these are one whole word of the memory and `bytes` is a word as well. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn put_word(&self, bytes: &[u8]) -> bool {
        // Byte by byte it would take as long as all the rest.
        let Ok(&bytes) = u64::ref_from_bytes(bytes) else { return false };
        let word = self.spot.word().filter(|_| self.apart.is_none());
        word.map(|word| word.store(bytes, Ordering::Relaxed)).is_some()
    }

    #[inline]
    fn has(&self, skip: usize, len: usize) -> Result<(), DataError> {
        let asked = skip.saturating_add(len);
        let bytes = self.bytes();
        if asked > bytes { Err(DataError::Short { asked, bytes }) } else { Ok(()) }
    }

    #[cold]
    fn range(&self) -> DataError {
        DataError::Range { offset: self.start, count: self.bytes, memory: self.memory().len() }
    }

    /// A walk along its bytes, from the packed byte `skip` on.
    fn walk(&self, skip: usize) -> Result<Walk<'_>, DataError> {
        let layout = self.layout().1;
        let cursor = u32::try_from(skip).ok().and_then(|skip| layout.seek(skip)).ok_or(self.range())?;
        Ok(Walk { span: self, layout, cursor })
    }

    /// Copies its bytes without gaps, from the packed byte `skip` on, as many as `into` has room for.
    ///
    /// # Errors
    /// [`DataError::Short`].
    #[inline]
    pub(crate) fn pack_bytes(&self, skip: usize, into: &mut [u8]) -> Result<(), DataError> {
        self.has(skip, into.len())?;
        match self.contiguous() {
            Some(start) => self.memory().read(start + skip, into).map_err(|_| self.range()),
            None => self.walk(skip)?.gather(into),
        }
    }

    /// Puts bytes without gaps in their places, from the packed byte `skip` on.
    ///
    /// # Errors
    /// [`DataError::Short`] if the data has fewer bytes; none was put.
    #[inline]
    pub(crate) fn unpack_bytes(&self, skip: usize, from: &[u8]) -> Result<(), DataError> {
        self.has(skip, from.len())?;
        match self.contiguous() {
            Some(start) => self.memory().write(start + skip, from).map_err(|_| self.range()),
            None => self.walk(skip)?.spread(from),
        }
    }
}

/// How far data has been packed or unpacked.
struct Walk<'a> {
    span: &'a Span,
    layout: Layout,
    cursor: Cursor,
}

impl Walk<'_> {
    /// Calls `each` for the pieces of the next `len` bytes: their places in memory.
    fn along(
        &mut self,
        len: usize,
        mut each: impl FnMut(usize, usize) -> Result<(), rings::shared::Misplaced>,
    ) -> Result<(), DataError> {
        let mut left = len;
        while left > 0 {
            // As many as the data was seen to have.
            let most = u32::try_from(left).unwrap_or(u32::MAX);
            let Some((offset, now)) = self.layout.next_run(&mut self.cursor, most) else { break };
            each(self.span.start + offset as usize, now as usize).map_err(|_| self.span.range())?;
            left -= now as usize;
        }
        Ok(())
    }

    fn gather(&mut self, into: &mut [u8]) -> Result<(), DataError> {
        let (memory, len) = (self.span.memory(), into.len());
        let mut rest = into;
        self.along(len, |at, now| {
            let (piece, later) = core::mem::take(&mut rest).split_at_mut(now);
            rest = later;
            memory.read(at, piece)
        })
    }

    fn spread(&mut self, from: &[u8]) -> Result<(), DataError> {
        let (memory, mut rest) = (self.span.memory(), from);
        self.along(from.len(), |at, now| {
            let (piece, later) = rest.split_at(now);
            rest = later;
            memory.write(at, piece)
        })
    }
}
