//! A GICv3's interrupt translation service (Arm GIC architecture specification, GICv3 and GICv4, chapter 5): what devices behind PCI
//! send becomes locality-specific interrupts, LPIs, of harts. By hand, as `arm-gic` knows of the redistributors' part alone.
//!
//! It is told by commands in a ring which device's message is which LPI and which hart's; whether an LPI reaches its hart, a byte
//! of memory says. What comes for one that is off stays pending, and goes along when that is moved: none is lost.
//!
//! | 64 KiB of memory each | what |
//! |---|---|
//! | first | ring of commands, devices' tables of messages, LPIs' bytes |
//! | second, third | tables of devices and of collections, flat; a collection is what goes to one hart |
//! | a hart's | which LPIs are pending there |

mod working;

use super::registers::Registers;
use super::{IrqError, Message, Sender};
use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;
use core::sync::atomic::AtomicU64;
use heapless::Vec;
use working::{By, Working};

/// Registers; those of 64 bits are accessed by halves.
const CONTROL: usize = 0x00;
const TYPE: usize = 0x08;
const COMMANDS_AT: usize = 0x80;
const WRITTEN: usize = 0x88;
const READ: usize = 0x90;
const TABLES_AT: usize = 0x100;
const TABLES: usize = 8;
/// Where devices store the number of their message.
const TRANSLATER: usize = 0x1_0040;
/// Bytes of a redistributor's registers, and some of these.
pub const REDISTRIBUTOR_BYTES: usize = 0x2_0000;
const LPIS_ON: usize = 0x00;
const REDISTRIBUTOR_TYPE: usize = 0x08;
const BYTES_AT: usize = 0x70;
const PENDING_AT: usize = 0x78;

/// In the control, and that nothing is under way.
const ENABLED: u32 = 1;
const QUIET: u32 = 1 << 31;
/// In a hart's control: a change of that is.
const UNDER_WAY: u32 = 1 << 3;
/// In the type of either: LPIs of harts; in this one's: a hart is told by its redistributor's address.
const PHYSICAL: u64 = 1;
const BY_ADDRESS: u64 = 1 << 19;
/// In what was read: it stands still at an error.
const STALLED: u32 = 1;
/// In what tells of memory: it is there; nothing is pending; harts' caches are seen, in one of two places each.
const VALID: u64 = 1 << 63;
const ALL_ZERO: u64 = 1 << 62;
const SHARED: u64 = 0b01 << 10;
const CACHES: u64 = 0b111;
const NO_CACHES: u64 = 0b001;
const ITS_CACHES_AT: u32 = 59;
const REDISTRIBUTOR_CACHES_AT: u32 = 7;
/// Kinds of tables.
const OF_DEVICES: u64 = 1;
const OF_COLLECTIONS: u64 = 4;

/// The first LPI, bits of the numbers that there are, how many are given, and what each device calls its only message.
pub const FIRST: u32 = 8192;
const NUMBER_BITS: u64 = 14;
const MOST: usize = 8;
const EVENT: u32 = 0;
/// In an LPI's byte, beside its priority.
const ON: u8 = 1;
const GROUP_1: u8 = 1 << 1;

/// Words of the memory's parts.
const PART: usize = (64 << 10) / size_of::<u64>();
const COMMAND: usize = 4;
const COMMANDS: usize = 128;
const DEVICE_TABLES: usize = COMMANDS * COMMAND;
const DEVICE_TABLE: usize = 256 / size_of::<u64>();
const LPI_BYTES: usize = PART / 8;
/// Parts that are no hart's.
const SHARED_PARTS: usize = 3;
// A device's two messages take at most 16 bytes each, and a hart's bit of each LPI fits into its part.
const _: () = {
    let numbers = 1 << NUMBER_BITS;
    assert!(MOST <= size_of::<u64>(), "LPIs' bytes are one word");
    assert!(DEVICE_TABLE * size_of::<u64>() >= 2 * 16 && DEVICE_TABLES + MOST * DEVICE_TABLE <= LPI_BYTES);
    assert!((LPI_BYTES * size_of::<u64>()).is_multiple_of(4096));
    assert!(LPI_BYTES * size_of::<u64>() + numbers - FIRST as usize <= PART * size_of::<u64>());
    assert!(numbers / 8 <= PART * size_of::<u64>());
};
/// How often it is looked at until it counts as stuck.
const LOOKS: usize = 1 << 20;
/// Most harts.
pub(super) const HARTS: usize = 64;

