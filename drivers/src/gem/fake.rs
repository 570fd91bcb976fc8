//! A GEM made of registers and the rings that they name, for tests: reads and writes descriptors as the card does, one frame
//! at a time, and fails when it is told to.

use super::registers::Register;
use crate::nic::fake::{load, note, read, store, write};
use crate::registers::{Block as _, Bus};
use std::boxed::Box;
use std::format;
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
const INTERRUPT_RECEIVED: u32 = 1 << 1;
const INTERRUPT_NO_BUFFER: u32 = 1 << 2;
const INTERRUPT_SENT: u32 = 1 << 7;
/// In the configuration: frames may be longer than [`PLAIN_FRAME`], up to what the register at [`JUMBO_LENGTH`] says.
const JUMBO: u32 = 1 << 3;
/// Longest frame otherwise, with its checksum of so many bytes.
const PLAIN_FRAME: usize = 1518;
const CHECKSUM: usize = 4;
/// Offsets of registers of which the fake takes special care.
const CONTROL: usize = 0x00;
const CONFIG: usize = 0x04;
const NETWORK_STATUS: usize = 0x08;
const TRANSMIT_STATUS: usize = 0x14;
const RECEIVE_RING: usize = 0x18;
const TRANSMIT_RING: usize = 0x1c;
const RECEIVE_STATUS: usize = 0x20;
const INTERRUPT_STATUS: usize = 0x24;
const INTERRUPT_ENABLE: usize = 0x28;
const INTERRUPT_DISABLE: usize = 0x2c;
const PHY: usize = 0x34;
const JUMBO_LENGTH: usize = 0x48;
const DESIGN_1: usize = 0x280;

/// A descriptor of a frame to send: address, length and marks.
pub type Piece = (u64, u32);

/// The state of the card.
pub struct Device {
    pub registers: [u32; 0x200],
    /// Registers of the transceiver, and its address.
    pub phy: [u16; 32],
    pub phy_address: u32,
    /// The descriptors that are next.
    pub receiving_at: u64,
    pub sending_at: u64,
    /// It found no buffer, and looks again only when it is told.
    starved: bool,
    /// How often registers were read, and a write to the control register.
    pub reads: u32,
    pub controlled: u32,
}

impl Device {
    fn register(&mut self, offset: usize) -> &mut u32 {
        &mut self.registers[offset / 4]
    }

    fn base(&self, low: usize, high: usize) -> u64 {
        u64::from(self.registers[low / 4] & !3) | u64::from(self.registers[high / 4]) << 32
    }

    fn receive_base(&self) -> u64 {
        self.base(RECEIVE_RING, 0x4d4)
    }

    fn send_base(&self) -> u64 {
        self.base(TRANSMIT_RING, 0x4c8)
    }

    fn raise(&mut self, interrupts: u32) {
        let enabled = *self.register(INTERRUPT_ENABLE);
        *self.register(INTERRUPT_STATUS) |= interrupts & enabled;
    }

    /// Whether its line is up.
    pub fn interrupts(&mut self) -> bool {
        *self.register(INTERRUPT_STATUS) != 0
    }

    /// The pieces of the frame that is next, with what is at the addresses, if the card is to send and has one.
    pub fn pieces(&mut self) -> Option<Vec<Piece>> {
        let enabled = *self.register(CONTROL) & 1 << 3 != 0;
        if !enabled || *self.register(TRANSMIT_STATUS) & 1 << 3 == 0 {
            return None;
        }
        let mut pieces = Vec::new();
        let mut at = self.sending_at;
        loop {
            let what = load(at + 4);
            if what & 1 << 31 != 0 {
                assert!(pieces.is_empty(), "the ring ends within a frame");
                *self.register(TRANSMIT_STATUS) &= !(1 << 3);
                *self.register(TRANSMIT_STATUS) |= 1;
                return None;
            }
            pieces.push((u64::from(load(at)) | u64::from(load(at + 8)) << 32, what));
            at = self.after(at, what & 1 << 30 != 0, self.send_base());
            if what & 1 << 15 != 0 {
                return Some(pieces);
            }
            assert!(pieces.len() < 256, "a frame without an end");
        }
    }

