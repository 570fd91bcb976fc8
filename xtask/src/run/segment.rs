//! Memory that the nodes of a run share which are processes of this machine, in the place of the fabric (SPEC H-1).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rings::packets::{MOST_NODES, Segment};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};

use super::harm::Harm;
use super::settings::Run;

/// How long a node may have to wait until those before it have taken theirs: the host limits what is on its way.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Which way packets between nodes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Through rings in memory that the nodes share.
    Segment,
    /// Through the fabric, because of this.
    Fabric(&'static str),
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Segment => f.write_str("packets go through rings in memory that the nodes share"),
            Self::Fabric(why) => write!(f, "packets go through the fabric: {why}"),
        }
    }
}

impl Way {
    /// That of a run with so many nodes.
    pub fn of(run: &Run, nodes: u32) -> Self {
        let cuts = run.harm_words.iter().any(|(_, harm)| *harm == Harm::Cut);
        let reasons = [
            (run.board.is_emulated(), "emulated nodes have cards"),
            (run.by_fabric, "--fabric says so"),
            (run.plain, "--plain is its switch"),
            (run.counts_links, "--picture shows its links"),
            (run.faults.is_some(), "--faults happen there"),
            (!run.links_down.is_empty(), "--link-down happens there"),
            (run.pcap.is_some(), "--pcap captures there"),
            (cuts, "--cut cuts it off"),
            (!run.adapter || nodes == 1, "no node has others to share memory with"),
            (nodes as usize > MOST_NODES, "more than 16 nodes cannot share memory"),
        ];
        let reason = reasons.iter().find(|(holds, _)| *holds);
        reason.map_or(Self::Segment, |&(_, why)| Self::Fabric(why))
    }
}

/// The memory, and a bell for each node. The memory is gone with the last process that has it.
pub struct Share {
    memory: OwnedFd,
    bells: Vec<OwnedFd>,
}

impl Share {
    /// For so many nodes.
    pub fn new(nodes: u32) -> Result<Self> {
        let make = || -> Result<Self, Errno> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let memory = memfd_create("pamir", flags)?;
            ftruncate(&memory, Segment::bytes(nodes as usize) as u64)?;
            // Nodes need not fear that it shrinks under them.
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            let bell = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
            Ok(Self { memory, bells: (0..nodes).map(bell).collect::<Result<_, _>>()? })
        };
        make().context("cannot make the memory that nodes share (--fabric does without)")
    }

    /// A standard input that has all of it.
    pub fn input(&self) -> Result<OwnedFd> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .context("cannot make a socket")?;
        let all: Vec<_> = [&self.memory].into_iter().chain(&self.bells).map(|fd| fd.as_fd()).collect();
        let begun = Instant::now();
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_NODES))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
                bail!("{} descriptors are too many for a message", all.len());
            }
            match sendmsg(&ours, &[IoSlice::new(b"s")], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(theirs),
                Err(Errno::TOOMANYREFS | Errno::INTR) if begun.elapsed() < TURN_TIMEOUT => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error).context("cannot hand the memory to a node"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Board;

    #[test]
    fn h1_processes_share_memory_unless_something_wants_the_fabric() {
        let run = || Run::new("hello").board(Board::Linux);
        assert_eq!(Way::of(&run(), 2), Way::Segment);
        assert_eq!(
            Way::of(&run().kill("node=0@1s").pause("node=1@1s+1s").tree(false).lossless(true), 16),
            Way::Segment
        );
        for (run, word) in [
            (run().by_fabric(true), "--fabric"),
            (run().counts_links(true), "--picture"),
            (run().faults("drop=1%"), "--faults"),
            (run().link_down("0:+x@1s..2s"), "--link-down"),
            (run().pcap("file"), "--pcap"),
            (run().cut("node=0@1s"), "--cut"),
            (Run::new("hello"), "emulated"),
        ] {
            let way = Way::of(&run, 2);
            assert!(matches!(way, Way::Fabric(why) if why.contains(word)), "{word}: {way}");
        }
        assert!(matches!(Way::of(&run(), 1), Way::Fabric(_)));
        assert!(matches!(Way::of(&run(), 17), Way::Fabric(_)));
    }

    #[test]
    fn h1_what_nodes_share_is_as_large_as_its_rings_and_cannot_shrink() {
        let share = Share::new(3).expect("memory");
        assert_eq!(share.bells.len(), 3);
        let bytes = rustix::fs::fstat(&share.memory).expect("a size").st_size;
        assert_eq!(bytes as usize, Segment::bytes(3));
        assert!(ftruncate(&share.memory, 0).is_err());
        share.input().expect("an input");
    }
}
