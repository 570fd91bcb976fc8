//! What the device tree says of the machine: the only source of hardware addresses (SPEC N-3).
//!
//! Read are the nodes whose status is `okay`; the others, and all within them, are somebody else's. What a node says that
//! cannot be, or that this kernel cannot do, is refused with the node's name.
//!
//! | part | what |
//! |---|---|
//! | [`sound`] | whether the tree hangs together |
//! | `at` | a node in its surroundings: addresses through buses, interrupts, status |
//! | [`aia`] | controllers of RISC-V's Advanced Interrupt Architecture |
//! | [`pci`] | a host bridge of PCI, and where interrupts of what is behind it go |
//! | [`cpu_map`] | where each hart is in its node |
//! | here | the nodes that matter |

pub mod aia;
mod at;
mod builder;
pub mod cpu_map;
pub mod pci;
pub mod sound;
#[cfg(test)]
mod tests;

use crate::layout::{Bank, Region};
use crate::personality::MAX_HARTS as HARTS;
use core::fmt;
use cpu_map::CpuMapError;
use dtoolkit::fdt::Fdt;
use heapless::Vec;
use pami::affinity::HartPlace;
use pci::PciHost;

/// Most places for network cards that are looked at.
pub const MAX_SLOTS: usize = 32;
/// Most banks of memory.
pub const MAX_BANKS: usize = 8;
/// Most harts without supervisor mode that are remembered.
pub const MAX_MONITORS: usize = 4;
/// Most reserved areas of memory.
pub const MAX_RESERVED: usize = 64;

/// A hart as the hardware knows it.
#[derive(Clone, Copy, Debug)]
pub struct Hart {
    /// MPIDR affinity or hart id.
    pub id: u64,
    /// What the interrupt controller calls it, if it knows it: its context at a PLIC, its number at an APLIC or IMSICs, its
    /// affinity at a GIC.
    pub at_controller: Option<u64>,
    /// The NUMA node that it is part of, if the tree counts them.
    pub domain: Option<u32>,
    /// The word at which it waits for the address to go on at, if it spins (`cpu-release-addr`); a multiple of 8.
    pub release: Option<usize>,
    /// Where it is in the node: one core of a chip each, if the tree does not tell.
    pub place: HartPlace,
}

impl Hart {
    /// The page of the word at which it spins.
    pub fn release_page(&self) -> Option<Region> {
        self.release.map(release_page)
    }
}

/// The page of a word at which harts spin.
fn release_page(word: usize) -> Region {
    Region { start: word, bytes: size_of::<u64>() }.grown_to_pages()
}

/// The kind of serial line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UartKind {
    /// Arm's PL011.
    Pl011,
    /// A 16550, or Synopsys' UART that is made after it.
    Ns16550 {
        /// Bytes from one register to the next.
        stride: u8,
        /// Bytes of an access: 1, 2 or 4, at most `stride`.
        width: u8,
        /// It is Synopsys'.
        synopsys: bool,
    },
    /// SiFive's.
    SiFive,
    /// Cadence's.
    Cadence,
    /// None: a process has its standard output.
    Stream,
}

/// The serial line to the host.
#[derive(Clone, Copy, Debug)]
pub struct Uart {
    /// Which kind.
    pub kind: UartKind,
    /// Its registers.
    pub registers: Region,
    /// Its clock, if the tree tells; never 0.
    pub clock_hz: Option<u32>,
    /// Its interrupt, if it has one that goes to the controller.
    pub interrupt: Option<Interrupt>,
}

/// The interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum Controller {
    /// A GICv3.
    GicV3 {
        /// Registers of the distributor.
        distributor: Region,
        /// Registers of the redistributors.
        redistributors: Region,
        /// Those of the interrupt translation service that takes messages of devices behind PCI, if there is one.
        its: Option<Region>,
        /// That and the redistributors may see memory through the harts' caches.
        coherent: bool,
    },
    /// A GICv2.
    GicV2 {
        /// Registers of the distributor.
        distributor: Region,
        /// Registers of the harts' interfaces.
        interface: Region,
        /// Those that take messages of devices behind PCI, if there are such.
        frame: Option<Region>,
    },
    /// A PLIC.
    Plic {
        /// Its registers.
        registers: Region,
    },
    /// An APLIC that gives interrupts to harts.
    Aplic {
        /// Registers of the domain for supervisors.
        registers: Region,
        /// Its sources are numbered from 1 to this.
        sources: u32,
    },
    /// Harts' files of interrupts, to which an APLIC sends them.
    Imsic {
        /// Registers of the APLIC's domain for supervisors.
        registers: Region,
        /// Its sources are numbered from 1 to this.
        sources: u32,
        /// The files.
        files: aia::Files,
    },
    /// None: the threads of a process call each other.
    Events,
}

