//! What nodes say of themselves as they come together on a plain Ethernet, and what keeps them from it (SPEC R-7).

use core::fmt::{self, Write};

/// Most bytes of a node's words; what is beyond is left out.
pub const WORDS: usize = 64;
/// Ranges of nodes that are named at once.
const RANGES: usize = 8;

/// What must be alike at all nodes of a job, as a personality has it: at most [`WORDS`] bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobWords {
    len: usize,
    bytes: [u8; WORDS],
}

impl JobWords {
    /// As many of these as there is room for.
    pub fn new(words: fmt::Arguments<'_>) -> Self {
        let mut all = Self { len: 0, bytes: [0; WORDS] };
        // What is beyond is left out.
        let _ = all.write_fmt(words);
        all
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut all = Self { len: 0, bytes: [0; WORDS] };
        all.add(bytes);
        all
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[self.len..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.len += len;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for JobWords {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

impl fmt::Display for JobWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for JobWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a node says of itself where nodes gather themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Another number each time that the node starts, as far as it can tell; not 0.
    pub incarnation: u32,
    /// What must be alike at all nodes.
    pub words: JobWords,
}

/// Nodes that node 0 has not heard of: how many, and the first ranges of their ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    nodes: u32,
    ranges: heapless::Vec<(u32, u32), RANGES>,
}

impl Missing {
    /// So many, none of which is named.
    pub(crate) fn new(nodes: u32) -> Self {
        Self { nodes, ranges: heapless::Vec::new() }
    }

    /// Names one of them, of higher rank than those before. False without room.
    pub(crate) fn name(&mut self, rank: u32) -> bool {
        if let Some((_, last)) = self.ranges.last_mut().filter(|(_, last)| *last + 1 == rank) {
            *last = rank;
            return true;
        }
        self.ranges.push((rank, rank)).is_ok()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = 0;
        for (at, &(first, last)) in self.ranges.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}..{last}")?,
            }
            named += last - first + 1;
        }
        if named < self.nodes { write!(f, " and {} more", self.nodes - named) } else { Ok(()) }
    }
}

/// What keeps nodes from coming together on a plain Ethernet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gathering {
    /// At node 0: so many others are not there yet.
    Waits(Missing),
    /// At node 0: a node is told other things of the job, and is not taken.
    Differs {
        /// Its rank, as it is told.
        node: u32,
        /// What it is told.
        told: JobWords,
        /// What node 0 is told.
        own: JobWords,
    },
    /// At node 0: a node has started anew, or there are two of its rank.
    Anew(u32),
    /// At another: node 0 does not take it.
    Refused {
        /// What node 0 is told.
        told: JobWords,
        /// What this one is told.
        own: JobWords,
    },
    /// At another: node 0 has not told it to go yet.
    NoWord,
    /// At another: it was reset when the job had started, which goes on without it; or another one is told to be this node.
    Late,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn r7_words_are_what_there_is_room_for_and_are_shown_as_they_are() {
        let long = "x".repeat(WORDS + 5);
        assert_eq!(JobWords::new(format_args!("{long}")).as_bytes().len(), WORDS);
        assert_eq!(JobWords::new(format_args!("{long}")), JobWords::of(&long.as_bytes()[..WORDS]));
        assert_eq!(JobWords::of(&[b'a', 7, 0xff]).to_string(), "`a\\x07\\xff`");
    }
}
