//! The driver against a card that is stepped by hand: frames, rings, interrupts, what goes wrong, and what it is told
//! first.

use super::card::STILL_LOOKS;
use super::fake::{CAUSES, DONE, END, FakeE1000e, LINK_UP, Piece, RECEIVE, RECEIVE_RING, TRANSMIT_RING};
use super::{E1000e, E1000eError, find, is_e1000e};
use crate::adapter::Adapter as _;
use crate::nic::fake::{HostHal, noted};
use crate::nic::{Acknowledge as _, HEADROOM, Lent, LinkMode, Nic as _, Told};
use crate::pci::PciError;
use crate::pci::tests::{FakeDevice, bus};
use crate::torus::{self, TorusAdapter};
use std::vec;
use std::vec::Vec;

pub type Card = E1000e<HostHal, FakeE1000e>;

/// Where frames begin in buffers, as the torus has it, and most bytes of one.
pub const START: usize = 58;
pub const MOST: usize = 1000;
pub const OWN: [u8; 6] = [2, 0x50, 0, 0, 0, 7];
const ALSO: [u8; 6] = [2, 0x50, 0, 0, 0, 8];

/// A card that goes, without buffers.
pub fn started(bus: FakeE1000e) -> Card {
    let mut card = Card::new(bus).unwrap();
    card.start([OWN, ALSO], START, MOST);
    card
}

/// A card that goes, with `count` buffers.
pub fn ready(count: usize) -> (Card, FakeE1000e) {
    let bus = FakeE1000e::new();
    let mut card = started(bus);
    (0..count).for_each(|_| card.lend(buffer()));
    card.flush();
    (card, bus)
}

/// A buffer as a user lends it.
pub fn buffer() -> &'static mut [u8] {
    vec![0; 1152].leak()
}

