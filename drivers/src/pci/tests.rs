//! Functions whose configuration is memory that keeps some bits as they are.

use super::*;
use std::boxed::Box;
use std::vec::Vec;

/// A device: its configuration, and which bits of it can be written.
#[derive(Clone)]
pub(crate) struct FakeDevice {
    pub words: [u32; 64],
    pub mask: [u32; 64],
}

impl FakeDevice {
    pub(crate) fn new(vendor: u16, kind: u16) -> Self {
        let (mut words, mut mask) = ([0; 64], [0; 64]);
        words[0] = u32::from(kind) << 16 | u32::from(vendor);
        mask[1] = 0x7;
        words[15] = 1 << 8;
        Self { words, mask }
    }

    /// Memory behind BAR `bar`; `low` are the bits that tell its kind.
    pub(crate) fn with_bar(mut self, bar: usize, bytes: u32, low: u32) -> Self {
        self.words[4 + bar] = low;
        self.mask[4 + bar] = bytes.wrapping_neg() & !15;
        if low & 6 == 4 {
            self.mask[4 + bar + 1] = u32::MAX;
        }
        self
    }

    pub(crate) fn set_byte(&mut self, at: usize, byte: u8) {
        let shift = 8 * (at % 4);
        self.words[at / 4] = self.words[at / 4] & !(0xff << shift) | u32::from(byte) << shift;
    }
}

/// The devices of a bus.
pub(crate) struct FakeSpace(pub Vec<FakeDevice>);

impl Space for FakeSpace {
    fn read(&self, device: u8, offset: u8) -> u32 {
        self.0.get(usize::from(device)).map_or(u32::MAX, |device| device.words[usize::from(offset) / 4])
    }

    fn write(&mut self, device: u8, offset: u8, word: u32) {
        let Some(device) = self.0.get_mut(usize::from(device)) else { return };
        let (at, mask) = (usize::from(offset) / 4, device.mask[usize::from(offset) / 4]);
        device.words[at] = device.words[at] & !mask | word & mask;
    }
}

/// A bus with registers of memory, zeros, behind its window.
pub(crate) fn bus(devices: Vec<FakeDevice>, window: u32) -> PciBus<FakeSpace> {
    let memory: &'static mut [u64] = Box::leak(std::vec![0u64; window as usize / 8].into_boxed_slice());
    let window = Aperture { base: NonNull::from(memory).cast(), on_bus: 0x1000_0000, bytes: window };
    PciBus::new(FakeSpace(devices), window)
}

#[test]
fn b5_functions_are_found_and_get_addresses_of_their_own() {
    let devices = std::vec![
        FakeDevice::new(0x1b36, 8),
        // 32 bits, ports, 64 bits that are prefetched.
        FakeDevice::new(0x1af4, 0x1041).with_bar(0, 0x20, 1).with_bar(1, 0x1000, 0).with_bar(4, 0x4000, 0xc),
        FakeDevice::new(0x8086, 0x10d3).with_bar(0, 0x2_0000, 0),
    ];
    let mut bus = bus(devices, 1 << 20);
    let ids: Vec<_> = (0..DEVICES).filter_map(|device| bus.id(device)).collect();
    assert_eq!(ids, [(0x1b36, 8), (0x1af4, 0x1041), (0x8086, 0x10d3)]);
    assert_eq!(bus.enable(0).unwrap().map(|bar| bar.is_some()), [false; 6]);
    let first = bus.enable(1).unwrap();
    assert_eq!(first.map(|bar| bar.map_or(0, |bar| bar.bytes)), [0, 0x1000, 0, 0, 0x4000, 0]);
    let second = bus.enable(2).unwrap();
    let at = |bar: Option<Registers>| bar.unwrap().base.as_ptr() as usize - bus.window.base.as_ptr() as usize;
    assert_eq!([at(first[1]), at(first[4]), at(second[0])], [0, 0x4000, 0x2_0000]);
    let told = |device: usize, bar: usize| bus.space.0[device].words[4 + bar];
    assert_eq!([told(1, 1), told(1, 4), told(1, 5), told(2, 0)], [0x1000_0000, 0x1000_400c, 0, 0x1002_0000]);
    // Memory and bus master; ports are off.
    assert_eq!([1, 2].map(|device| bus.space.0[device].words[1]), [6, 6]);
    assert_eq!(bus.pin(1), Some(1));
}

#[test]
fn r5_what_has_no_place_is_refused_and_stays_off() {
    let device = || FakeDevice::new(1, 2);
    let refused = |device: FakeDevice| {
        let mut bus = bus(std::vec![device], 1 << 16);
        let error = bus.enable(0).unwrap_err();
        assert_eq!(bus.space.0[0].words[1] & 6, 0);
        error
    };
    assert_eq!(refused(device().with_bar(2, 1 << 17, 0)), PciError::Addresses { bar: 2 });
    assert_eq!(
        refused(device().with_bar(0, 1 << 15, 0).with_bar(1, 1 << 16, 0)),
        PciError::Addresses { bar: 1 }
    );
    // Of a kind that there is not; 64 bits without a second half; 4 GiB.
    assert_eq!(refused(device().with_bar(0, 0x1000, 2)), PciError::Addresses { bar: 0 });
    assert_eq!(refused(device().with_bar(5, 0x1000, 4)), PciError::Addresses { bar: 5 });
    assert_eq!(refused(device().with_bar(0, 0, 4)), PciError::Addresses { bar: 0 });
    let mut bridge = device();
    bridge.set_byte(0xe, 0x81);
    assert_eq!(refused(bridge), PciError::Bridge);
}

