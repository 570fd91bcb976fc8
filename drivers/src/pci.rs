//! Functions on a bus of PCI: found in its configuration space, given addresses, let at memory (SPEC B-5).
//!
//! No firmware did any of that before. Looked at is function 0 of each device of one bus; what lies behind bridges is not.
//! By hand, as `pci_types` panics at a register of addresses of a kind that is not known.

use crate::irq::{Message, Sender};
use core::fmt;
use core::ptr::NonNull;
use spin::Mutex;

/// Devices of a bus.
pub const DEVICES: u8 = 32;
/// Bytes of the configuration space of a bus: so many for each device, of which function 0 has the first 4096.
pub const BUS_BYTES: usize = DEVICES as usize * DEVICE_BYTES;
const DEVICE_BYTES: usize = 8 << 12;
/// Registers of addresses that a function has.
const BARS: usize = 6;
/// Capability of messages in the place of pins (MSI-X), and bytes of an entry of their table.
const MESSAGES: u8 = 0x11;
const ENTRY_BYTES: u32 = 16;
/// With that: the function sends, and sends none.
const SENDS: u32 = 1 << 31;
const ALL_MASKED: u32 = 1 << 30;
/// Words of an entry: address, its upper half, what is stored, whether it is kept back.
const ADDRESS: usize = 0;
const DATA: usize = 2;
const MASKED: usize = 3;
/// Most capabilities of a function: as many as there is room for.
const CAPABILITIES: usize = 48;

/// In the configuration space of a function.
mod offset {
    pub const ID: u8 = 0;
    pub const COMMAND: u8 = 4;
    pub const HEADER: u8 = 0xc;
    pub const BARS: u8 = 0x10;
    pub const CAPABILITIES: u8 = 0x34;
    pub const PIN: u8 = 0x3c;
}

/// In the command: answers to addresses of memory.
const MEMORY: u32 = 1 << 1;
/// In the command: reads and writes memory itself.
const MASTER: u32 = 1 << 2;
/// In the command: does not interrupt by its pin.
const NO_PIN: u32 = 1 << 10;
/// In the status, which is the command's upper half, and clears what is written as 1.
const HAS_CAPABILITIES: u32 = 1 << 20;

/// The configuration space of the first function of each device of a bus, word by word.
pub trait Space {
    /// The word at `offset`, a multiple of 4, of device `device`, less than [`DEVICES`].
    fn read(&self, device: u8, offset: u8) -> u32;
    /// Writes it.
    fn write(&mut self, device: u8, offset: u8, word: u32);
}

/// A configuration space that lies in memory.
pub struct Ecam {
    base: NonNull<u8>,
}

impl Ecam {
    /// That of the bus whose configuration begins at `base`.
    ///
    /// # Safety
    /// [`BUS_BYTES`] of such a space lie there, mapped as device memory for ever, and nothing else uses it.
    pub unsafe fn new(base: NonNull<u8>) -> Self {
        Self { base }
    }

    fn word(&self, device: u8, offset: u8) -> *mut u32 {
        let at = usize::from(device % DEVICES) * DEVICE_BYTES + usize::from(offset & !3);
        self.base.as_ptr().wrapping_add(at).cast()
    }
}

impl Space for Ecam {
    fn read(&self, device: u8, offset: u8) -> u32 {
        // SAFETY: inside the space, aligned, and `new` was promised that it stays.
        unsafe { self.word(device, offset).read_volatile() }
    }

    fn write(&mut self, device: u8, offset: u8, word: u32) {
        // SAFETY: as above; `&mut self` is the only one to write.
        unsafe { self.word(device, offset).write_volatile(word) }
    }
}

/// Addresses that functions may be given.
#[derive(Clone, Copy, Debug)]
pub struct Aperture {
    /// Where harts see the first.
    pub base: NonNull<u8>,
    /// What functions call it.
    pub on_bus: u32,
    /// How many.
    pub bytes: u32,
}

/// Why a function cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PciError {
    /// It wants more addresses than are left, or of a kind that is not known.
    Addresses {
        /// Which of its registers of addresses.
        bar: u8,
    },
    /// It is a bridge.
    Bridge,
}

impl fmt::Display for PciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Addresses { bar } => write!(f, "there are no addresses for its BAR {bar}"),
            Self::Bridge => f.write_str("it is a bridge"),
        }
    }
}

impl core::error::Error for PciError {}

/// Registers of a function, as harts see them.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// The first byte.
    pub base: NonNull<u8>,
    /// How many bytes.
    pub bytes: u32,
}