/// Queues a frame whose front is `front`.
pub fn transmit(card: &mut Card, front: &[u8], lent: [&'static [u8]; 2], cookie: u16) -> bool {
    let memory = [&[0; HEADROOM], front].concat().leak();
    // SAFETY: the headroom is there, and all of it lives for ever.
    unsafe { card.transmit(Lent::new(&memory[HEADROOM..]), lent.map(Lent::new), cookie) }
}

/// So many looks at the card that it is reset if it has frames to send and does nothing.
pub fn stand_still(card: &mut Card) {
    for _ in 0..=STILL_LOOKS {
        card.arm(false);
    }
}

/// Pieces that a card was shown, as addresses alone.
pub fn addresses(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().map(|&(address, _)| address).collect()
}

#[test]
fn b5_a_card_is_known_by_vendor_and_kind_and_found_behind_its_first_bar() {
    assert!(is_e1000e((0x8086, 0x10d3)) && is_e1000e((0x8086, 0x10f6)));
    assert!(!is_e1000e((0x8086, 0x100e)) && !is_e1000e((0x1af4, 0x10d3)));
    let device = || FakeDevice::new(0x8086, 0x10d3);
    let found = |device: FakeDevice, window: u32| find(&mut bus(vec![device], window), 0, true).map(|_| ());
    assert_eq!(found(device().with_bar(0, 0x2_0000, 0), 1 << 20), Ok(()));
    assert_eq!(found(device().with_bar(0, 0x1_0000, 0), 1 << 20), Err(E1000eError::NoRegisters));
    assert_eq!(found(device().with_bar(1, 0x2_0000, 0), 1 << 20), Err(E1000eError::NoRegisters));
    let none = E1000eError::Pci(PciError::Addresses { bar: 0 });
    assert_eq!(found(device().with_bar(0, 0x2_0000, 0), 1 << 16), Err(none));
}

#[test]
fn r5_a_card_that_cannot_be_used_is_refused() {
    let refused = |change: fn(&mut super::fake::Device)| {
        let bus = FakeE1000e::new();
        change(&mut bus.device());
        Card::new(bus).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(|card| card.stuck = true), E1000eError::InReset);
    assert_eq!(refused(|card| card.link = 1), E1000eError::NoLink);
}

#[test]
fn b5_the_link_is_what_the_status_says() {
    for (bits, speed) in [(0, 10), (1 << 6, 100), (1 << 7, 1000), (3 << 6, 1000)] {
        for full_duplex in [false, true] {
            let bus = FakeE1000e::new();
            bus.device().link = bits | LINK_UP | u32::from(full_duplex);
            assert_eq!(started(bus).link(), LinkMode { speed, full_duplex });
        }
    }
}

#[test]
fn b5_a_card_is_set_up_whatever_was_left_in_it() {
    let (card, bus) = ready(0);
    let mut device = bus.device();
    let words = |device: &mut super::fake::Device, at: usize, count: usize| -> Vec<u32> {
        (0..count).map(|word| *device.register(at + 4 * word)).collect()
    };
    // Its own addresses alone, which counts, and no group's.
    let mut own = [0; 32];
    for (words, last) in own.chunks_mut(2).zip([7, 8]) {
        words.copy_from_slice(&[u32::from_le_bytes([2, 0x50, 0, 0]), 0x8000_0000 | last << 8]);
    }
    assert_eq!(words(&mut device, 0x5400, 32), own);
    assert_eq!(words(&mut device, 0x5200, 128), [0; 128]);
    // Neither all frames nor damaged ones nor broadcasts; longer ones; buffers of 1024; no checksum in them.
    assert_eq!(*device.register(RECEIVE), 1 << 1 | 1 << 5 | 1 << 16 | 1 << 26);
    // Interrupts come at once, and so do descriptors.
    assert_eq!([0xc4, 0x2820, 0x282c].map(|at| *device.register(at)), [0; 3]);
    assert_eq!([0x2828, 0x3828].map(|at| *device.register(at)), [1 << 24, 1 << 24 | 1 << 22]);
    for ring in [RECEIVE_RING, TRANSMIT_RING] {
        assert!(device.register(ring).is_multiple_of(128));
        assert_eq!(*device.register(ring + 8), 8192);
    }
    assert_eq!((device.resets, card.mtu()), (1, 4096 - 14));
    drop(device);
    // Sizes as the card has them.
    for (most, size) in
        [(100, 3 << 16), (257, 2 << 16), (2048, 0), (2049, 3 << 16 | 1 << 25), (9000, 3 << 16 | 1 << 25)]
    {
        let bus = FakeE1000e::new();
        Card::new(bus).unwrap().start([OWN, ALSO], START, most);
        assert_eq!(*bus.device().register(RECEIVE) & (3 << 16 | 1 << 25), size, "{most}");
    }
}

#[test]
fn d1_a_frame_leaves_as_it_was_gathered_and_nothing_is_copied() {
    let (mut card, bus) = ready(0);
    let lent: [&'static [u8]; 2] = [vec![2; 300].leak(), vec![3; 77].leak()];
    assert!(transmit(&mut card, &[1; 40], lent, 9));
    assert_eq!(bus.device().send(), None, "not shown yet");
    card.flush();
    let pieces = bus.device().pieces().unwrap();
    let addresses: Vec<_> = pieces.iter().map(|&(address, what)| (address, what & 0xffff)).collect();
    assert_eq!(
        addresses[1..],
        lent.map(|lent| (lent.as_ptr().expose_provenance() as u64, lent.len() as u32))
    );
    assert_eq!(card.reclaim(), None);
    assert_eq!(bus.device().send().unwrap(), [vec![1; 40], vec![2; 300], vec![3; 77]].concat());
    assert_eq!((card.reclaim(), card.reclaim()), (Some(9), None));
    assert_eq!(card.faults(), 0);
}

#[test]
fn d1_a_frame_comes_into_the_buffer_that_was_lent_at_the_place_that_was_told() {
    let (mut card, bus) = ready(0);
    let lent = buffer();
    let address = lent.as_ptr().addr();
    card.lend(lent);
    assert!(!bus.device().receive(&[5; 60]), "not shown yet");
    card.flush();
    assert!(card.receive().is_none());
    let frame: Vec<u8> = (0..MOST).map(|byte| byte as u8).collect();
    assert!(bus.device().receive(&frame));
    let (memory, len) = card.receive().unwrap();
    assert_eq!((memory.as_ptr().addr(), len), (address, MOST));
    assert_eq!(memory[START..START + len], frame);
    assert!(memory[..START].iter().chain(&memory[START + len..]).all(|&byte| byte == 0));
    assert!(card.receive().is_none());
}

#[test]
fn d1_a_buffer_that_the_card_could_write_beyond_stays_out_and_so_do_those_beyond_its_number() {
    let (mut card, bus) = ready(0);
    // 58 and 1024 are 1082.
    card.lend(&mut buffer()[..1081]);
    card.flush();
    assert!(!bus.device().receive(&[0; 60]));
    card.lend(&mut buffer()[..1082]);
    card.flush();
    assert!(bus.device().receive(&[0; 60]));
    let (mut card, bus) = ready(300);
    assert_eq!((0..300).filter(|_| bus.device().receive(&[0; 60])).count(), 256);
    assert_eq!(core::iter::from_fn(|| card.receive()).count(), 256);
}

#[test]
fn d1_rings_go_round_and_full_ones_take_no_more() {
    let (mut card, bus) = ready(5);
    let lent: &'static [u8] = vec![7; 50].leak();
    let (mut sent, mut queued) = (0u16, 0u16);
    while queued < if cfg!(miri) { 600 } else { 40000 } {
        let pieces = usize::from(queued % 3);
        let lent = [0, 1].map(|piece| if piece < pieces { lent } else { &[] });
        if transmit(&mut card, &queued.to_le_bytes(), lent, queued) {
            queued += 1;
            continue;
        }
        assert!(!card.has_room());
        card.flush();
        while sent < queued {
            let frame = bus.device().send().unwrap();
            let expected = [&sent.to_le_bytes()[..], &vec![7; 50 * usize::from(sent % 3)]].concat();
            assert_eq!(frame, expected);
            assert_eq!(card.reclaim(), Some(sent));
            // One comes in for each that leaves.
            assert!(bus.device().receive(&frame));
            let (memory, len) = card.receive().unwrap();
            assert_eq!(memory[START..START + len], frame);
            card.lend(memory);
            card.flush();
            sent += 1;
        }
        assert!(card.reclaim().is_none() && card.has_room());
    }
    assert_eq!(card.faults(), 0);
}

#[test]
fn d1_a_card_that_has_buffers_is_told_of_more_by_the_dozen() {
    let (mut card, bus) = ready(100);
    let before = bus.device().tails[0];
    for told in [0, 1] {
        for _ in 0..if told == 0 { 11 } else { 1 } {
            assert!(bus.device().receive(&[1; 60]));
            let (memory, _) = card.receive().unwrap();
            card.lend(memory);
            card.flush();
        }
        assert_eq!(bus.device().tails[0], before + told);
    }
    // One that has few is told of each.
    let (mut card, bus) = ready(3);
    for told in 1..20 {
        assert!(bus.device().receive(&[1; 60]));
        let (memory, _) = card.receive().unwrap();
        card.lend(memory);
        card.flush();
        assert_eq!(bus.device().tails[0], 2 + told, "beside those of the start");
    }
}

#[test]
fn d9_a_part_of_a_frame_a_damaged_one_and_a_length_that_cannot_be_are_counted_and_their_buffers_lent_again() {
    let (mut card, bus) = ready(3);
    let long = MOST as u32 + 1;
    let damages = [0, 1, 2, 4, 7].map(|bit| (60, DONE | END | 1 << (8 + bit)));
    let cases = [(60, DONE), (60, DONE), (60, DONE | END), (long, DONE | END), (0xffff, DONE | END)];
    for (length, marks) in cases.into_iter().chain(damages) {
        assert!(bus.device().buffer().is_some());
        bus.device().give(length, marks);
        assert!(card.receive().is_none(), "{length} {marks:#x}");
        card.flush();
    }
    assert_eq!((card.counts().descriptors, card.faults()), (10, 10));
    // Checksums of what is in a frame are none of the card's business.
    bus.device().give(60, DONE | END | 3 << 13);
    assert_eq!(card.receive().unwrap().1, 60);
    // A frame longer than a buffer takes two, and neither is a frame.
    assert!(bus.device().receive(&vec![1; 1500]));
    assert!(card.receive().is_none());
    card.flush();
    assert!(bus.device().receive(&[1; 60]));
    assert_eq!(card.receive().unwrap().1, 60);
}

#[test]
fn b5_frames_that_the_card_dropped_are_counted() {
    let (mut card, bus) = ready(1);
    card.arm(false);
    assert!(bus.device().receive(&[1; 60]));
    assert!(!bus.device().receive(&[2; 60]) && !bus.device().receive(&[2; 60]));
    assert!(bus.device().interrupts());
    let (memory, _) = card.receive().unwrap();
    card.lend(memory);
    card.flush();
    assert!(!card.arm(false) && !bus.device().interrupts());
    assert_eq!((card.counts().overruns, card.faults()), (2, 0), "others than the card may be to blame");
    assert!(bus.device().receive(&[3; 60]));
}

#[test]
fn b5_a_card_that_stands_still_is_reset_and_goes_again_with_all_buffers() {
    let (mut card, bus) = ready(8);
    let lent: [&'static [u8]; 2] = [vec![2; 30].leak(), &[]];
    let mut cookie = 0;
    for round in 1..=40u8 {
        for _ in 0..10 {
            assert!(transmit(&mut card, &[cookie as u8; 20], lent, cookie));
            cookie += 1;
        }
        card.flush();
        bus.device().send().unwrap();
        assert!(bus.device().receive(&[round; 60]));
        card.arm(true);
        assert_eq!(card.reclaim(), Some(cookie - 10));
        stand_still(&mut card);
        assert_eq!((bus.device().resets, card.counts().halts), (1 + u32::from(round), round.into()));
        let back: Vec<_> = core::iter::from_fn(|| card.reclaim()).collect();
        assert_eq!(back, (cookie - 9..cookie).collect::<Vec<_>>());
        assert_eq!(
            card.counts().unsent,
            9 * u64::from(round),
            "and whether they left, nobody knows any more"
        );
        // What had come in is lost with it; its buffer is not.
        assert!(card.receive().is_none());
        assert_eq!((0..9).filter(|_| bus.device().receive(&[0; 60])).count(), 8);
        core::iter::from_fn(|| card.receive()).for_each(drop);
        (0..8).for_each(|_| card.lend(buffer()));
        card.flush();
        assert!(transmit(&mut card, &[9; 20], lent, cookie));
        card.flush();
        assert_eq!(bus.device().send().unwrap()[..20], [9; 20]);
        assert_eq!(card.reclaim(), Some(cookie));
        cookie += 1;
        // It interrupts as before.
        bus.device().receive(&[1; 60]);
        assert!(bus.device().interrupts());
        let (memory, _) = card.receive().unwrap();
        card.lend(memory);
        card.flush();
    }
}

#[test]
fn b5_a_card_that_sends_or_has_no_link_or_nothing_to_send_does_not_stand_still() {
    let (mut card, bus) = ready(0);
    stand_still(&mut card);
    for cookie in 0..3 {
        assert!(transmit(&mut card, &[1; 20], [&[]; 2], cookie));
    }
    card.flush();
    // A frame now and then.
    for _ in 0..2 {
        (0..STILL_LOOKS - 1).for_each(|_| _ = card.arm(false));
        assert!(bus.device().send().is_some());
        card.reclaim().unwrap();
        card.arm(false);
    }
    bus.device().link = 0;
    stand_still(&mut card);
    stand_still(&mut card);
    assert_eq!(bus.device().resets, 1);
    bus.device().link = LINK_UP | 1 << 6;
    card.arm(false);
    assert_eq!(card.link(), LinkMode { speed: 100, full_duplex: false });
    assert!(bus.device().send().is_some());
    assert_eq!((card.reclaim(), card.faults()), (Some(2), 0));
}

#[test]
fn d1_interrupts_come_only_when_armed_and_say_what_came_before() {
    let (mut card, bus) = ready(8);
    let interrupt = card.interrupt();
    bus.device().receive(&[1; 60]);
    assert!(!bus.device().interrupts(), "nobody asked");
    assert!(card.arm(false), "it came before");
    card.receive().unwrap();
    assert!(!card.arm(false));
    assert!(transmit(&mut card, &[1; 20], [&[]; 2], 1));
    card.flush();
    bus.device().send().unwrap();
    assert!(!bus.device().interrupts(), "sent, which nobody asked for");
    assert!(card.arm(true), "it was sent before");
    assert_eq!(*bus.device().register(CAUSES), 0, "also what did not interrupt");
    card.reclaim().unwrap();
    assert!(!card.arm(true));
    for what in 0..2 {
        if what == 0 {
            bus.device().receive(&[2; 60]);
        } else {
            transmit(&mut card, &[1; 20], [&[]; 2], 1);
            card.flush();
            bus.device().send().unwrap();
        }
        assert!(bus.device().interrupts());
        interrupt.acknowledge();
        assert!(!bus.device().interrupts());
    }
    // What interrupts while it is polled is cleared when it is armed again.
    bus.device().receive(&[3; 60]);
    core::iter::from_fn(|| card.receive()).count();
    card.reclaim();
    assert!(!card.arm(false) && !bus.device().interrupts());
    // A link that goes or comes is told once, also if it was told to one that wanted nothing but the line back.
    for first in [true, false] {
        *bus.device().register(CAUSES) |= 1 << 2;
        assert!(bus.device().interrupts());
        if first {
            assert_eq!(interrupt.serve(), Told::Changed);
        } else {
            interrupt.acknowledge();
            assert_eq!(interrupt.serve(), Told::Changed);
        }
        assert!(!bus.device().interrupts());
        assert_eq!(interrupt.serve(), Told::Frames);
    }
    assert!(interrupt.link_is_up(true));
    bus.device().link &= !LINK_UP;
    assert!(!interrupt.link_is_up(true));
}

#[test]
fn r5_a_card_that_is_gone_from_its_bus_is_noticed_by_its_interrupt_and_asked_for_nothing() {
    let (mut card, bus) = ready(8);
    assert!(transmit(&mut card, &[1; 20], [&[]; 2], 1));
    card.flush();
    (*bus.device().register(CAUSES), bus.device().link) = (u32::MAX, u32::MAX);
    assert_eq!(card.interrupt().serve(), Told::Broken);
    stand_still(&mut card);
    assert_eq!(bus.device().resets, 1);
}

#[test]
fn d1_polled_a_card_is_not_asked() {
    let (mut card, bus) = ready(8);
    let before = bus.device().reads;
    for round in 0..100u8 {
        assert!(card.receive().is_none() && card.reclaim().is_none());
        bus.device().receive(&[round; 60]);
        let (memory, _) = card.receive().unwrap();
        card.lend(memory);
        transmit(&mut card, &[round; 20], [&[]; 2], 1);
        card.flush();
        bus.device().send().unwrap();
        card.reclaim().unwrap();
    }
    assert_eq!(bus.device().reads, before);
}

#[test]
fn b5_what_the_card_reads_is_in_memory_before_it_is_shown() {
    let (mut card, _bus) = ready(1);
    let notes = noted(|| {
        card.lend(buffer());
        transmit(&mut card, &[1; 20], [&[]; 2], 1);
        card.flush();
    });
    assert_eq!(notes, ["barrier", "0x3818", "0x2818"]);
}

#[test]
fn d1_packets_of_the_torus_go_from_card_to_card() {
    let buses = [FakeE1000e::new(), FakeE1000e::new()];
    let station = [0, 0x1b, 0x21, 1, 2, 3];
    buses[0].device().station = station;
    let [mut here, mut there] =
        [0, 1].map(|node| TorusAdapter::new(Card::new(buses[node as usize]).unwrap(), node).unwrap());
    for ((node, bus), station) in (0..).zip(buses).zip([station, torus::mac(1)]) {
        let mut device = bus.device();
        let taken = [0x5400, 0x5408].map(|at| {
            let [low, high] = [at, at + 4].map(|offset| device.register(offset).to_le_bytes());
            [low, high].concat()[..6].to_vec()
        });
        assert_eq!(taken, [station, torus::mac(node)], "others' frames are the card's to drop");
    }
    assert_eq!(here.mtu(), 4096 - 14 - 8 - 32);
    let (header, inline, payload) = ([9; 56], [8; 10], vec![7; 4000].leak());
    // SAFETY: all that is lent is leaked, and the cookie is free.
    assert!(unsafe { here.transmit(1, &header, &inline, [Lent::new(payload), Lent::NONE], 3) });
    here.flush();
    let frame = buses[0].device().send().unwrap();
    assert_eq!((&frame[..6], &frame[6..12]), (&torus::mac(1)[..], &station[..]));
    assert_eq!(here.reclaim().map(|(cookie, _)| cookie), Some(3));
    assert!(buses[1].device().receive(&frame));
    let packet = there.receive().unwrap();
    assert_eq!(packet.packet(), [&header[..], &inline, payload].concat());
    there.recycle(packet);
    there.flush();
}