#[test]
fn s1_a_function_that_is_to_rest_masters_the_bus_no_more() {
    let mut bus = bus(std::vec![FakeDevice::new(1, 2).with_bar(0, 0x1000, 0)], 1 << 16);
    bus.enable(0).unwrap();
    assert_eq!(bus.word(0, offset::COMMAND) & 0xffff, MEMORY | MASTER);
    bus.disable(0);
    assert_eq!(bus.word(0, offset::COMMAND) & 0xffff, MEMORY);
}

#[test]
fn r5_capabilities_that_go_in_circles_come_to_an_end() {
    let mut device = FakeDevice::new(1, 2);
    device.words[1] = HAS_CAPABILITIES;
    for (at, byte) in
        [(0x34, 0x40), (0x40, 9), (0x41, 0x50), (0x50, 5), (0x51, 0x63), (0x60, 9), (0x61, 0x40)]
    {
        device.set_byte(at, byte);
    }
    let circle = bus(std::vec![device.clone()], 1 << 16);
    let found: Vec<_> = circle.capabilities(0, 9).take(100).collect();
    assert_eq!((&found[..3], found.len()), (&[0x40, 0x60, 0x40][..], 32));
    // Into the header, and none at all.
    device.set_byte(0x61, 0x3c);
    let ends = bus(std::vec![device.clone()], 1 << 16);
    assert_eq!(ends.capabilities(0, 9).collect::<Vec<_>>(), [0x40, 0x60]);
    device.words[1] = 0;
    assert_eq!(bus(std::vec![device], 1 << 16).capabilities(0, 9).count(), 0);
}

#[test]
fn r5_registers_end_where_they_end() {
    let registers = Registers { base: NonNull::dangling(), bytes: 0x100 };
    assert!(registers.part(0xf0, 16, 4).is_some() && registers.part(0xf1, 16, 1).is_none());
    assert!(registers.part(2, 4, 4).is_none() && registers.part(u32::MAX, 1, 1).is_none());
}

#[test]
fn b5_a_function_sends_messages_by_the_first_place_of_its_table_and_no_more_by_its_pin() {
    let with_table = |offset: u32| {
        let mut device = FakeDevice::new(1, 2).with_bar(0, 0x1000, 0).with_bar(2, 0x1000, 4);
        (device.words[1], device.mask[1]) = (HAS_CAPABILITIES, 0x407);
        device.set_byte(0x34, 0x40);
        // Three places, in BAR 2.
        (device.words[16], device.words[17]) = (2 << 16 | 0x11, offset | 2);
        device.mask[16] = SENDS | ALL_MASKED;
        device
    };
    let mut bus = bus(std::vec![with_table(0x800), with_table(0xfe0), FakeDevice::new(1, 2)], 1 << 16);
    let bars = [0, 1, 2].map(|device| bus.enable(device).unwrap());
    let table: NonNull<u32> = bars[0][2].unwrap().part(0x800, 48, 8).unwrap().cast();
    let words = || {
        // SAFETY: inside of the window's memory, which only this and the entry access, in turn.
        [0, 1, 2, 3, 7, 11].map(|word| unsafe { table.as_ptr().add(word).read_volatile() })
    };
    let entry = bus.send_messages(0, &bars[0]).unwrap();
    assert_eq!(words(), [0, 0, 0, 1, 1, 1]);
    assert_eq!((bus.word(0, 0x40), bus.word(0, 4) & 0xffff), (SENDS | 2 << 16 | 0x11, 0x406));
    entry.set(Some((0x12_3456_7890, 9)));
    assert_eq!(words(), [0x3456_7890, 0x12, 9, 0, 1, 1]);
    entry.set(None);
    assert_eq!(words(), [0x3456_7890, 0x12, 9, 1, 1, 1]);
    // What was said before the place was known, and after.
    let mailbox = Mailbox::new();
    let message = |data| Some(Message { address: 0x4000_0040, data });
    mailbox.aim(message(1));
    mailbox.aim(message(2));
    assert_eq!(words(), [0x3456_7890, 0x12, 9, 1, 1, 1]);
    mailbox.open(entry);
    assert_eq!(words(), [0x4000_0040, 0, 2, 0, 1, 1]);
    mailbox.aim(message(3));
    assert_eq!(words(), [0x4000_0040, 0, 3, 0, 1, 1]);
    mailbox.aim(None);
    assert_eq!(words(), [0x4000_0040, 0, 3, 1, 1, 1]);
    // A table that ends beyond its registers, and none at all.
    for device in [1, 2] {
        let before = bus.word(device, 4);
        assert!(bus.send_messages(device, &bars[usize::from(device)]).is_none());
        assert_eq!((bus.word(device, 0x40) & SENDS, bus.word(device, 4)), (0, before), "it has its pin");
    }
}