/// About how many bytes of heap it takes for so many harts, once the first device sends messages.
pub const fn heap_bytes(harts: usize) -> usize {
    (SHARED_PARTS + 1 + harts) * PART * size_of::<u64>()
}

/// How harts' accesses of memory come to be seen.
pub trait Harts: Sync {
    /// Orders accesses of memory and of devices before it to those behind it.
    fn barrier(&self);
    /// Brings what harts wrote there to memory, where those see it that do not see the harts' caches.
    fn write_back(&self, words: &[AtomicU64]);
}

/// Where registers are.
pub(super) trait Block {
    /// The register at this offset.
    fn read(&self, offset: usize) -> u32;
    /// Writes it.
    fn write(&self, offset: usize, value: u32);

    /// One of 64 bits.
    fn read_long(&self, offset: usize) -> u64 {
        u64::from(self.read(offset)) | u64::from(self.read(offset + 4)) << 32
    }

    /// Writes one, its upper half, which says whether it counts, last.
    fn write_long(&self, offset: usize, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    /// Says where memory is, and that it is seen through the harts' caches, if it may be, as `caches_at` has place for. Returns
    /// whether it is not.
    fn tell(&self, offset: usize, memory: u64, caches_at: u32, coherent: bool) -> bool {
        if coherent {
            self.write_long(offset, memory | SHARED | CACHES << caches_at);
        }
        let apart = !coherent || self.read(offset) & SHARED as u32 == 0;
        if apart {
            self.write_long(offset, memory | NO_CACHES << caches_at);
        }
        apart
    }
}

impl Block for Registers {
    fn read(&self, offset: usize) -> u32 {
        self.read(offset)
    }

    fn write(&self, offset: usize, value: u32) {
        self.write(offset, value);
    }
}

/// A hart that has started: its affinity, and the number of its redistributor.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartedHart {
    pub(super) hart: u64,
    pub(super) frame: usize,
}

/// A service.
pub(super) struct Its<B> {
    registers: B,
    redistributors: B,
    /// Where devices see the one, and the service the others.
    address: u64,
    redistributors_address: u64,
    /// They may see memory through the harts' caches.
    coherent: bool,
    state: State,
}

enum State {
    /// So far no device sends messages.
    Off,
    Works(Box<Working>),
    /// It was to start, and did not, or got stuck later: what it has been told since is lost.
    Refused(IrqError),
}

impl State {
    /// What has been started; else why it is not there.
    fn working(&mut self) -> Result<&mut Working, IrqError> {
        match self {
            Self::Works(working) => Ok(working),
            Self::Refused(error) => Err(*error),
            Self::Off => Err(IrqError::NoInterrupt),
        }
    }
}

/// Looks until `is` holds.
fn wait(is: impl Fn() -> bool) -> Result<(), IrqError> {
    (0..LOOKS).any(|_| is()).then_some(()).ok_or(IrqError::Stuck)
}

/// So many parts of memory, all zero, for ever.
fn memory(parts: usize) -> Result<&'static [AtomicU64], IrqError> {
    let bytes = PART * size_of::<u64>();
    let layout = Layout::from_size_align(parts * bytes, bytes).map_err(|_| IrqError::NoInterrupt)?;
    // SAFETY: there are some bytes.
    let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    if start.is_null() {
        return Err(IrqError::NoInterrupt);
    }
    // SAFETY: so many words were allocated, zeros are such words, and nobody gives them back.
    Ok(unsafe { core::slice::from_raw_parts(start, parts * PART) })
}

