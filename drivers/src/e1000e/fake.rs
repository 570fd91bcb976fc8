//! An 82574L made of registers and the rings that they name, for tests: reads and writes descriptors as the data sheet
//! says that the card does, one frame at a time, and fails when it is told to.

use super::registers::IntelRegister;
use crate::nic::fake::{load, note, read, store, write};
use crate::registers::{Block as _, Bus};
use std::boxed::Box;
use std::format;
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// Offsets of registers of which the fake takes special care, and bits of them.
pub const CONTROL: usize = 0x0000;
pub const STATUS: usize = 0x0008;
const EEPROM: usize = 0x0010;
const MORE_CONTROL: usize = 0x0018;
pub const CAUSES: usize = 0x00c0;
const ENABLE: usize = 0x00d0;
const DISABLE: usize = 0x00d8;
const VECTORS: usize = 0x00e4;
pub const RECEIVE: usize = 0x0100;
const TRANSMIT: usize = 0x0400;
pub const RECEIVE_RING: usize = 0x2800;
pub const TRANSMIT_RING: usize = 0x3800;
pub const MISSED: usize = 0x4010;
pub const RESET: u32 = 1 << 26;
pub const LINK_UP: u32 = 1 << 1;
const MASTER: u32 = 1 << 19;
const RECEIVED: u32 = 1 << 7;
const SENT: u32 = 1 << 0;
const OVERRUN: u32 = 1 << 6;
pub const LINK: u32 = 1 << 2;
/// What messages tell: what is received, what was sent, other causes; with how far its message and the bit that makes it count lie
/// in the register of vectors.
const TOLD_BY_MESSAGE: [(u32, u32, u32); 3] =
    [(1 << 20, RECEIVED, 0), (1 << 22, SENT, 8), (1 << 24, OVERRUN | LINK, 16)];
/// In a descriptor's words: done, end of the frame; last of the frame, the card makes its checksum, it is to tell.
pub const DONE: u32 = 1 << 0;
pub const END: u32 = 1 << 1;
const LAST: u32 = 1 << 24;
const CHECKSUM: u32 = 1 << 25;
const TELL: u32 = 1 << 27;

/// A descriptor of a frame to send: address, length and marks.
pub type Piece = (u64, u32);

/// The state of the card.
pub struct Device {
    registers: Vec<u32>,
    /// The link, as its status has it.
    pub link: u32,
    /// The address that it has after a reset; none of zeros.
    pub station: [u8; 6],
    /// It never comes out of a reset.
    pub stuck: bool,
    /// How often registers were read, and a tail of either ring was written.
    pub reads: u32,
    pub tails: [u32; 2],
    pub resets: u32,
    /// Messages that it sent, each the number of one; and causes that were told and not cleared since.
    pub messages: Vec<u32>,
    told_causes: u32,
}

impl Device {
    pub fn register(&mut self, offset: usize) -> &mut u32 {
        &mut self.registers[offset / 4]
    }

    fn base(&mut self, ring: usize) -> u64 {
        u64::from(*self.register(ring)) | u64::from(*self.register(ring + 4)) << 32
    }

    /// The descriptor that is next, if it is the card's.
    fn next(&mut self, ring: usize) -> Option<u64> {
        let (head, tail) = (*self.register(ring + 0x10), *self.register(ring + 0x18));
        let base = self.base(ring);
        (head != tail).then(|| base + u64::from(head) * DESCRIPTOR)
    }

    fn advance(&mut self, ring: usize) {
        let count = *self.register(ring + 8) / DESCRIPTOR as u32;
        let head = self.register(ring + 0x10);
        *head = (*head + 1) % count;
    }

    /// Bytes of a buffer, as the data sheet counts them.
    fn room(&mut self) -> usize {
        let control = *self.register(RECEIVE);
        match (control >> 16 & 3, control >> 25 & 1) {
            (size, 0) => 2048 >> size,
            (0, _) => panic!("a reserved size of buffers"),
            (size, _) => 32768 >> size,
        }
    }

    pub fn raise(&mut self, causes: u32) {
        *self.register(CAUSES) |= causes;
        if *self.register(MORE_CONTROL) >> 31 != 0 {
            self.send_messages(causes);
        }
    }

    /// Sends a message for each of the causes that is enabled, and was not told since it was last cleared.
    fn send_messages(&mut self, causes: u32) {
        for (cause, of, shift) in TOLD_BY_MESSAGE {
            if causes & of == 0 {
                continue;
            }
            *self.register(CAUSES) |= cause;
            let vector = *self.register(VECTORS) >> shift & 15;
            let is_told = self.told_causes & cause != 0 || *self.register(ENABLE) & cause == 0;
            if !is_told && vector & 8 != 0 {
                self.told_causes |= cause;
                self.messages.push(vector & 7);
            }
        }
    }

    /// Whether it interrupts.
    pub fn interrupts(&mut self) -> bool {
        *self.register(CAUSES) & *self.register(ENABLE) != 0
    }

    /// The pieces of the frame that is next, with what is at the addresses, if the card is to send and has one.
    pub fn pieces(&mut self) -> Option<Vec<Piece>> {
        if *self.register(TRANSMIT) & 1 << 1 == 0 {
            return None;
        }
        let head = *self.register(TRANSMIT_RING + 0x10);
        let mut pieces = Vec::new();
        while let Some(at) = self.next(TRANSMIT_RING) {
            let what = load(at + 8);
            assert!(what & CHECKSUM != 0, "a frame without a checksum");
            pieces.push((u64::from(load(at)) | u64::from(load(at + 4)) << 32, what));
            self.advance(TRANSMIT_RING);
            if what & LAST != 0 {
                *self.register(TRANSMIT_RING + 0x10) = head;
                return Some(pieces);
            }
        }
        assert!(pieces.is_empty(), "the ring ends within a frame");
        None
    }

