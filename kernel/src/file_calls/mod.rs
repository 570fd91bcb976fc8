//! Calls of a node to its I/O node, and the answers: what lies in the payloads of `Ship` and `Reply` packets of the tree network
//! (SPEC S-2, D-9). Little-endian; the I/O node reads it too.
//!
//! A call is [`CALL_BYTES`] of header, then its data:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | version | [`VERSION`] |
//! | 1 | verb | [`Verb`] |
//! | 2..4 | mode | of `Open`: [`OpenMode`] |
//! | 4..8 | descriptor | of `Close`, `Read`, `Write`, `Size`, `Sync` |
//! | 8..16 | offset | of `Read`, `Write`: bytes from the file's start |
//! | 16..20 | length | of `Read`, `List`: most bytes of the answer's data; of `Rename`: bytes of the first name |
//!
//! `Open`, `Stat`, `Unlink`, `Rename` and `List` have names for data, of [`MOST_NAME`] bytes at most: one; `Rename` two, one behind
//! the other; `List` that of a directory, a zero, and the last name that it had of it before, or nothing. `Write` has what
//! is to be written.
//!
//! An answer is [`ANSWER_BYTES`] of header, then its data:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | version | |
//! | 1 | kind | of `Stat`: [`Kind`] |
//! | 2..4 | errno | 0 if it went well, else what POSIX calls it |
//! | 4..12 | value | a descriptor, bytes written, or a size |
//!
//! `Read` has what was read, fewer bytes only at the file's end; `List` [entries](Entries): a byte with the [`Kind`], a byte with the
//! name's length, the name; none if there are no more.

pub use pami::files::{Errno, MOST_NAME, OpenMode};

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Of this layout.
pub const VERSION: u8 = 1;
/// Bytes of a call's header.
pub const CALL_BYTES: usize = size_of::<CallHeader>();
/// Bytes of an answer's header.
pub const ANSWER_BYTES: usize = size_of::<AnswerHeader>();
/// Files that a node may have open at a time.
pub const DESCRIPTORS: usize = 32;

/// What is called for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verb {
    /// Opens the file of a name.
    Open = 0,
    /// Gives a descriptor back.
    Close = 1,
    /// Reads at an offset.
    Read = 2,
    /// Writes at an offset; at the end if the file was opened to be appended to.
    Write = 3,
    /// The size of an open file.
    Size = 4,
    /// Kind and size of what has a name. Of a link those of what it leads to.
    Stat = 5,
    /// Removes a file's name.
    Unlink = 6,
    /// Gives a file another name, in the place of what had it.
    Rename = 7,
    /// Names in a directory.
    List = 8,
    /// Has what was written to an open file be where it outlives the machine.
    Sync = 9,
}

impl Verb {
    const ALL: [Self; 10] = [
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Size,
        Self::Stat,
        Self::Unlink,
        Self::Rename,
        Self::List,
        Self::Sync,
    ];

    /// As a person would say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Size => "size",
            Self::Stat => "stat",
            Self::Unlink => "unlink",
            Self::Rename => "rename",
            Self::List => "readdir",
            Self::Sync => "sync",
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A file.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A link, of which only [`Entries`] tell.
    Link = 2,
    /// None of these: it can be opened by nobody.
    Other = 3,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::File, Self::Directory, Self::Link, Self::Other].get(usize::from(byte)).copied()
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct CallHeader {
    version: u8,
    verb: u8,
    mode: U16,
    descriptor: U32,
    offset: U64,
    length: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct AnswerHeader {
    version: u8,
    kind: u8,
    errno: U16,
    value: U64,
}

/// A call without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// What for.
    pub verb: Verb,
    /// Of `Open`; bits that there are not are kept, for the I/O node to refuse.
    pub mode: OpenMode,
    /// Of an open file.
    pub descriptor: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Most bytes of the answer's data, or of the first name.
    pub length: u32,
}

impl Call {
    /// Everything but the verb 0.
    pub fn new(verb: Verb) -> Self {
        Self { verb, mode: OpenMode::empty(), descriptor: 0, offset: 0, length: 0 }
    }