/// The address of a word.
fn address(word: &AtomicU64) -> u64 {
    core::ptr::from_ref(word).expose_provenance() as u64
}

impl<B: Block> Its<B> {
    /// The service with these registers, which devices see at `address`, of harts with these redistributors, which lie at
    /// `redistributors_address`. Unless they are `coherent`, none of them sees memory through the harts' caches.
    pub(super) fn new(
        (registers, address): (B, u64),
        (redistributors, redistributors_address): (B, u64),
        coherent: bool,
    ) -> Self {
        Self { registers, redistributors, address, redistributors_address, coherent, state: State::Off }
    }

    /// Gives the device that the service calls `device` an LPI of this `priority`, which is off.
    pub(super) fn add(
        &mut self,
        interface: &impl Harts,
        harts: &[StartedHart],
        device: u32,
        priority: u8,
        sender: &dyn Sender,
    ) -> Result<u32, IrqError> {
        if matches!(self.state, State::Off) {
            let started = self.start(interface, harts);
            self.state = started.map_or_else(State::Refused, |working| State::Works(Box::new(working)));
        }
        let working = self.state.working()?;
        let added = working.add(&By { its: &self.registers, harts: interface }, device, priority);
        let number = self.settle(added)?;
        let address = self.address + TRANSLATER as u64;
        sender.aim(Some(Message { address, data: EVENT }));
        Ok(number)
    }

    /// Turns it and its harts' LPIs off. False if these stay on once they were.
    pub(super) fn rest(&self, harts: &[StartedHart]) -> bool {
        if matches!(self.state, State::Off) {
            return true;
        }
        let its = &self.registers;
        its.write(CONTROL, its.read(CONTROL) & !ENABLED);
        let control = |hart: &StartedHart| hart.frame * REDISTRIBUTOR_BYTES + LPIS_ON;
        for at in harts.iter().map(control) {
            self.redistributors.write(at, self.redistributors.read(at) & !ENABLED);
        }
        let off = |at| wait(|| self.redistributors.read(at) & (ENABLED | UNDER_WAY) == 0).is_ok();
        wait(|| its.read(CONTROL) & QUIET != 0).is_ok() && harts.iter().map(control).all(off)
    }

    /// Whether it has given this number.
    pub(super) fn has(&self, number: u32) -> bool {
        matches!(&self.state, State::Works(working) if working.index(number).is_ok())
    }

    /// Sends LPIs to a hart or to none.
    pub(super) fn route(
        &mut self,
        interface: &impl Harts,
        numbers: impl Iterator<Item = u32>,
        to: Option<u64>,
    ) -> Result<(), IrqError> {
        let working = self.state.working()?;
        let routed = working.route(&By { its: &self.registers, harts: interface }, numbers, to);
        self.settle(routed)
    }

    /// One that got stuck is told nothing any more: nobody knows which commands it has carried out.
    fn settle<T>(&mut self, done: Result<T, IrqError>) -> Result<T, IrqError> {
        if matches!(done, Err(IrqError::Stuck)) {
            self.state = State::Refused(IrqError::Stuck);
        }
        done
    }

