//! Memory that the nodes of a run have in common which are processes of this machine: each reaches the others' (SPEC H-1, H-5).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rings::segment::{MOST_BELLS, MOST_REACHED, reach, shared_bytes};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};

use super::harm::Harm;
use super::settings::Run;
use crate::personality::Mode;

/// How long a node may have to wait until those before it have taken theirs: the host limits what is on its way.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Clients that a node may have at a time.
const CLIENTS: usize = pami::endpoint::CLIENTS;

/// Which way messages between nodes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Through memory that the nodes share.
    Segment,
    /// Through the fabric, because of this.
    Fabric(&'static str),
    /// In UDP datagrams, from each node's address to another's.
    Udp,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Segment => f.write_str("messages go through memory that the nodes share"),
            Self::Fabric(why) => write!(f, "messages go through the fabric: {why}"),
            Self::Udp => f.write_str("messages go in UDP datagrams, between all nodes alike"),
        }
    }
}

impl Way {
    /// Whether what goes this way is counted outside of the nodes.
    pub fn is_counted(self) -> bool {
        matches!(self, Self::Fabric(_))
    }

    /// That of a run with so many nodes of so many harts each.
    pub fn of(run: &Run, nodes: u32, harts: u8) -> Self {
        if run.udp.is_some() {
            return Self::Udp;
        }
        let (count, harts) = (nodes as usize, usize::from(harts));
        let tasks = if run.mode == Mode::Vn { harts } else { 1 };
        let ports = CLIENTS * tasks * usize::from(run.contexts);
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
            (count * harts > MOST_BELLS, "more than 240 harts cannot share memory"),
            (
                reach(ports, count) > MOST_REACHED,
                "so many contexts (tasks times --contexts) cannot share memory",
            ),
            (
                shared_bytes(count, (run.memory as usize) << 20).is_none(),
                "256 GiB are the most that is shared",
            ),
        ];
        let reason = reasons.iter().find(|(holds, _)| *holds);
        reason.map_or(Self::Segment, |&(_, why)| Self::Fabric(why))
    }
}

/// The memory, and a bell for each hart. The memory is gone with the last process that has it.
pub struct Share {
    memory: OwnedFd,
    bells: Vec<OwnedFd>,
}

impl Share {
    /// For so many nodes of `harts` harts and `memory` MiB.
    pub fn new(nodes: u32, harts: u8, memory: u32) -> Result<Self> {
        let bytes = shared_bytes(nodes as usize, (memory as usize) << 20)
            .context("so much memory cannot be shared")?;
        let make = || -> Result<Self, Errno> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let memory = memfd_create("pamir", flags)?;
            ftruncate(&memory, bytes as u64)?;
            // Nodes need not fear that it shrinks under them.
            fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            let bell = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
            let bells = 0..nodes * u32::from(harts);
            Ok(Self { memory, bells: bells.map(bell).collect::<Result<_, _>>()? })
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
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_BELLS))];
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
        assert_eq!(Way::of(&run(), 2, 1), Way::Segment);
        assert_eq!(
            Way::of(&run().kill("node=0@1s").pause("node=1@1s+1s").tree(false).lossless(true), 64, 1),
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
            let way = Way::of(&run, 2, 1);
            assert!(matches!(way, Way::Fabric(why) if why.contains(word)), "{word}: {way}");
        }
        assert!(matches!(Way::of(&run(), 1, 4), Way::Fabric(_)));
        assert_eq!(Way::of(&run().udp("127.0.0.1:7000,127.0.0.1:7001"), 2, 1), Way::Udp);
        for (run, nodes, harts, word) in [
            (run(), 61, 4, "240 harts"),
            (run().mode(Mode::Vn), 16, 16, "240 harts"),
            (run().mode(Mode::Vn).contexts(8), 16, 8, "--contexts"),
            (run().memory(16 << 10), 32, 1, "256 GiB"),
        ] {
            let way = Way::of(&run, nodes, harts);
            assert!(matches!(way, Way::Fabric(why) if why.contains(word)), "{word}: {way}");
        }
    }

    #[test]
    fn h1_what_nodes_share_is_the_memory_of_all_and_cannot_shrink() {
        let share = Share::new(3, 2, 64).expect("memory");
        assert_eq!(share.bells.len(), 6);
        let bytes = rustix::fs::fstat(&share.memory).expect("a size").st_size;
        assert_eq!(Some(bytes as usize), shared_bytes(3, 64 << 20));
        assert!(ftruncate(&share.memory, 0).is_err());
        share.input().expect("an input");
    }
}
