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

use super::registers::Registers;
use super::{IrqError, Message, Sender};
use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use heapless::Vec;

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
pub(super) const FIRST: u32 = 8192;
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

    /// Says where memory is, and that it is seen through the harts' caches, as `caches_at` has place for. Returns whether it
    /// is not.
    fn tell(&self, offset: usize, memory: u64, caches_at: u32) -> bool {
        self.write_long(offset, memory | SHARED | CACHES << caches_at);
        let apart = self.read(offset) & SHARED as u32 == 0;
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
pub(super) struct Place {
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
    state: State,
}

enum State {
    /// So far no device sends messages.
    Off,
    Works(Box<Working>),
    /// It was to start, and did not.
    Refused(IrqError),
}

/// A device's message.
struct Lpi {
    device: u32,
    /// Its collection.
    to: usize,
    on: bool,
}

/// What has been started.
struct Working {
    memory: &'static [AtomicU64],
    /// Some of the memory is not seen through the harts' caches.
    apart: bool,
    /// The next command's place.
    next: usize,
    /// Bytes of a device's table for its two messages, and how many devices there can be.
    device_bytes: usize,
    devices: u64,
    /// By collection: the hart, and what the service calls it.
    harts: Vec<(u64, u64), HARTS>,
    lpis: Vec<Lpi, MOST>,
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
    /// `redistributors_address`.
    pub(super) fn new(registers: B, address: u64, redistributors: B, redistributors_address: u64) -> Self {
        Self { registers, redistributors, address, redistributors_address, state: State::Off }
    }

    /// Gives the device that the service calls `device` an LPI of this `priority`, which is off.
    pub(super) fn add(
        &mut self,
        interface: &impl Harts,
        harts: &[Place],
        device: u32,
        priority: u8,
        sender: &dyn Sender,
    ) -> Result<u32, IrqError> {
        if matches!(self.state, State::Off) {
            let started = self.start(interface, harts);
            self.state = started.map_or_else(State::Refused, |working| State::Works(Box::new(working)));
        }
        let working = match &mut self.state {
            State::Works(working) => working,
            State::Refused(error) => return Err(*error),
            State::Off => return Err(IrqError::NoInterrupt),
        };
        let number = working.add(&self.registers, interface, device, priority)?;
        let address = self.address + TRANSLATER as u64;
        sender.aim(Some(Message { address, data: EVENT }));
        Ok(number)
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
        let State::Works(working) = &mut self.state else { return Err(IrqError::NoInterrupt) };
        working.route(&self.registers, interface, numbers, to)
    }

    /// Has it run for these harts, with tables of memory.
    fn start(&self, interface: &impl Harts, harts: &[Place]) -> Result<Working, IrqError> {
        let its = &self.registers;
        let kind = its.read_long(TYPE);
        let field = |from: u32, bits: u32| kind >> from & ((1 << bits) - 1);
        let of = |hart: &Place, offset: usize| hart.frame * REDISTRIBUTOR_BYTES + offset;
        let types = || harts.iter().map(|hart| self.redistributors.read_long(of(hart, REDISTRIBUTOR_TYPE)));
        if kind & PHYSICAL == 0 || types().any(|kind| kind & PHYSICAL == 0) {
            return Err(IrqError::NoInterrupt);
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
        apart |= its.tell(COMMANDS_AT, VALID | address(&memory[0]), ITS_CACHES_AT);
        its.write_long(WRITTEN, 0);
        its.write(CONTROL, its.read(CONTROL) | ENABLED);
        let mut named = Vec::new();
        let by_address = kind & BY_ADDRESS != 0;
        for ((hart, redistributor), pending) in
            harts.iter().zip(types()).zip(memory.chunks(PART).skip(SHARED_PARTS))
        {
            apart |= self.start_hart(of(hart, 0), &memory[LPI_BYTES], &pending[0])?;
            let frame = self.redistributors_address + of(hart, 0) as u64;
            let name = if by_address { frame } else { (redistributor >> 8 & 0xffff) << 16 };
            named.push((hart.hart, name)).map_err(|_| IrqError::NoHart)?;
        }
        let mut working = Working {
            memory,
            apart,
            next: 0,
            device_bytes: 2 * (field(4, 4) as usize + 1),
            devices: devices.0.min(2 << field(13, 5)),
            harts: named,
            lpis: Vec::new(),
        };
        if apart {
            interface.write_back(memory);
        }
        for hart in 0..working.harts.len() {
            let (_, name) = working.harts[hart];
            working.command([0x09, 0, VALID | name | hart as u64, 0]);
            working.synchronise(hart);
        }
        working.carry_out(its, interface)?;
        Ok(working)
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
            let apart = its.tell(at, VALID | address(first) | page << 8 | (pages - 1), ITS_CACHES_AT);
            (its.read_long(at) >> 8 & 3 == page).then_some(apart)
        });
        Some((bytes / entry, apart?))
    }

    /// Lets LPIs through to the hart whose redistributor's registers begin at `frame`. Returns whether its memory is seen without
    /// the harts' caches.
    fn start_hart(&self, frame: usize, bytes: &AtomicU64, pending: &AtomicU64) -> Result<bool, IrqError> {
        let hart = &self.redistributors;
        // Where its memory is cannot be changed any more.
        if hart.read(frame + LPIS_ON) & ENABLED != 0 {
            return Err(IrqError::NotOurs);
        }
        let bytes = address(bytes) | (NUMBER_BITS - 1);
        let apart = hart.tell(frame + BYTES_AT, bytes, REDISTRIBUTOR_CACHES_AT)
            | hart.tell(frame + PENDING_AT, address(pending) | ALL_ZERO, REDISTRIBUTOR_CACHES_AT);
        hart.write(frame + LPIS_ON, hart.read(frame + LPIS_ON) | ENABLED);
        Ok(apart)
    }
}

