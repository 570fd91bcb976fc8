//! The service while it works: the ring of its commands, and the LPIs that it has been told of.

use super::{
    Block, COMMAND, COMMANDS, DEVICE_TABLE, DEVICE_TABLES, EVENT, FIRST, GROUP_1, HARTS, Harts, IrqError,
    LPI_BYTES, MOST, ON, READ, STALLED, VALID, WRITTEN, address, wait,
};
use core::sync::atomic::{AtomicU64, Ordering};
use heapless::Vec;

/// What commands take: the service's registers, and how its memory comes to be seen.
pub(super) struct By<'a, B, H> {
    pub(super) its: &'a B,
    pub(super) harts: &'a H,
}

/// A device's message.
struct Lpi {
    device: u32,
    /// Its collection.
    to: usize,
    on: bool,
}

/// What has been started.
pub(super) struct Working {
    memory: &'static [AtomicU64],
    /// Some of the memory is not seen through the harts' caches.
    apart: bool,
    /// The next command's place, and how many before it are not carried out.
    next: usize,
    queued: usize,
    /// How many devices there can be.
    devices: u64,
    /// By collection: the hart, and what the service calls it.
    harts: Vec<(u64, u64), HARTS>,
    lpis: Vec<Lpi, MOST>,
}

impl Working {
    /// With this memory, some of it maybe not seen through the harts' caches, and so many devices at most; it is told of the harts.
    pub(super) fn new(
        by: &By<impl Block, impl Harts>,
        (memory, apart): (&'static [AtomicU64], bool),
        devices: u64,
        harts: Vec<(u64, u64), HARTS>,
    ) -> Result<Self, IrqError> {
        let mut working = Self { memory, apart, next: 0, queued: 0, devices, harts, lpis: Vec::new() };
        for hart in 0..working.harts.len() {
            let (_, name) = working.harts[hart];
            working.command(by, [0x09, 0, VALID | name | hart as u64, 0])?;
            working.synchronise(by, hart)?;
        }
        working.carry_out(by)?;
        Ok(working)
    }

    /// The place of the LPI of this number.
    pub(super) fn index(&self, number: u32) -> Result<usize, IrqError> {
        let index = number.checked_sub(FIRST).map(|index| index as usize);
        index.filter(|&index| index < self.lpis.len()).ok_or(IrqError::NoInterrupt)
    }

    /// Writes a command behind the others, which are carried out first if there is no place for one more: a ring that is full
    /// would look empty.
    fn command(&mut self, by: &By<impl Block, impl Harts>, words: [u64; COMMAND]) -> Result<(), IrqError> {
        if self.queued == COMMANDS - 1 {
            self.carry_out(by)?;
        }
        let place = &self.memory[self.next * COMMAND..][..COMMAND];
        for (place, word) in place.iter().zip(words) {
            place.store(word.to_le(), Ordering::Relaxed);
        }
        self.bring(by, place);
        self.next = (self.next + 1) % COMMANDS;
        self.queued += 1;
        Ok(())
    }

    /// Brings these words to where they are read.
    fn bring(&self, by: &By<impl Block, impl Harts>, words: &[AtomicU64]) {
        if self.apart {
            by.harts.write_back(words);
        }
    }

    /// What was told so far has come to the collection's hart when this has been carried out.
    fn synchronise(&mut self, by: &By<impl Block, impl Harts>, collection: usize) -> Result<(), IrqError> {
        let (_, name) = self.harts[collection];
        self.command(by, [0x05, 0, name, 0])
    }

    /// The byte of an LPI is read anew.
    fn invalidate(&mut self, by: &By<impl Block, impl Harts>, device: u32) -> Result<(), IrqError> {
        self.command(by, [0x0c | u64::from(device) << 32, u64::from(EVENT), 0, 0])
    }

    /// Has all commands be carried out.
    fn carry_out(&mut self, by: &By<impl Block, impl Harts>) -> Result<(), IrqError> {
        if self.queued == 0 {
            return Ok(());
        }
        let its = by.its;
        by.harts.barrier();
        let written = (self.next * COMMAND * size_of::<u64>()) as u32;
        its.write(WRITTEN, written);
        wait(|| its.read(READ) == written || its.read(READ) & STALLED != 0)?;
        if its.read(READ) != written {
            return Err(IrqError::Stuck);
        }
        self.queued = 0;
        Ok(())
    }

    /// Sets an LPI's byte.
    fn set_byte(&self, by: &By<impl Block, impl Harts>, lpi: usize, byte: u8) {
        let word = &self.memory[LPI_BYTES];
        let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        bytes[lpi] = byte;
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        self.bring(by, core::slice::from_ref(word));
    }

    /// Its byte so far.
    fn byte(&self, lpi: usize) -> u8 {
        self.memory[LPI_BYTES].load(Ordering::Relaxed).to_ne_bytes()[lpi]
    }

    /// Gives a device an LPI of this priority, which is off.
    pub(super) fn add(
        &mut self,
        by: &By<impl Block, impl Harts>,
        device: u32,
        priority: u8,
    ) -> Result<u32, IrqError> {
        let lpi = self.lpis.len();
        let known = self.lpis.iter().any(|other| other.device == device);
        if lpi == MOST || known || u64::from(device) >= self.devices {
            return Err(IrqError::NoInterrupt);
        }
        self.set_byte(by, lpi, priority & !3 | GROUP_1);
        let number = FIRST + lpi as u32;
        let table = address(&self.memory[DEVICE_TABLES + lpi * DEVICE_TABLE]);
        let named = u64::from(device) << 32;
        // Its messages are numbered by one bit.
        self.command(by, [0x08 | named, 0, VALID | table, 0])?;
        self.command(by, [0x0a | named, u64::from(number) << 32 | u64::from(EVENT), 0, 0])?;
        self.invalidate(by, device)?;
        self.synchronise(by, 0)?;
        self.carry_out(by)?;
        // There is room, as was seen.
        let _ = self.lpis.push(Lpi { device, to: 0, on: false });
        Ok(number)
    }

    /// Sends LPIs to a hart or to none.
    pub(super) fn route(
        &mut self,
        by: &By<impl Block, impl Harts>,
        numbers: impl Iterator<Item = u32>,
        to: Option<u64>,
    ) -> Result<(), IrqError> {
        let find = |to| self.harts.iter().position(|&(hart, _)| hart == to).ok_or(IrqError::NoHart);
        let to = to.map(find).transpose()?;
        // All are known before the first command.
        let mut indices: Vec<usize, MOST> = Vec::new();
        for number in numbers {
            let index = self.index(number)?;
            if !indices.contains(&index) {
                indices.push(index).map_err(|_| IrqError::NoInterrupt)?;
            }
        }
        for &index in &indices {
            let Lpi { device, to: before, on } = self.lpis[index];
            let after = to.unwrap_or(before);
            if after != before {
                // What is pending goes along.
                self.command(by, [0x01 | u64::from(device) << 32, u64::from(EVENT), after as u64, 0])?;
                self.synchronise(by, before)?;
            }
            if on != to.is_some() {
                self.set_byte(by, index, self.byte(index) ^ ON);
                self.invalidate(by, device)?;
            }
            if after != before || on != to.is_some() {
                self.synchronise(by, after)?;
            }
        }
        self.carry_out(by)?;
        for index in indices {
            let lpi = &mut self.lpis[index];
            (lpi.to, lpi.on) = (to.unwrap_or(lpi.to), to.is_some());
        }
        Ok(())
    }
}
