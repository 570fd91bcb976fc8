//! A virtio device over PCI whose registers are mere memory.

use super::*;
use crate::pci::tests::{FakeDevice, FakeSpace, bus};
use std::vec::Vec;

/// A device with its parts in BAR 4: kind, offset and bytes each.
fn device(parts: &[(u8, u32, u32)]) -> FakeDevice {
    let mut device = FakeDevice::new(VENDOR, MODERN + 1).with_bar(4, 0x4000, 0xc);
    device.words[1] = 1 << 20;
    device.set_byte(0x34, 0x40);
    for (number, &(kind, offset, bytes)) in parts.iter().enumerate() {
        let at = 0x40 + 20 * number;
        let next = if number + 1 < parts.len() { at as u8 + 20 } else { 0 };
        [PART, next, 20, kind, 4].iter().zip(at..).for_each(|(&byte, at)| device.set_byte(at, byte));
        (device.words[at / 4 + 2], device.words[at / 4 + 3]) = (offset, bytes);
        // Behind that of the doorbells: how far apart two of them are.
        device.words[at / 4 + 4] = 4;
    }
    device
}

const PARTS: [(u8, u32, u32); 4] = [(1, 0, 0x38), (3, 0x1000, 4), (4, 0x2000, 12), (2, 0x3000, 0x1000)];

/// The registers as the device has them. No reference to them is kept: the driver accesses them in between.
#[derive(Clone, Copy)]
struct Registers(*mut u8);

impl Registers {
    const BYTES: usize = 0x4000;

    fn read<const N: usize>(self, at: usize) -> [u8; N] {
        assert!(at + N <= Self::BYTES);
        // SAFETY: the registers are memory of the test's, never freed, and these bytes are in it; test and driver take turns.
        unsafe { self.0.add(at).cast::<[u8; N]>().read() }
    }

    fn write<const N: usize>(self, at: usize, bytes: [u8; N]) {
        assert!(at + N <= Self::BYTES);
        // SAFETY: as above.
        unsafe { self.0.add(at).cast::<[u8; N]>().write(bytes) }
    }
}

fn open(bus: &mut PciBus<FakeSpace>) -> Result<(PciTransport, Registers), VirtioError> {
    let transport = PciTransport::new(bus, 0, true)?;
    let base = transport.common.as_ptr().as_raw_ptr().cast::<u8>();
    Ok((transport, Registers(base.as_ptr())))
}

#[test]
fn d1_a_device_over_pci_is_driven_by_its_parts() {
    let mut bus = bus(std::vec![device(&PARTS)], 1 << 16);
    let (mut transport, registers) = open(&mut bus).unwrap();
    assert_eq!(transport.device_id(), 1);
    registers.write(4, 0x2000_0001u32.to_le_bytes());
    assert!(transport.offered().contains(Features::VERSION_1 | Features::EVENT_IDX));
    transport.accept(Features::VERSION_1);
    assert_eq!((registers.read(8), registers.read(12)), ([1], [1]));
    transport.set_status(Status::ACKNOWLEDGE);
    assert_eq!((registers.read(20), transport.status()), ([1], Status::ACKNOWLEDGE));
    registers.write(0x2000 + 10, [0x38, 0x10]);
    assert_eq!([10, 11, 12].map(|at| transport.config_byte(at)), [0x38, 0x10, 0]);

    registers.write(24, 256u16.to_le_bytes());
    registers.write(30, 3u16.to_le_bytes());
    assert_eq!([0, 1, 2].map(|queue| transport.queue_max(queue)), [256, 256, 0]);
    let addresses = Addresses { descriptors: 0x1_2345_6780, available: 0x2_0000_0010, used: 0x3_0000_0020 };
    transport.set_queue(1, 64, addresses);
    let words: Vec<u32> = (20..56).step_by(4).map(|at| u32::from_le_bytes(registers.read(at))).collect();
    // Queue 1, its size, enabled, then the addresses.
    assert_eq!((words[0] >> 16, words[1] & 0xffff, words[2] & 0xffff), (1, 64, 1));
    assert_eq!(words[3..9], [0x2345_6780, 1, 0x10, 2, 0x20, 3]);
    assert_eq!(transport.queue_max(1), 0, "it is in use");
    transport.notify(1);
    assert_eq!(registers.read(0x300c), [1, 0, 0, 0], "of 16 bits");
    transport.notify(7);
    // Beyond all doorbells.
    registers.write(28, [0]);
    registers.write(30, 0x400u16.to_le_bytes());
    assert_eq!(transport.queue_max(0), 0);
}

#[test]
fn r5_a_device_over_pci_that_breaks_down_is_noticed_by_its_interrupt() {
    let mut bus = bus(std::vec![device(&PARTS)], 1 << 16);
    let (transport, registers) = open(&mut bus).unwrap();
    let interrupt = transport.interrupt();
    let tell = |pending: u8, status: u8| {
        registers.write(0x1000, [pending]);
        registers.write(20, [status]);
    };
    let serve = |pending, status| {
        tell(pending, status);
        interrupt.serve()
    };
    assert_eq!(
        [(1, 15), (2, 15)].map(|(pending, status)| serve(pending, status)),
        [Told::Frames, Told::Changed]
    );
    assert_eq!(serve(1, 15 | 64), Told::Frames);
    assert_eq!([serve(3, 15 | 64), serve(2, 64)], [Told::Broken; 2]);
    // What was told to one that wanted nothing but the line back is not lost, and told once.
    tell(2, 15 | 64);
    interrupt.acknowledge();
    assert_eq!([serve(0, 15 | 64), serve(0, 15 | 64)], [Told::Broken, Told::Frames]);
}