impl Registers {
    /// The `bytes` from `offset` on, aligned to `align`, if they lie in there.
    pub fn part(&self, offset: u32, bytes: u32, align: u32) -> Option<NonNull<u8>> {
        let inside = offset.checked_add(bytes)? <= self.bytes && offset.is_multiple_of(align);
        inside.then(|| NonNull::new(self.base.as_ptr().wrapping_add(offset as usize)))?
    }
}

/// The first entry of a function's table of messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageEntry {
    words: NonNull<u32>,
}

// SAFETY: it is the only way to this entry, whose words are stored and loaded one by one; their order is the caller's.
unsafe impl Send for MessageEntry {}
// SAFETY: as above.
unsafe impl Sync for MessageEntry {}

impl MessageEntry {
    /// Has the function store these 32 bits at that address from now on, or keep what it has to tell until it may. On return, whatever
    /// it sent before has arrived. One hart at a time does so.
    pub fn set(&self, message: Option<(u64, u32)>) {
        self.write(MASKED, 1);
        // What comes back from the function comes behind what it sent.
        // SAFETY: as in `write`.
        unsafe { self.words.as_ptr().wrapping_add(MASKED).read_volatile() };
        let Some((address, data)) = message else { return };
        self.write(ADDRESS, address as u32);
        self.write(ADDRESS + 1, (address >> 32) as u32);
        self.write(DATA, data);
        self.write(MASKED, 0);
    }

    fn write(&self, word: usize, value: u32) {
        // SAFETY: `PciBus::send_messages` found the entry among the function's registers, which stay.
        unsafe { self.words.as_ptr().wrapping_add(word).write_volatile(value) }
    }
}

/// What a function is to send, also while it is not known yet whether it has a place for that.
pub struct Mailbox(Mutex<(Option<MessageEntry>, Option<Message>)>);

impl Mailbox {
    /// That of a function that has no place so far.
    pub const fn new() -> Self {
        Self(Mutex::new((None, None)))
    }

    /// The function's place is `entry`: it gets what was said already, and all that is said from now on.
    pub fn open(&self, entry: MessageEntry) {
        let mut state = self.0.lock();
        state.0 = Some(entry);
        Self::tell(*state);
    }