    /// Has it run for these harts, with tables of memory. It is turned on, as are harts' LPIs, when it and they have been told of
    /// all memory and find that as it is meant.
    fn start(&self, interface: &impl Harts, harts: &[StartedHart]) -> Result<Working, IrqError> {
        let its = &self.registers;
        let kind = its.read_long(TYPE);
        let field = |from: u32, bits: u32| kind >> from & ((1 << bits) - 1);
        let of = |hart: &StartedHart, offset: usize| hart.frame * REDISTRIBUTOR_BYTES + offset;
        let types = || harts.iter().map(|hart| self.redistributors.read_long(of(hart, REDISTRIBUTOR_TYPE)));
        if kind & PHYSICAL == 0 || types().any(|kind| kind & PHYSICAL == 0) {
            return Err(IrqError::NoInterrupt);
        }
        // Where the memory of a hart's LPIs is cannot be changed once they are on.
        let is_on = |hart: &StartedHart| self.redistributors.read(of(hart, LPIS_ON)) & ENABLED != 0;
        if harts.iter().any(is_on) {
            return Err(IrqError::NotOurs);
        }
        its.write(CONTROL, its.read(CONTROL) & !ENABLED);
        wait(|| its.read(CONTROL) & QUIET != 0)?;
        let memory = memory(SHARED_PARTS + harts.len())?;
        let devices = self.give_table(OF_DEVICES, &memory[PART]).ok_or(IrqError::NoInterrupt)?;
        let collections = self.give_table(OF_COLLECTIONS, &memory[2 * PART]);
        // Beside a table it may have room of its own for some.
        let (collections, apart) = collections.unwrap_or((field(24, 8), false));
        if collections < harts.len() as u64 {
            return Err(IrqError::NoHart);
        }
        let mut apart = apart || devices.1;
        // One page, less one.
        apart |= its.tell(COMMANDS_AT, VALID | address(&memory[0]), ITS_CACHES_AT, self.coherent);
        its.write_long(WRITTEN, 0);
        let mut named = Vec::new();
        let by_address = kind & BY_ADDRESS != 0;
        for ((hart, redistributor), pending) in
            harts.iter().zip(types()).zip(memory.chunks(PART).skip(SHARED_PARTS))
        {
            apart |= self.tell_hart(of(hart, 0), &memory[LPI_BYTES], &pending[0]);
            let frame = self.redistributors_address + of(hart, 0) as u64;
            let name = if by_address { frame } else { (redistributor >> 8 & 0xffff) << 16 };
            named.push((hart.hart, name)).map_err(|_| IrqError::NoHart)?;
        }
        if apart {
            interface.write_back(memory);
        }
        interface.barrier();
        for hart in harts {
            let control = self.redistributors.read(of(hart, LPIS_ON));
            self.redistributors.write(of(hart, LPIS_ON), control | ENABLED);
        }
        if !harts.iter().all(is_on) {
            return Err(IrqError::NotOurs);
        }
        its.write(CONTROL, its.read(CONTROL) | ENABLED);
        let devices = devices.0.min(2 << field(13, 5));
        Working::new(&By { its, harts: interface }, (memory, apart), devices, named)
    }

    /// Gives its table of this kind the part of memory that begins with `first`: how many entries that holds, and whether it is seen
    /// without the harts' caches. None if it has no such table.
    fn give_table(&self, kind: u64, first: &AtomicU64) -> Option<(u64, bool)> {
        let its = &self.registers;
        let tables = (0..TABLES).map(|table| TABLES_AT + table * size_of::<u64>());
        let at = tables.into_iter().find(|&at| its.read_long(at) >> 56 & 7 == kind)?;
        let entry = (its.read_long(at) >> 48 & 31) + 1;
        let bytes = (PART * size_of::<u64>()) as u64;
        // Pages of 64, 16 or 4 KiB: it may know one size alone.
        let apart = [2, 1, 0].into_iter().find_map(|page| {
            let pages = bytes >> (12 + 2 * page);
            let apart =
                its.tell(at, VALID | address(first) | page << 8 | (pages - 1), ITS_CACHES_AT, self.coherent);
            (its.read_long(at) >> 8 & 3 == page).then_some(apart)
        });
        Some((bytes / entry, apart?))
    }

    /// Says where the memory for LPIs is to the hart whose redistributor's registers begin at `frame`. Returns whether that is seen
    /// without the harts' caches.
    fn tell_hart(&self, frame: usize, bytes: &AtomicU64, pending: &AtomicU64) -> bool {
        let told =
            [(BYTES_AT, address(bytes) | (NUMBER_BITS - 1)), (PENDING_AT, address(pending) | ALL_ZERO)];
        let tell = |(at, memory)| {
            self.redistributors.tell(frame + at, memory, REDISTRIBUTOR_CACHES_AT, self.coherent)
        };
        told.map(tell).contains(&true)
    }
}

#[cfg(test)]
mod tests;