#[test]
fn r2_a_device_over_pci_that_was_agreed_to_tell_of_its_link_is_asked_and_others_are_up() {
    let mut bus = bus(std::vec![device(&PARTS)], 1 << 16);
    let (mut transport, registers) = open(&mut bus).unwrap();
    let mut told = |features: Features| {
        transport.accept(features);
        [0, 1].map(|status| {
            registers.write(0x2000 + 6, [status]);
            transport.interrupt().link_is_up(true)
        })
    };
    assert_eq!(told(Features::VERSION_1 | Features::NET_STATUS), [false, true]);
    assert_eq!(told(Features::VERSION_1), [true, true]);
}

#[test]
fn r5_a_device_over_pci_that_lacks_a_part_is_refused() {
    let refused =
        |parts: &[(u8, u32, u32)]| open(&mut bus(std::vec![device(parts)], 1 << 16)).map(|_| ()).unwrap_err();
    for (kind, at) in [(1, 0), (3, 1), (2, 3)] {
        let mut parts = PARTS;
        // No such part, one beyond the registers, one that is too small.
        parts[at].0 = 5;
        assert_eq!(refused(&parts), VirtioError::NoPart(kind));
        (parts[at].0, parts[at].1) = (kind, 0x4000);
        assert_eq!(refused(&parts), VirtioError::NoPart(kind));
        (parts[at].1, parts[at].2) = (0, 0);
        assert_eq!(refused(&parts), VirtioError::NoPart(kind));
    }
    let other = FakeDevice::new(0x8086, 0x10d3);
    let transport = PciTransport::new(&mut bus(std::vec![other.with_bar(0, 0x1000, 0)], 1 << 16), 0, true);
    assert!(matches!(transport, Err(VirtioError::NoPart(1))));
    assert!(is_network_card((VENDOR, TRANSITIONAL_NETWORK)) && is_network_card((VENDOR, MODERN + 1)));
    assert!(!is_network_card((VENDOR, MODERN + 2)) && !is_network_card((0x8086, MODERN + 1)));
}

/// The same device with two places for messages in the BAR of its parts, which hold them from `table` on.
fn with_messages(table: u32) -> FakeDevice {
    let mut device = device(&PARTS);
    device.set_byte(0x34, 0xa0);
    (device.words[40], device.words[41]) = (1 << 16 | 0x4011, table | 4);
    device.mask[40] = 3 << 30;
    device
}

#[test]
fn b5_a_device_over_pci_that_may_sends_one_message_for_its_queues_and_its_changes() {
    let mut bus = bus(std::vec![with_messages(0x3800)], 1 << 16);
    let (mut transport, registers) = open(&mut bus).unwrap();
    assert!(transport.message().is_some());
    // As after a reset: none of them has a message.
    registers.write(16, [0xff; 2]);
    registers.write(26, [0xff; 2]);
    registers.write(24, 256u16.to_le_bytes());
    transport.accept(Features::VERSION_1 | Features::NET_STATUS);
    assert_eq!((transport.queue_max(0), registers.read(16), registers.read(26)), (256, [0; 2], [0; 2]));
    let interrupt = transport.interrupt();
    let serve = |status: u8, link: u8| {
        // What is pending says nothing, and is not asked for.
        registers.write(0x1000, [3]);
        registers.write(20, [status]);
        registers.write(0x2000 + 6, [link]);
        interrupt.acknowledge();
        interrupt.serve()
    };
    let told =
        [(15, 1), (15, 0), (15, 0), (15, 1), (15, 1), (15 | 64, 1)].map(|(status, link)| serve(status, link));
    use Told::{Broken, Changed, Frames};
    assert_eq!(told, [Frames, Changed, Frames, Changed, Frames, Broken]);
    // By its pin, if its table is not among its registers, or if nobody wants messages.
    let mut others = crate::pci::tests::bus(std::vec![with_messages(0x4000), with_messages(0x3800)], 1 << 16);
    assert!(PciTransport::new(&mut others, 0, true).unwrap().message().is_none());
    assert!(PciTransport::new(&mut others, 1, false).unwrap().message().is_none());
}

#[test]
fn b5_a_device_over_pci_that_has_no_message_for_a_queue_keeps_its_pin_for_both() {
    let open = |gives: fn(VolatilePtr<'_, Common>, u16) -> bool| {
        let mut device = with_messages(0x3800);
        device.mask[1] = 0x407;
        let mut bus = bus(std::vec![device], 1 << 16);
        let mut transport = PciTransport::with(&mut bus, 0, true, gives).unwrap();
        let common = transport.common.as_mut_ptr();
        // As after a reset, with a queue of 256 entries.
        common.queue_msix_vector().write(u16::MAX);
        common.queue_size().write(256);
        let queues = [0, 1].map(|queue| transport.queue_max(queue));
        let vector = transport.common.as_ptr().queue_msix_vector().read();
        let is_told = transport.interrupt.by_message;
        let sends = bus.word(0, 0xa0) >> 31;
        let no_pin = bus.word(0, 4) >> 10 & 1;
        (transport.message().is_some(), is_told, sends, no_pin, vector, queues)
    };
    assert_eq!(open(gives_message), (true, true, 1, 1, VECTOR, [256; 2]));
    let by_pin = (false, false, 0, 0, u16::MAX, [256; 2]);
    assert_eq!(open(|common, queue| queue != 0 && gives_message(common, queue)), by_pin);
    assert_eq!(open(|common, queue| queue != 1 && gives_message(common, queue)), by_pin);
}
