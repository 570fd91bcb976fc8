//! What travels in front of messages.

use pami::{Layout, RegionHandle};
use zerocopy::byteorder::little_endian;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `word! { U32: u32 }`: a little-endian number at a multiple of its size. Zerocopy's lie anywhere, and a processor that
/// loads from multiples only takes those byte by byte.
macro_rules! word {
    ($($name:ident: $number:ty),*) => {$(
        #[doc = concat!("A little-endian `", stringify!($number), "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub(crate) struct $name($number);

        impl $name {
            #[inline]
            pub(crate) fn get(self) -> $number {
                <$number>::from_le(self.0)
            }
        }

        impl From<$number> for $name {
            #[inline]
            fn from(number: $number) -> Self {
                Self(number.to_le())
            }
        }
    )*};
}

word! { U16: u16, U32: u32, I32: i32 }

/// A receive from anybody.
pub const ANY_SOURCE: i32 = -1;
/// A receive of any tag.
pub const ANY_TAG: i32 = -1;
/// Nobody: what is sent there is done at once, and nothing comes from there.
pub const PROC_NULL: i32 = -2;
/// The highest tag (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// Set in [`Envelope::communicator`] for messages of the library's own, which no receive of the application matches.
pub(crate) const INTERNAL: u32 = 1 << 31;

/// The data stays with the sender until it is pulled or asked for.
pub(crate) const RTS: u8 = 1;
/// The sender wants to know that a receive has matched.
pub(crate) const SYNCHRONOUS: u8 = 2;
/// It is an RTS because the sender's credit was short.
pub(crate) const SHORT_OF_CREDIT: u8 = 4;

/// In front of a message, with its data or without. It is copied by words.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub(crate) struct Envelope {
    /// The communicator's number.
    pub(crate) communicator: U32,
    /// The sender's rank in it.
    pub(crate) source: U32,
    pub(crate) tag: I32,
    /// Bytes of data.
    pub(crate) len: U32,
    /// The sender's request, for its answer.
    pub(crate) sender: U16,
    /// Units for unexpected messages that the receiver may use again at the sender.
    pub(crate) credit: U16,
    pub(crate) flags: u8,
    pub(crate) unused: [u8; 3],
}

impl Envelope {
    /// Its bytes as words, put together where they are: they are moved whole.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; 3] {
        let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le();
        let [a, b, c] = self.unused;
        let last = u32::from_le_bytes([self.flags, a, b, c]);
        let answer = u32::from(self.sender.get()) | u32::from(self.credit.get()) << 16;
        [
            pair(self.communicator.get(), self.source.get()),
            pair(self.tag.get() as u32, self.len.get()),
            pair(answer, last),
        ]
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Behind the envelope of an RTS whose data its receiver can pull: where it lies.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Source {
    pub(crate) region: RegionHandle,
    /// First byte in the region.
    pub(crate) offset: little_endian::U32,
    /// Bytes of a block, and from the start of one to that of the next; both 0 if all lie in one piece.
    block: little_endian::U32,
    stride: little_endian::U32,
}

impl Source {
    /// `None` if the layout has no room here.
    pub(crate) fn new(region: RegionHandle, offset: usize, layout: &Layout) -> Option<Self> {
        let (block, stride) = match *layout {
            Layout::Contiguous => (0, 0),
            Layout::Strided { block, stride } => (block, stride),
            _ => return None,
        };
        let offset = u32::try_from(offset).ok()?.into();
        Some(Self { region, offset, block: block.into(), stride: stride.into() })
    }

    pub(crate) fn layout(&self) -> Layout {
        match (self.block.get(), self.stride.get()) {
            (0, _) => Layout::Contiguous,
            (block, stride) => Layout::Strided { block, stride },
        }
    }
}

/// A receive has matched a synchronous message.
pub(crate) const MATCHED: u8 = 0;
/// A receive has matched an RTS: the data may come, or need not.
pub(crate) const CTS: u8 = 1;
/// RTS have no place: the length is the number of the first, the sender's request how many they are.
pub(crate) const REFUSED: u8 = 3;
/// Only credit.
pub(crate) const CREDIT: u8 = 2;
/// What credit there is: the answer to [`ASK`], or more of it.
pub(crate) const ANSWER: u8 = 4;
/// The first message waits for credit.
pub(crate) const ASK: u8 = 5;
/// Others are short of credit: what is not used is to come back.
pub(crate) const RECALL: u8 = 6;
/// It comes back: the length is how many units.
pub(crate) const RETURN: u8 = 7;

/// What the receiver tells the sender.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Control {
    /// Bytes that are to be sent: all, or none if they were pulled or there is no room for them.
    pub(crate) len: U32,
    pub(crate) sender: U16,
    /// The receiver's request.
    pub(crate) receiver: U16,
    /// Units for unexpected messages that may be used again.
    pub(crate) credit: U16,
    pub(crate) kind: u8,
    pub(crate) unused: u8,
}

/// In front of data whose CTS came.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DataHeader {
    /// The receiver's request.
    pub(crate) receiver: U16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m4_the_words_of_an_envelope_are_its_bytes() {
        let envelope = Envelope {
            communicator: 0x0302_0100.into(),
            source: 0x0706_0504.into(),
            tag: 0x0b0a_0908.into(),
            len: 0x0f0e_0d0c.into(),
            sender: 0x1110.into(),
            credit: 0x1312.into(),
            flags: 0x14,
            unused: [0x15, 0x16, 0x17],
        };
        assert_eq!(envelope.words().as_bytes(), envelope.as_bytes());
        assert!(envelope.as_bytes().iter().copied().eq(0..24));
    }
}
