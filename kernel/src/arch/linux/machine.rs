//! The machine that a process is, by the words that it was started with (SPEC H-1): what a device tree says elsewhere.
//!
//! | word | what |
//! |---|---|
//! | `harts=N` | so many harts |
//! | `cores=A,B,..` | the host's cores that they are bound to, by number; else they run where the host likes |
//! | `places=S.C.K.T,..` | where each of them is then: its socket, cluster, core and thread |
//! | `memory=N` | MiB of memory |
//! | `numa=N` | they are to be of this NUMA node, if it has as many |
//! | `torus=MTU,PATH`, `tree=MTU,PATH` | the fabric's listeners for the node's cards, with the bytes of a frame behind its header |
//! | `udp=MTU,K,ADDRESS,ADDRESS,..` | this is node K of those at these addresses, IP and port, in the place of `torus`: frames are datagrams between them |
//! | `segment=K,N,C` | this is node K of N, all of the torus, on C cores, whose memory the standard input has (`drivers::linux::Peers`) |
//! | `bootargs=WORDS` | the personality |

use crate::devicetree::{Controller, Firmware, Hart, Machine, Uart, UartKind};
use crate::layout::{Bank, Region};
use crate::personality::MAX_HARTS;
use core::fmt::Write;
use core::ptr;
use drivers::linux::{self, Peers, Shape};
use drivers::near::Near;
use heapless::Vec;
use pami::affinity::HartPlace;
use rings::segment::is_crowded as is_crowded_by;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spin::Once;

/// What a process ends with that cannot be a node (EX_UNAVAILABLE).
const MACHINE: i32 = 69;

/// The value of a word.
pub(crate) fn word(name: &str) -> Option<&'static str> {
    boot::words().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn refuse(why: &str) -> ! {
    super::last_words(*b"R0", why.as_bytes());
    boot::leave(MACHINE)
}

fn number(name: &str) -> Option<usize> {
    word(name)?.parse().ok()
}

/// Memory that this node has in common with others.
static PEERS: Once<Peers> = Once::new();
/// Whether all of them have more harts than there are cores.
static CROWDED: Once<bool> = Once::new();

/// What the node shares with others, if it does.
pub(crate) fn peers() -> Option<&'static Peers> {
    PEERS.get()
}

/// The nodes whose memory this one reaches.
pub(crate) fn near() -> Option<Near> {
    peers().map(Peers::near)
}

/// Whether all nodes that share memory have these bytes; if none do, they are this one's business.
pub(crate) fn shares(address: usize, len: usize) -> bool {
    peers().is_none_or(|peers| peers.contain(address, len))
}

/// Where the first hart's stacks lie, at the front of the node's memory, which is mapped by that: others reach what lies there.
pub(crate) fn first_stacks() -> usize {
    memory().start
}

/// Whether nodes that share memory have more harts than there are cores.
pub(crate) fn is_crowded() -> bool {
    CROWDED.get().is_some_and(|&crowded| crowded)
}

/// Whether it is known that there is a core for each hart of all nodes.
pub(crate) fn has_cores_for_all() -> bool {
    CROWDED.get().is_some_and(|&crowded| !crowded)
}

/// The node's memory.
fn memory() -> Region {
    static MEMORY: Once<Region> = Once::new();
    *MEMORY.call_once(|| {
        let Some(bytes) = number("memory").and_then(|mebibytes| mebibytes.checked_mul(1 << 20)) else {
            refuse("this process is a node of Pamir: `cargo xtask host` starts it");
        };
        if let Some(word) = word("segment") {
            return share(word, bytes);
        }
        let cores = sched_getaffinity(None).map_or(0, |cores| cores.count() as usize);
        if number("harts").is_some_and(|harts| harts <= cores) {
            linux::register_fences();
        }
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping, wherever the host likes.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, flags) };
        let Ok(memory) = memory else { refuse("the host gives no memory for this node") };
        near_harts(Region { start: memory.expose_provenance(), bytes })
    })
}