    /// Sends the frame that is next.
    pub fn send(&mut self) -> Option<Vec<u8>> {
        let pieces = self.pieces()?;
        let frame = pieces.iter().flat_map(|&(address, what)| read(address, what & 0xffff)).collect();
        self.finish(&pieces);
        Some(frame)
    }

    /// Gives the frame of `pieces` back.
    pub fn finish(&mut self, pieces: &[Piece]) {
        for &(_, what) in pieces {
            if what & TELL != 0 {
                let at = self.next(TRANSMIT_RING).expect("a descriptor of its own");
                store(at + 12, load(at + 12) | DONE);
                self.raise(SENT);
            }
            self.advance(TRANSMIT_RING);
        }
    }

    /// The address of the buffer that is next, if the card has one and is to receive.
    pub fn buffer(&mut self) -> Option<u64> {
        let enabled = *self.register(RECEIVE) & 1 << 1 != 0;
        let at = self.next(RECEIVE_RING).filter(|_| enabled)?;
        Some(u64::from(load(at)) | u64::from(load(at + 4)) << 32)
    }

    /// Writes a frame to the next buffers. False if there are none, and then it is lost.
    pub fn receive(&mut self, frame: &[u8]) -> bool {
        let room = self.room();
        for (at, part) in frame.chunks(room).enumerate() {
            let Some(buffer) = self.buffer() else {
                *self.register(MISSED) += 1;
                self.raise(OVERRUN);
                return false;
            };
            write(buffer, part);
            let end = if (at + 1) * room >= frame.len() { END } else { 0 };
            self.give(part.len() as u32, DONE | end);
        }
        true
    }

    /// Gives the next buffer back, with these last words of its descriptor.
    pub fn give(&mut self, length: u32, marks: u32) {
        let at = self.next(RECEIVE_RING).expect("a buffer");
        store(at + 8, length);
        store(at + 12, marks);
        self.advance(RECEIVE_RING);
        self.raise(RECEIVED);
    }

    /// Changes a word of the ring to receive into, or else of the other one.
    pub fn scribble(&mut self, receive: bool, at: u64, value: u32) {
        let base = self.base(if receive { RECEIVE_RING } else { TRANSMIT_RING });
        store(base + 4 * (at % 2048), value);
    }

    fn told(&mut self, offset: usize, value: u32) {
        match offset {
            CONTROL => {
                *self.register(CONTROL) = value;
                if value & RESET != 0 {
                    assert!(value & 1 << 2 != 0, "it may be in the middle of an access");
                    self.resets += 1;
                    let multicast = self.registers[0x5200 / 4..0x5400 / 4].to_vec();
                    self.registers.fill(0);
                    self.told_causes = 0;
                    // Is not reset.
                    self.registers[0x5200 / 4..0x5400 / 4].copy_from_slice(&multicast);
                    *self.register(EEPROM) = 1 << 9;
                    let [a, b, c, d, e, f] = self.station;
                    *self.register(0x5400) = u32::from_le_bytes([a, b, c, d]);
                    *self.register(0x5404) = u32::from_le_bytes([e, f, 0, 0x80]);
                    *self.register(CONTROL) = if self.stuck { RESET } else { 0 };
                }
            }
            CAUSES => {
                *self.register(CAUSES) &= !value;
                self.told_causes &= !value;
            }
            ENABLE => *self.register(ENABLE) |= value,
            DISABLE => *self.register(ENABLE) &= !value,
            STATUS | EEPROM | MISSED => {}
            _ => {
                *self.register(offset) = value;
                for (way, ring) in [RECEIVE_RING, TRANSMIT_RING].into_iter().enumerate() {
                    self.tails[way] += u32::from(offset == ring + 0x18);
                    let goes = *self.register([RECEIVE, TRANSMIT][way]) & 1 << 1 != 0;
                    assert!(
                        !goes || ![ring, ring + 4, ring + 8, ring + 0x10].contains(&offset),
                        "it is at it"
                    );
                }
            }
        }
    }

    fn asked(&mut self, offset: usize) -> u32 {
        self.reads += 1;
        let value = *self.register(offset);
        match offset {
            STATUS => self.link | if *self.register(CONTROL) & 1 << 2 == 0 { MASTER } else { 0 },
            CAUSES => {
                if self.interrupts() || *self.register(ENABLE) == 0 {
                    *self.register(CAUSES) = 0;
                }
                value
            }
            MISSED => core::mem::take(self.register(MISSED)),
            _ => value,
        }
    }
}

/// A handle to the card: the driver's way to its registers and the test's way in.
#[derive(Clone, Copy)]
pub struct FakeE1000e(&'static Mutex<Device>);

impl FakeE1000e {
    /// A card with a gigabit link, whose registers hold what somebody left there.
    pub fn new() -> Self {
        let mut registers = std::vec![0x5a5a_5a5a; 0x6000 / 4];
        (registers[CONTROL / 4], registers[MISSED / 4]) = (0, 0);
        Self(Box::leak(Box::new(Mutex::new(Device {
            registers,
            link: 1 << 7 | LINK_UP | 1,
            station: [0; 6],
            stuck: false,
            reads: 0,
            tails: [0; 2],
            resets: 0,
            messages: Vec::new(),
            told_causes: 0,
        }))))
    }

    pub fn device(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap()
    }
}

impl Bus<IntelRegister> for FakeE1000e {
    fn read(&self, register: IntelRegister) -> u32 {
        self.device().asked(register.offset())
    }

    fn write(&self, register: IntelRegister, value: u32) {
        note(|| format!("{:#x}", register.offset()));
        self.device().told(register.offset(), value);
    }
}