impl Working {
    fn index(&self, number: u32) -> Result<usize, IrqError> {
        let index = number.checked_sub(FIRST).map(|index| index as usize);
        index.filter(|&index| index < self.lpis.len()).ok_or(IrqError::NoInterrupt)
    }

    /// Writes a command behind the others.
    fn command(&mut self, words: [u64; COMMAND]) {
        let place = &self.memory[self.next * COMMAND..][..COMMAND];
        for (place, word) in place.iter().zip(words) {
            place.store(word.to_le(), Ordering::Relaxed);
        }
        self.next = (self.next + 1) % COMMANDS;
    }

    /// What was told so far has come to the collection's hart when this has been carried out.
    fn synchronise(&mut self, collection: usize) {
        let (_, name) = self.harts[collection];
        self.command([0x05, 0, name, 0]);
    }

    /// The byte of an LPI is read anew.
    fn invalidate(&mut self, device: u32) {
        self.command([0x0c | u64::from(device) << 32, u64::from(EVENT), 0, 0]);
    }

    /// Has all commands be carried out.
    fn carry_out(&self, its: &impl Block, interface: &impl Harts) -> Result<(), IrqError> {
        if self.apart {
            interface.write_back(&self.memory[..PART]);
        }
        interface.barrier();
        let written = (self.next * COMMAND * size_of::<u64>()) as u32;
        its.write(WRITTEN, written);
        wait(|| its.read(READ) == written || its.read(READ) & STALLED != 0)?;
        if its.read(READ) == written { Ok(()) } else { Err(IrqError::Stuck) }
    }

    /// Sets an LPI's byte.
    fn set_byte(&self, lpi: usize, byte: u8) {
        let word = &self.memory[LPI_BYTES];
        let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        bytes[lpi] = byte;
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }

    /// Its byte so far.
    fn byte(&self, lpi: usize) -> u8 {
        self.memory[LPI_BYTES].load(Ordering::Relaxed).to_ne_bytes()[lpi]
    }

    fn add(
        &mut self,
        its: &impl Block,
        interface: &impl Harts,
        device: u32,
        priority: u8,
    ) -> Result<u32, IrqError> {
        let lpi = self.lpis.len();
        let known = self.lpis.iter().any(|other| other.device == device);
        let fits = self.device_bytes <= DEVICE_TABLE * size_of::<u64>();
        if lpi == MOST || known || !fits || u64::from(device) >= self.devices {
            return Err(IrqError::NoInterrupt);
        }
        self.set_byte(lpi, priority & !3 | GROUP_1);
        let number = FIRST + lpi as u32;
        let table = address(&self.memory[DEVICE_TABLES + lpi * DEVICE_TABLE]);
        let named = u64::from(device) << 32;
        // Its messages are numbered by one bit.
        self.command([0x08 | named, 0, VALID | table, 0]);
        self.command([0x0a | named, u64::from(number) << 32 | u64::from(EVENT), 0, 0]);
        self.invalidate(device);
        self.synchronise(0);
        self.carry_out(its, interface)?;
        // There is room, as was seen.
        let _ = self.lpis.push(Lpi { device, to: 0, on: false });
        Ok(number)
    }

    fn route(
        &mut self,
        its: &impl Block,
        interface: &impl Harts,
        numbers: impl Iterator<Item = u32>,
        to: Option<u64>,
    ) -> Result<(), IrqError> {
        let find = |to| self.harts.iter().position(|&(hart, _)| hart == to).ok_or(IrqError::NoHart);
        let to = to.map(find).transpose()?;
        for number in numbers {
            let index = self.index(number)?;
            let Lpi { device, to: before, on } = self.lpis[index];
            if let Some(to) = to.filter(|&to| to != before) {
                // What is pending goes along.
                self.command([0x01 | u64::from(device) << 32, u64::from(EVENT), to as u64, 0]);
                self.lpis[index].to = to;
                self.synchronise(before);
            }
            if on != to.is_some() {
                self.lpis[index].on = !on;
                self.set_byte(index, self.byte(index) ^ ON);
                self.invalidate(device);
            }
            self.synchronise(self.lpis[index].to);
        }
        self.carry_out(its, interface)
    }
}

#[cfg(test)]
mod tests;