/// What is in a [`CardSlot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// A virtio device behind memory-mapped registers, or nothing.
    VirtioMmio,
    /// A Cadence GEM.
    Gem {
        /// Whether it sees memory through the harts' caches.
        coherent: bool,
        /// Most bytes of a frame behind its header, if the tree says so.
        mtu: Option<u16>,
        /// Its address, if the tree says so.
        station: Option<[u8; 6]>,
    },
}

/// A place where a network card may be.
#[derive(Clone, Copy, Debug)]
pub struct CardSlot {
    /// What is to be found there.
    pub kind: SlotKind,
    /// Its registers.
    pub registers: Region,
    /// Its interrupt.
    pub interrupt: Interrupt,
    /// Why a card that is there cannot be used, if so.
    pub problem: Option<TreeError>,
}

/// A device's interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Number at the controller.
    pub number: u32,
    /// Signalled by an edge, not by a level.
    pub edge: bool,
}

/// How the firmware is called to start harts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// PSCI by HVC.
    PsciHvc,
    /// PSCI by SMC.
    PsciSmc,
    /// SBI, which the tree does not mention, or none.
    Sbi,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// RAM, by rising address; the image is in one of these.
    pub banks: Vec<Bank, MAX_BANKS>,
    /// The tree itself.
    pub tree: Region,
    /// Parts of RAM that are not for us.
    pub reserved: Vec<Region, MAX_RESERVED>,
    /// The harts by number, which goes by place, or as the tree lists them where it has no map of them. So harts of
    /// equal numbers have equal places in all nodes.
    pub harts: Vec<Hart, HARTS>,
    /// The number of the one that booted.
    pub booted: usize,
    /// Ids of harts without supervisor mode, which run nothing of ours.
    pub monitors: Vec<u64, MAX_MONITORS>,
    /// Why the tree's map of the harts is not used, if so.
    pub map_problem: Option<CpuMapError>,
    /// Whether all harts multiply without carries (RISC-V's Zbc).
    pub carryless: bool,
    /// Whether all harts translate addresses of 48 bits (RISC-V's Sv48).
    pub sv48: bool,
    /// Whether all harts set their timers themselves (RISC-V's Sstc).
    pub sstc: bool,
    /// The serial line, if the kernel knows it.
    pub uart: Option<Uart>,
    /// The interrupt controller, if the kernel knows it.
    pub controller: Option<Controller>,
    /// The timer's private interrupt, where it goes through the controller.
    pub timer_interrupt: Option<u32>,
    /// Rate of the counter, if the tree tells; never 0.
    pub counter_hz: Option<u64>,
    /// The places where network cards may be, by rising address.
    pub slots: Vec<CardSlot, MAX_SLOTS>,
    /// The first of the other places for them, which are left out: harts do not reach them, or their interrupts do not go to
    /// the controller, but to another that sends to the same IMSICs.
    pub left_out: Option<TreeError>,
    /// The host bridge of PCI, if there is one that harts reach.
    pub pci: Option<PciHost>,
    /// How to call the firmware.
    pub firmware: Firmware,
    /// The sifive_test device, which ends the emulation.
    pub finisher: Option<Region>,
    /// `/chosen/bootargs`.
    pub bootargs: &'static str,
    /// Why no node can run on this machine, if so.
    pub problem: Option<TreeError>,
}

/// What is missing from a tree or wrong in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeError {
    /// What the tree has that it should not, or lacks.
    pub what: &'static str,
    /// The node's name; empty if no node is to blame.
    pub node: &'static str,
}

impl TreeError {
    /// An error of the tree as a whole.
    pub const fn of(what: &'static str) -> Self {
        Self { what, node: "" }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device tree has {}", self.what)?;
        if self.node.is_empty() { Ok(()) } else { write!(f, " (node {})", self.node) }
    }
}

impl core::error::Error for TreeError {}

/// Bits of an MPIDR that are the affinity. Hart ids have none of the others.
const AFFINITY: u64 = 0xff_00ff_ffff;

impl Machine {
    /// Where the last of memory and of the places for network cards ends.
    pub fn end(&self) -> usize {
        let banks = self.banks.iter().map(|bank| bank.region);
        let slots = self.slots.iter().map(|slot| slot.registers);
        let pci = self.pci.iter().flat_map(|host| [host.configuration, host.window]);
        banks.chain(slots).chain(pci).map(|region| region.end()).max().unwrap_or(0)
    }

    /// Reads `tree`, which is [sound](sound::open). `image` is any address of the kernel's image, `booted` the id of the hart
    /// that runs this.
    /// What is wrong is the machine's [`problem`](Self::problem).
    pub fn read(tree: Fdt<'static>, image: usize, booted: u64) -> Self {
        builder::Builder::new(tree, image, booted & AFFINITY).read()
    }
}
