//! The machine that a process is, by the words that it was started with (SPEC H-1): what a device tree says elsewhere.
//!
//! | word | what |
//! |---|---|
//! | `harts=N` | so many harts |
//! | `cores=A,B,..` | the host's cores that they are bound to, by number; else they run where the host likes |
//! | `places=S.C.K.T,..` | where each of them is then: its socket, cluster, core and thread |
//! | `memory=N` | MiB of memory |
//! | `torus=MTU,PATH`, `tree=MTU,PATH` | the fabric's listeners for the node's cards, with the bytes of a frame behind its header |
//! | `segment=N` | the standard input has the memory that N nodes share, all of the torus (`drivers::linux::Peers`) |
//! | `bootargs=WORDS` | the personality |

use crate::devicetree::{Controller, Firmware, Hart, Machine, Uart, UartKind};
use crate::layout::{Bank, Region};
use crate::personality::MAX_HARTS;
use core::ptr;
use heapless::Vec;
use pami::affinity::HartPlace;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::{CpuSet, sched_setaffinity};

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

/// The machine, with its memory.
pub(crate) fn read() -> Machine {
    let number = |name| word(name).and_then(|word| word.parse::<usize>().ok());
    let harts = number("harts").filter(|harts| (1..=MAX_HARTS).contains(harts));
    let (Some(harts), Some(mebibytes), Some(bootargs)) = (harts, number("memory"), word("bootargs")) else {
        refuse("this process is a node of Pamir: `cargo xtask host` starts it");
    };
    let bytes = mebibytes.saturating_mul(1 << 20);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, wherever the host likes.
    let memory = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
    let Ok(memory) = memory else { refuse("the host gives no memory for this node") };
    let region = Region { start: memory.expose_provenance(), bytes };
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