    fn after(&self, at: u64, last: bool, base: u64) -> u64 {
        if last { base } else { at + DESCRIPTOR }
    }

    /// Sends the frame that is next.
    pub fn send(&mut self) -> Option<Vec<u8>> {
        let pieces = self.pieces()?;
        let frame = pieces.iter().flat_map(|&(address, what)| read(address, what & 0x3fff)).collect();
        self.finish(&pieces, 0);
        Some(frame)
    }

    /// Gives the frame of `pieces` back, with these marks beside.
    pub fn finish(&mut self, pieces: &[Piece], marks: u32) {
        let first = self.sending_at;
        store(first + 4, load(first + 4) | 1 << 31 | marks);
        let base = self.send_base();
        for &(_, what) in pieces {
            self.sending_at = self.after(self.sending_at, what & 1 << 30 != 0, base);
        }
        *self.register(TRANSMIT_STATUS) |= 1 << 5;
        self.raise(INTERRUPT_SENT);
    }

    /// Fails to send the frame that is next, and stops: the marks of its descriptor, and those of the status.
    pub fn fail(&mut self, marks: u32, status: u32) {
        let pieces = self.pieces().expect("a frame");
        self.finish(&pieces, marks);
        *self.register(TRANSMIT_STATUS) |= status;
        *self.register(TRANSMIT_STATUS) &= !(1 << 3);
        self.raise(status);
    }

    /// The address of the buffer that is next, if the card has one.
    pub fn buffer(&mut self) -> Option<u64> {
        let at = self.receiving_at;
        let held = self.starved || *self.register(CONTROL) & 1 << 2 == 0 || load(at) & 1 != 0;
        (!held).then(|| u64::from(load(at) & !3) | u64::from(load(at + 8)) << 32)
    }

    /// Writes a frame to the next buffer. False if there is none, or it is longer than what the card was told, and then it is lost.
    pub fn receive(&mut self, frame: &[u8]) -> bool {
        let jumbo = *self.register(CONFIG) & JUMBO != 0;
        let longest = if jumbo { *self.register(JUMBO_LENGTH) as usize } else { PLAIN_FRAME };
        if frame.len() + CHECKSUM > longest {
            return false;
        }
        let Some(buffer) = self.buffer() else {
            *self.register(RECEIVE_STATUS) |= 1;
            return false;
        };
        let offset = u64::from(self.registers[1] >> 14 & 3);
        let room = (self.registers[4] >> 16 & 0xff) as usize * 64;
        assert!(frame.len() <= room, "a frame of {} bytes in {room}", frame.len());
        write(buffer + offset, frame);
        self.give(frame.len() as u32 | 3 << 14);
        true
    }

    /// Gives the next buffer back, with this second word of its descriptor, and looks at the one behind.
    pub fn give(&mut self, what: u32) {
        let given = self.begin_giving(what);
        self.finish_giving(given);
        self.starved = false;
        self.look();
    }

    /// The same, but has looked at the one behind before others see that the buffer was given back, by
    /// [`finish_giving`](Self::finish_giving).
    pub fn begin_giving(&mut self, what: u32) -> u64 {
        let at = self.receiving_at;
        store(at + 4, what);
        self.receiving_at = self.after(at, load(at) & 2 != 0, self.receive_base());
        self.look();
        at
    }

    /// The descriptor at `given` is the driver's.
    pub fn finish_giving(&mut self, given: u64) {
        store(given, load(given) | 1);
        *self.register(RECEIVE_STATUS) |= 2;
        self.raise(INTERRUPT_RECEIVED);
    }

    /// Looks for a buffer.
    fn look(&mut self) {
        self.starved = load(self.receiving_at) & 1 != 0;
        if self.starved {
            *self.register(RECEIVE_STATUS) |= 1;
            self.raise(INTERRUPT_NO_BUFFER);
        }
    }

