//! Data on its way out: where it lies, in what layout, and how much of it has been queued.

use crate::device::{Full, Path, Port};
use crate::error::SendError;
use crate::layout::{Cursor, Layout};
use crate::packet::Envelope;
use crate::region::Memory;
use core::ops::Range;
use rings::buffer::{Buffer, Lease, Source};
use rings::shared::Shared;

/// Data of at most this many bytes is copied when it is queued, which is cheaper than to lend it and makes its local
/// completion immediate.
pub const COPY_LIMIT: usize = 256;
/// Bytes of memory in shared use that are copied at a time when they go to another region.
const STACK_COPY: usize = 256;

/// The data of a send or put. It must live as long as the message unit may read it, which the types see to.
pub enum Payload {
    /// Bytes that never change.
    Static(&'static [u8]),
    /// These bytes of a buffer, which is handed over until the local completion gives it back.
    Buffer(Buffer, Range<usize>),
    /// A view of a buffer that the sender has lent itself, to send parts of it to several targets at once. The
    /// local completion says that every packet is queued; the lease says when nobody reads any more.
    Source(Source),
    /// These bytes of memory in shared use, as they are when they are read: when they are queued, or by a rendezvous's target.
    /// The local completion says that all were.
    Shared(Shared, Range<usize>),
}

impl Payload {
    /// The data, if it is in one piece that a packet can take at once, with nobody to hold it for the packet's time.
    #[inline(always)]
    pub(crate) fn at_hand(&self, layout: &Layout) -> Option<&[u8]> {
        let short = |bytes: &&[u8]| bytes.len() <= COPY_LIMIT;
        match self {
            _ if !matches!(layout, Layout::Contiguous) => None,
            Self::Static(bytes) => Some(bytes),
            Self::Buffer(buffer, range) => buffer.as_slice().get(range.clone()).filter(short),
            Self::Source(source) => Some(source.as_slice()).filter(short),
            Self::Shared(..) => None,
        }
    }

    /// Queues a packet of all that is [`at_hand`](Self::at_hand).
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    #[inline(always)]
    pub(crate) fn push<P: Port>(
        port: &mut P,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        (payload, data): (&Self, &[u8]),
    ) -> Result<(), Full> {
        match payload {
            Self::Static(bytes) if bytes.len() > COPY_LIMIT => {
                port.push_zcopy(path, envelope, header, &Source::from(*bytes))
            }
            _ => port.push_bcopy(path, envelope, header, data),
        }
    }

    /// What the local completion gives back, of data that nobody reads any more.
    #[inline(always)]
    pub(crate) fn into_lease(self) -> Option<Lease> {
        match self {
            Self::Buffer(buffer, _) => Some(buffer.lend()),
            _ => None,
        }
    }
}

/// Memory that data comes from.
enum Bytes {
    /// Nobody writes it meanwhile, so devices may read it where it is.
    Lent(Source),
    /// In shared use: read when it is queued. The number is the data's first byte.
    Shared(Shared, usize),
}

/// What is left to be queued of an operation's data.
pub(crate) struct PayloadIter {
    bytes: Bytes,
    layout: Layout,
    cursor: Cursor,
    taken: u32,
    total: u32,
}

fn contains(range: &Range<usize>, len: usize) -> Option<usize> {
    (range.start <= range.end && range.end <= len).then(|| range.end - range.start)
}

/// Bytes of data that `layout` names in the memory of `payload`.
pub(crate) fn measure(payload: &Payload, layout: &Layout) -> Result<u32, SendError> {
    let extent = match payload {
        Payload::Static(bytes) => Some(bytes.len()),
        Payload::Buffer(buffer, range) => contains(range, buffer.len()),
        Payload::Source(source) => Some(source.len()),
        Payload::Shared(memory, range) => contains(range, memory.len()),
    };
    let extent = u32::try_from(extent.ok_or(SendError::Range)?).map_err(|_| SendError::TooLong)?;
    layout.bytes_within(extent).ok_or(SendError::Layout)
}

impl PayloadIter {
    /// Takes a payload whose data [`measure`]s `total` bytes, and lends its buffer if it is one.
    pub(crate) fn new(payload: Payload, layout: Layout, total: u32) -> (Self, Option<Lease>) {
        let (bytes, lease) = match payload {
            Payload::Static(bytes) => (Bytes::Lent(Source::from(bytes)), None),
            Payload::Source(source) => (Bytes::Lent(source), None),
            Payload::Buffer(buffer, range) => {
                let lease = buffer.lend();
                // The range was seen to lie inside.
                (Bytes::Lent(lease.source().slice(range).unwrap_or_else(|| lease.source())), Some(lease))
            }
            Payload::Shared(memory, range) => (Bytes::Shared(memory, range.start), None),
        };
        (Self { bytes, layout, cursor: Cursor::default(), taken: 0, total }, lease)
    }

