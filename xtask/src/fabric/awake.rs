//! Rounds over the nodes for which something has changed: what the switches of the torus and of the tree share.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write};

use super::stream::FrameStream;

/// Which nodes are to be looked at.
#[derive(Default)]
pub struct Awake {
    /// Something has changed for them. Nothing new comes of the others.
    awake: BTreeSet<u32>,
    /// Of these, those for which something changed in this round.
    changed: BTreeSet<u32>,
    /// Nodes before which packets are held back.
    holding: BTreeSet<u32>,
    /// Looks at a node so far.
    looks: u64,
}

impl Awake {
    /// These are to be looked at.
    pub fn wake(&mut self, ranks: impl IntoIterator<Item = u32>) {
        self.awake.extend(ranks);
    }

    /// This one is to be looked at in the next round.
    pub fn changed_also(&mut self, rank: u32) {
        self.changed.insert(rank);
    }

    /// Whether packets are held back before a node, which is then looked at in each round.
    pub fn hold(&mut self, rank: u32, holds: bool) {
        if holds {
            self.holding.insert(rank);
        } else {
            self.holding.remove(&rank);
        }
    }

    /// Nodes before which packets are held back.
    pub fn holding(&self) -> impl Iterator<Item = u32> {
        self.holding.iter().copied()
    }

    /// Looks at a node so far.
    pub fn looks(&self) -> u64 {
        self.looks
    }
}

/// A node's place at a switch.
pub struct Plug<'a, S> {
    /// Its stream, while it lives.
    pub stream: &'a mut Option<FrameStream<S>>,
    /// Why the stream has ended.
    pub left: &'a mut Option<String>,
}

/// What a node's place holds, for people, behind what was said of its router.
pub fn describe<S: Read + Write>(
    stream: &Option<FrameStream<S>>,
    left: &Option<String>,
    text: &mut impl fmt::Write,
) -> fmt::Result {
    match (stream, left) {
        (Some(stream), _) => {
            let (unread, unwritten) = stream.backlog();
            let stalled = if stream.is_stalled() { ", the node does not read" } else { "" };
            writeln!(text, "; stream {unread} bytes in, {unwritten} bytes out{stalled}")
        }
        (None, Some(why)) => writeln!(text, "; left: {why}"),
        (None, None) => writeln!(text, "; never connected"),
    }
}

/// A switch with a stream at each node.
pub trait Rounds<S: Read + Write>: Sized {
    /// Which nodes are to be looked at.
    fn awake(&mut self) -> &mut Awake;

    /// A node's place, if there is such a node.
    fn plug(&mut self, rank: u32) -> Option<Plug<'_, S>>;

    /// Told when a node's stream has ended.
    fn departed(&mut self, _rank: u32) {}

    /// Attaches the stream of `rank`.
    fn connect(&mut self, rank: u32, stream: S) {
        if let Some(plug) = self.plug(rank) {
            *plug.stream = Some(FrameStream::new(stream));
            self.awake().wake([rank]);
        }
    }

    /// Notes what the stream of `rank` has become ready for.
    fn ready(&mut self, rank: u32, readable: bool, writable: bool) {
        if let Some(stream) = self.plug(rank).and_then(|plug| plug.stream.as_mut()) {
            stream.ready(readable, writable);
            self.awake().wake([rank]);
        }
    }

    /// Does `what` at each node to look at, those included that it wakes behind itself; returns whether anything
    /// changed.
    fn each_awake(&mut self, mut what: impl FnMut(&mut Self, u32) -> bool) -> bool {
        let (mut changed, mut next) = (false, 0);
        while let Some(&rank) = self.awake().awake.range(next..).next() {
            next = rank + 1;
            if what(self, rank) {
                changed = true;
                self.awake().changed.insert(rank);
            }
        }
        changed
    }

    /// As [`each_awake`](Self::each_awake), counted.
    fn look(&mut self, mut what: impl FnMut(&mut Self, u32) -> bool) -> bool {
        self.each_awake(|switch, rank| {
            switch.awake().looks += 1;
            what(switch, rank)
        })
    }

    /// Begins a round: reads; returns whether anything came.
    fn fill(&mut self) -> bool {
        let awake = self.awake();
        awake.awake.extend(&awake.holding);
        self.each_awake(|switch, rank| {
            switch.plug(rank).and_then(|plug| plug.stream.as_mut()).is_some_and(FrameStream::fill)
        })
    }

    /// The second half of a round: writes; returns whether anything changed. A stream that has ended is given to
    /// `retire`.
    fn deliver(&mut self, mut retire: impl FnMut(S)) -> bool {
        let changed = self.each_awake(|switch, rank| {
            let Some(Plug { stream: end, left }) = switch.plug(rank) else { return false };
            let Some(stream) = end else { return false };
            let changed = stream.flush();
            let Some(why) = stream.ended() else { return changed };
            *left = Some(why);
            end.take().map(FrameStream::into_stream).map(&mut retire);
            switch.departed(rank);
            true
        });
        let awake = self.awake();
        awake.awake = std::mem::take(&mut awake.changed);
        changed
    }
}