    /// The bus refuses an access for receiving; the card stops.
    pub fn break_receiving(&mut self) {
        *self.register(RECEIVE_STATUS) |= 1 << 3;
        *self.register(CONTROL) &= !(1 << 2);
        self.raise(1 << 11);
    }

    /// Changes a word of the ring to receive into, or else of the other one.
    pub fn scribble(&mut self, receive: bool, at: u64, value: u32) {
        let base = if receive { self.receive_base() } else { self.send_base() };
        store(base + 4 * (at % 1024), value);
    }

    fn told(&mut self, offset: usize, value: u32) {
        match offset {
            CONTROL => {
                self.controlled += 1;
                if value & 1 << 3 == 0 {
                    self.sending_at = self.send_base();
                }
                if value & 1 << 9 != 0 {
                    *self.register(TRANSMIT_STATUS) |= 1 << 3;
                }
                *self.register(CONTROL) = value & !(1 << 9);
                if value & 1 << 2 != 0 {
                    self.look();
                }
            }
            TRANSMIT_STATUS | RECEIVE_STATUS => *self.register(offset) &= !value,
            // Those that are cleared by reading are not by writing.
            INTERRUPT_STATUS if self.registers[DESIGN_1 / 4] >> 23 & 1 != 0 => {}
            INTERRUPT_STATUS => *self.register(offset) &= !value,
            INTERRUPT_ENABLE => *self.register(offset) |= value,
            INTERRUPT_DISABLE => *self.register(INTERRUPT_ENABLE) &= !value,
            PHY => {
                let (register, here) = (value as usize >> 18 & 31, value >> 23 & 31 == self.phy_address);
                match value >> 28 & 3 {
                    1 if here => self.phy[register] = value as u16,
                    2 => *self.register(PHY) = if here { self.phy[register].into() } else { 0xffff },
                    _ => {}
                }
            }
            _ => {
                *self.register(offset) = value;
                match offset {
                    RECEIVE_RING | 0x4d4 => self.receiving_at = self.receive_base(),
                    TRANSMIT_RING | 0x4c8 => self.sending_at = self.send_base(),
                    _ => {}
                }
            }
        }
    }
}

/// A handle to the card: the driver's way to its registers and the test's way in.
#[derive(Clone, Copy)]
pub struct FakeGem(&'static Mutex<Device>);

impl FakeGem {
    /// A card with two queues, 64-bit addresses and jumbo frames, interrupts that are cleared by reading, and a gigabit link.
    pub fn new() -> Self {
        let mut registers = [0; 0x200];
        for (offset, value) in [
            (NETWORK_STATUS, 1 << 2),
            (0xfc, 0x4007_0106),
            (DESIGN_1, 0x02d0_0111),
            (0x284, 10240),
            (0x294, 1 << 23 | 1 << 1),
        ] {
            registers[offset / 4] = value;
        }
        let mut phy = [0; 32];
        for (register, value) in
            [(0, 0x1140), (1, 0x796d), (2, 0x0141), (4, 0x01e1), (5, 0xcde1), (9, 0x0300), (10, 0x7c00)]
        {
            phy[register] = value;
        }
        Self(Box::leak(Box::new(Mutex::new(Device {
            registers,
            phy,
            phy_address: 23,
            receiving_at: 0,
            sending_at: 0,
            starved: false,
            reads: 0,
            controlled: 0,
        }))))
    }

    pub fn device(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap()
    }
}

impl Bus<Register> for FakeGem {
    fn read(&self, register: Register) -> u32 {
        let mut device = self.device();
        device.reads += 1;
        let value = *device.register(register.offset());
        if register.offset() == INTERRUPT_STATUS && device.registers[DESIGN_1 / 4] >> 23 & 1 != 0 {
            *device.register(INTERRUPT_STATUS) = 0;
        }
        value
    }

    fn write(&self, register: Register, value: u32) {
        note(|| format!("{:#x}", register.offset()));
        self.device().told(register.offset(), value);
    }
}