    /// Begins anew: all of it is to be queued again.
    pub(crate) fn rewind(&mut self) {
        (self.cursor, self.taken) = (Cursor::default(), 0);
    }

    /// Bytes that have been queued.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Bytes of data in all.
    #[inline]
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Bytes that are left.
    #[inline]
    pub(crate) fn left(&self) -> u32 {
        self.total - self.taken
    }

    /// The data as one view, if it is one.
    pub(crate) fn whole(&self) -> Option<&Source> {
        match &self.bytes {
            Bytes::Lent(source) if self.layout == Layout::Contiguous => Some(source),
            _ => None,
        }
    }

    /// The memory that all of the data lies in, in one piece and from [`start`](Self::start) on, if it does.
    pub(crate) fn memory(&self) -> Option<Memory> {
        match &self.bytes {
            _ if self.layout != Layout::Contiguous => None,
            Bytes::Lent(source) => Some(Memory::Lent(source.clone())),
            // A target counts in 32 bits up to its end.
            Bytes::Shared(_, start) if u32::try_from(start + self.total as usize).is_err() => None,
            Bytes::Shared(memory, _) => Some(Memory::Shared(memory.clone())),
        }
    }

    /// The data's first byte in its memory.
    pub(crate) fn start(&self) -> u32 {
        match &self.bytes {
            Bytes::Lent(_) => 0,
            Bytes::Shared(_, start) => *start as u32,
        }
    }

    /// Queues a packet with the next `len` bytes; at most what is [`left`](Self::left).
    ///
    /// # Errors
    /// [`Full`]; nothing was queued.
    pub(crate) fn push<P: Port>(
        &mut self,
        port: &mut P,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
    ) -> Result<(), Full> {
        let at = self.taken as usize;
        match self.whole() {
            Some(source) if len <= COPY_LIMIT && header.len() + len <= port.mtu() => {
                let data = source.as_slice().get(at..at + len).unwrap_or_default();
                port.push_bcopy(path, envelope, header, data)?;
            }
            Some(source) => {
                // The range ends inside the data.
                if let Some(piece) = source.slice(at..at + len) {
                    port.push_zcopy(path, envelope, header, &piece)?;
                }
            }
            None => {
                let mut cursor = self.cursor;
                port.push_packed(path, envelope, header, len, |into| self.fill(&mut cursor, into))?;
                self.cursor = cursor;
            }
        }
        self.taken += len as u32;
        Ok(())
    }

    /// Hands the next run of at most `most` bytes over: by where the data has them, or copied through the stack. Returns
    /// how many they were; none once the layout ends.
    pub(crate) fn next_run(&mut self, most: u32, use_run: impl FnOnce(&[u8])) -> u32 {
        let shared = matches!(self.bytes, Bytes::Shared(..));
        let most = if shared { most.min(STACK_COPY as u32) } else { most };
        let Some((offset, len)) = self.layout.next_run(&mut self.cursor, most) else { return 0 };
        let (offset, bytes) = (offset as usize, len as usize);
        match &self.bytes {
            Bytes::Lent(source) => {
                use_run(source.as_slice().get(offset..offset + bytes).unwrap_or_default());
            }
            Bytes::Shared(memory, start) => {
                let mut copy = [0; STACK_COPY];
                let Some(copy) = copy.get_mut(..bytes) else { return 0 };
                // It was seen to lie inside.
                let _ = memory.read(start + offset, copy);
                use_run(copy);
            }
        }
        self.taken += len;
        len
    }

    fn fill(&self, cursor: &mut Cursor, into: &mut [u8]) {
        let mut rest = into;
        while !rest.is_empty() {
            let Some((offset, len)) = self.layout.next_run(cursor, rest.len() as u32) else { return };
            let (now, later) = core::mem::take(&mut rest).split_at_mut(len as usize);
            let (offset, len) = (offset as usize, now.len());
            match &self.bytes {
                Bytes::Lent(source) => {
                    if let Some(run) = source.as_slice().get(offset..offset + len) {
                        now.copy_from_slice(run);
                    }
                }
                // It was seen to lie inside.
                Bytes::Shared(memory, start) => _ = memory.read(start + offset, now),
            }
            rest = later;
        }
    }
}