    fn tell((entry, message): (Option<MessageEntry>, Option<Message>)) {
        if let Some(entry) = entry {
            entry.set(message.map(|message| (message.address, message.data)));
        }
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sender for Mailbox {
    fn aim(&self, message: Option<Message>) {
        let mut state = self.0.lock();
        state.1 = message;
        Self::tell(*state);
    }
}

/// A bus.
pub struct PciBus<S> {
    space: S,
    window: Aperture,
    /// Bytes of the window that are given away.
    given: u32,
}

// SAFETY: the window's pointer is only handed on; whoever gets a part of it is the only one that does.
unsafe impl<S: Send> Send for PciBus<S> {}

impl<S: Space> PciBus<S> {
    /// The bus with this configuration space, whose functions get addresses of `window`. None has any yet.
    pub fn new(space: S, window: Aperture) -> Self {
        Self { space, window, given: 0 }
    }

    /// Vendor and kind of a device, if there is one.
    pub fn id(&self, device: u8) -> Option<(u16, u16)> {
        let id = self.space.read(device, offset::ID);
        (id != u32::MAX && id != 0).then_some((id as u16, (id >> 16) as u16))
    }

    /// The interrupt that a device has, 1 to 4.
    pub fn pin(&self, device: u8) -> Option<u8> {
        let pin = (self.space.read(device, offset::PIN) >> 8) as u8;
        (1..=4).contains(&pin).then_some(pin)
    }

    /// A byte of a device's configuration.
    pub fn byte(&self, device: u8, offset: u8) -> u8 {
        self.space.read(device, offset & !3).to_le_bytes()[usize::from(offset & 3)]
    }

    /// The word of a device's configuration at `offset`, a multiple of 4.
    pub fn word(&self, device: u8, offset: u8) -> u32 {
        self.space.read(device, offset)
    }

    /// Where the capabilities of this kind begin, each with two bytes of its kind and its successor.
    pub fn capabilities(&self, device: u8, kind: u8) -> impl Iterator<Item = u8> + '_ {
        let has = self.space.read(device, offset::COMMAND) & HAS_CAPABILITIES != 0;
        let first = if has { self.byte(device, offset::CAPABILITIES) } else { 0 };
        let real = |at: u8| Some(at & !3).filter(|&at| at >= 0x40);
        let all = core::iter::successors(real(first), move |&at| real(self.byte(device, at + 1)));
        all.take(CAPABILITIES).filter(move |&at| self.byte(device, at) == kind)
    }

    /// Gives a device addresses, and lets it at memory. Returns its registers by the number of the BAR that they are behind;
    /// those of ports are left out.
    ///
    /// # Errors
    /// [`PciError`]; then it has no addresses.
    pub fn enable(&mut self, device: u8) -> Result<[Option<Registers>; BARS], PciError> {
        if self.byte(device, offset::HEADER + 2) & 0x7f != 0 {
            return Err(PciError::Bridge);
        }
        // Its registers answer to no address while they get one. The status' upper half is not to be cleared.
        let command = self.space.read(device, offset::COMMAND) & 0xffff & !(MEMORY | MASTER);
        self.space.write(device, offset::COMMAND, command);
        let mut all = [None; BARS];
        let mut bar = 0;
        while bar < BARS {
            let (registers, taken) = self.place(device, bar).ok_or(PciError::Addresses { bar: bar as u8 })?;
            all[bar] = registers;
            bar += taken;
        }
        self.space.write(device, offset::COMMAND, command | MEMORY | MASTER);
        Ok(all)
    }

    /// Has a device not reach memory any more, nor send messages.
    pub fn disable(&mut self, device: u8) {
        let command = self.space.read(device, offset::COMMAND) & 0xffff & !MASTER;
        self.space.write(device, offset::COMMAND, command);
    }

    /// Has a device whose registers are behind `bars`, as [`enable`](Self::enable) returned them, interrupt by messages, all of them
    /// kept back so far. Returns the place of the first. `None`, and it keeps its pin, if it cannot.
    pub fn send_messages(&mut self, device: u8, bars: &[Option<Registers>]) -> Option<MessageEntry> {
        let at = self.capabilities(device, MESSAGES).next()?;
        let control = self.word(device, at);
        let entries = (control >> 16 & 0x7ff) + 1;
        let place = self.word(device, at.checked_add(4)?);
        let registers = (*bars.get(place as usize & 7)?)?;
        let table = registers.part(place & !7, entries * ENTRY_BYTES, 8)?;
        self.space.write(device, at, control | SENDS | ALL_MASKED);
        let entry = |entry| MessageEntry {
            words: table.map_addr(|base| base.saturating_add((entry * ENTRY_BYTES) as usize)).cast(),
        };
        (0..entries).for_each(|number| entry(number).set(None));
        let command = self.space.read(device, offset::COMMAND) & 0xffff;
        self.space.write(device, offset::COMMAND, command | NO_PIN);
        self.space.write(device, at, (control | SENDS) & !ALL_MASKED);
        Some(entry(0))
    }

    /// Has a device that was to [send messages](Self::send_messages) interrupt by its pin again.
    pub fn send_none(&mut self, device: u8) {
        let table = self.capabilities(device, MESSAGES).next();
        if let Some(at) = table {
            let control = self.word(device, at);
            self.space.write(device, at, control & !SENDS);
        }
        let command = self.space.read(device, offset::COMMAND) & 0xffff;
        self.space.write(device, offset::COMMAND, command & !NO_PIN);
    }

    /// Finds addresses for what is behind a BAR, and how many BARs that takes. `None` if there are none.
    fn place(&mut self, device: u8, bar: usize) -> Option<(Option<Registers>, usize)> {
        let at = offset::BARS + 4 * bar as u8;
        self.space.write(device, at, u32::MAX);
        let told = self.space.read(device, at);
        self.space.write(device, at, 0);
        let is_port = told & 1 != 0;
        if told == 0 || is_port {
            return Some((None, 1));
        }
        let wide = match told >> 1 & 3 {
            0 => false,
            2 if bar + 1 < BARS => true,
            _ => return None,
        };
        // A size is a power of two; one of 4 GiB or more leaves nothing.
        let bytes = (told & !15).wrapping_neg();
        if !bytes.is_power_of_two() {
            return None;
        }
        let on_bus = self.window.on_bus.checked_add(self.given)?.checked_next_multiple_of(bytes)?;
        let start = on_bus - self.window.on_bus;
        let end = start.checked_add(bytes).filter(|&end| end <= self.window.bytes)?;
        self.given = end;
        self.space.write(device, at, on_bus);
        if wide {
            self.space.write(device, at + 4, 0);
        }
        let base = NonNull::new(self.window.base.as_ptr().wrapping_add(start as usize))?;
        Some((Some(Registers { base, bytes }), 1 + usize::from(wide)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