    /// Writes the header into the front of `bytes`; returns the rest, which is for the call's data.
    pub fn write<'a>(&self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let header = CallHeader {
            version: VERSION,
            verb: self.verb as u8,
            mode: self.mode.bits().into(),
            descriptor: self.descriptor.into(),
            offset: self.offset.into(),
            length: self.length.into(),
        };
        let (front, rest) = bytes.split_at_mut(CALL_BYTES);
        front.copy_from_slice(header.as_bytes());
        rest
    }

    /// Takes a call apart, with its data. `None` if the bytes are no call; never panics.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, data) = CallHeader::read_from_prefix(bytes).ok()?;
        let verb = *Verb::ALL.get(usize::from(header.verb)).filter(|_| header.version == VERSION)?;
        let call = Self {
            verb,
            mode: OpenMode::from_bits_retain(header.mode.get()),
            descriptor: header.descriptor.get(),
            offset: header.offset.get(),
            length: header.length.get(),
        };
        Some((call, data))
    }
}

/// An answer without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How it went.
    pub result: Result<u64, Errno>,
    /// Of `Stat`.
    pub kind: Kind,
}

impl Answer {
    /// It went well, and told `value`.
    pub fn good(value: u64) -> Self {
        Self { result: Ok(value), kind: Kind::File }
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let header = AnswerHeader {
            version: VERSION,
            kind: self.kind as u8,
            errno: self.result.err().map_or(0, |errno| errno.0).into(),
            value: self.result.unwrap_or(0).into(),
        };
        zerocopy::transmute!(header)
    }

    /// Takes an answer apart, with its data. `None` if the bytes are none; never panics.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, data) = AnswerHeader::read_from_prefix(bytes).ok()?;
        let kind = Kind::from_byte(header.kind).filter(|_| header.version == VERSION)?;
        let result = match header.errno.get() {
            0 => Ok(header.value.get()),
            errno => Err(Errno(errno)),
        };
        Some((Self { result, kind }, data))
    }
}

/// The entries in the data of an answer to `List`, to the first that is none.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(pub &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (Kind, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[kind, len], rest) = self.0.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(len.into())?;
        let kind = Kind::from_byte(kind).filter(|_| !name.is_empty())?;
        self.0 = rest;
        Some((kind, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn d9_any_bytes_are_a_call_and_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Call::read(&bytes);
            let _ = Answer::read(&bytes);
            prop_assert!(Entries(&bytes).map(|(_, name)| name.len() + 2).sum::<usize>() <= bytes.len());
        }

        #[test]
        fn s2_a_call_reads_back_what_was_written(
            verb in 0..Verb::ALL.len(), mode: u16, descriptor: u32, offset: u64, length: u32, data in any::<[u8; 5]>()
        ) {
            let mode = OpenMode::from_bits_retain(mode);
            let call = Call { verb: Verb::ALL[verb], mode, descriptor, offset, length };
            let mut bytes = Vec::from([0; CALL_BYTES + 5]);
            call.write(&mut bytes).copy_from_slice(&data);
            prop_assert_eq!(Call::read(&bytes), Some((call, &data[..])));
            prop_assert_eq!(Call::read(&bytes[..CALL_BYTES - 1]), None);
        }

        #[test]
        fn s2_an_answer_reads_back_what_was_written(
            value: u64, errno in 1u16.., good: bool, kind in 0u8..4
        ) {
            let result = if good { Ok(value) } else { Err(Errno(errno)) };
            let answer = Answer { result, kind: Kind::from_byte(kind).unwrap() };
            let bytes = answer.to_bytes();
            prop_assert_eq!(Answer::read(&bytes), Some((answer, &[][..])));
        }
    }

    #[test]
    fn s2_verbs_are_numbered_as_they_are_listed_and_a_mode_says_what_it_wants() {
        assert!(Verb::ALL.iter().enumerate().all(|(number, &verb)| verb as usize == number));
        assert!([OpenMode::READ_ONLY, OpenMode::NEW, OpenMode::UPDATE].iter().all(|mode| mode.is_sound()));
        for mode in [
            OpenMode::empty(),
            OpenMode::READ | OpenMode::TRUNCATE,
            OpenMode::WRITE | OpenMode::EXCLUSIVE,
            OpenMode::APPEND,
        ] {
            assert!(!mode.is_sound(), "{mode:?}");
        }
    }
}