/// This memory, which nobody has touched, on the NUMA node of the node's harts if that was told, whoever touches it first: another
/// node may, where they share memory.
fn near_harts(memory: Region) -> Region {
    if let Some(numa) = number("numa") {
        // Memory that lies elsewhere costs time alone.
        let _ = boot::prefer_numa(memory.start, memory.bytes, numa);
    }
    memory
}

/// The node's part of memory that nodes share; each has so many bytes of it.
fn share(word: &str, bytes: usize) -> Region {
    let numbers = || {
        let (node, others) = word.split_once(',')?;
        let (nodes, cores) = others.split_once(',')?;
        Some((node.parse().ok()?, nodes.parse().ok()?, cores.parse::<usize>().ok()?))
    };
    let (Some((node, nodes, cores)), Some(harts)) = (numbers(), number("harts")) else {
        refuse("the word `segment` is to be a node, how many there are, and cores, with commas between");
    };
    if !*CROWDED.call_once(|| is_crowded_by(nodes, harts, cores)) {
        linux::register_fences();
    }
    match Peers::receive(linux::standard_input(), Shape { node, nodes, harts, bytes }) {
        Ok(peers) => {
            let (start, bytes) = PEERS.call_once(|| peers).memory();
            near_harts(Region { start, bytes })
        }
        Err(error) => {
            let mut why = heapless::String::<160>::new();
            // What has no room is left out.
            let _ =
                write!(why, "the memory that nodes share cannot be used: {error} (--fabric does without)");
            refuse(&why)
        }
    }
}

/// The machine, with its memory.
pub(crate) fn read() -> Machine {
    let harts = number("harts").filter(|harts| (1..=MAX_HARTS).contains(harts));
    let (Some(harts), Some(bootargs)) = (harts, word("bootargs")) else {
        refuse("this process is a node of Pamir: `cargo xtask host` starts it");
    };
    let all = memory();
    let stacks = crate::arch::memory::STACKS;
    let region = Region { start: all.start + stacks, bytes: all.bytes - stacks };
    let hart = |number: usize| Hart {
        id: number as u64,
        at_controller: Some(number as u64),
        domain: None,
        release: None,
        place: place(number).unwrap_or(HartPlace { core: number as u16, ..HartPlace::default() }),
    };
    Machine {
        banks: Vec::from_iter([Bank { region, domain: None }]),
        tree: Region::default(),
        reserved: Vec::new(),
        harts: (0..harts).map(hart).collect(),
        booted: 0,
        monitors: Vec::new(),
        map_problem: None,
        carryless: false,
        sv48: false,
        sstc: false,
        uart: Some(Uart {
            kind: UartKind::Stream,
            registers: Region::default(),
            clock_hz: None,
            interrupt: None,
        }),
        controller: Some(Controller::Events),
        timer_interrupt: None,
        counter_hz: None,
        slots: Vec::new(),
        left_out: None,
        pci: None,
        firmware: Firmware::Sbi,
        finisher: None,
        bootargs,
        problem: None,
    }
}

/// Where hart `hart` is, if that was told.
fn place(hart: usize) -> Option<HartPlace> {
    let mut numbers =
        word("places")?.split(',').nth(hart)?.split('.').map_while(|number| number.parse().ok());
    let mut next = || numbers.next();
    Some(HartPlace { socket: next()?, cluster: next()?, core: next()?, thread: next()? })
}

/// Binds the thread that calls, hart `hart`, to its core, if it is to have one.
pub(super) fn bind(hart: usize) {
    let core = word("cores").and_then(|cores| cores.split(',').nth(hart)?.parse().ok());
    if let Some(core) = core.filter(|&core| core < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(core);
        // A core that is not to be had costs time alone.
        let _ = sched_setaffinity(None, &set);
    }
}
