//! The driver against a card that is stepped by hand: frames, rings, interrupts, what goes wrong, and what it is told first.

use super::fake::{FakeGem, Piece};
use super::{Gem, GemError, GemSetup};
use crate::adapter::Adapter as _;
use crate::nic::fake::{HOST_LINE, HostHal, noted};
use crate::nic::{Acknowledge as _, ETHERNET_HEADER, HEADROOM, Lent, LinkMode, Nic as _};
use crate::torus::{self, TorusAdapter};
use std::string::String;
use std::vec;
use std::vec::Vec;

pub type Card = Gem<HostHal, FakeGem>;

/// Where frames begin in buffers, as the torus has it, and most bytes of one.
pub const START: usize = 58;
pub const MOST: usize = 1000;
const SETUP: GemSetup = GemSetup { mtu: None, station: None, coherent: true, memory_end: u64::MAX };

/// A card that goes, without buffers.
pub fn started(bus: FakeGem, setup: GemSetup) -> Card {
    let mut card = Card::new(bus, setup).unwrap();
    card.start([[2, 0x50, 0, 0, 0, 7]; 2], START, MOST);
    card
}

/// A card that goes, with `count` buffers.
pub fn ready(count: usize) -> (Card, FakeGem) {
    let bus = FakeGem::new();
    let mut card = started(bus, SETUP);
    (0..count).for_each(|_| card.lend(buffer()));
    card.flush();
    (card, bus)
}

/// A buffer as a user lends it.
pub fn buffer() -> &'static mut [u8] {
    let memory = vec![0; 1152 + HOST_LINE].leak();
    let skip = memory.as_ptr().align_offset(HOST_LINE);
    &mut memory[skip..skip + 1152]
}

/// Queues a frame whose front is `front`.
pub fn transmit(card: &mut Card, front: &[u8], lent: [&'static [u8]; 2], cookie: u16) -> bool {
    let memory = [&[0; HEADROOM], front].concat().leak();
    // SAFETY: the headroom is there, and all of it lives for ever.
    unsafe { card.transmit(Lent::new(&memory[HEADROOM..]), lent.map(Lent::new), cookie) }
}

fn refused(change: impl FnOnce(&mut super::fake::Device), setup: GemSetup) -> GemError {
    let bus = FakeGem::new();
    change(&mut bus.device());
    Card::new(bus, setup).map(|_| ()).unwrap_err()
}

#[test]
fn r5_a_card_that_cannot_be_used_is_refused() {
    type Change = fn(&mut super::fake::Device);
    let cases: [(Change, GemSetup, GemError); 4] = [
        (|card| card.registers[0xfc / 4] = 0x0001_0119, SETUP, GemError::NotGem { module: 0x0001_0119 }),
        (|card| card.registers[2] = 0, SETUP, GemError::PhyBus),
        (|card| card.phy[1] = 0x7949, SETUP, GemError::NoLink),
        (
            |card| card.registers[0x294 / 4] = 0,
            GemSetup { memory_end: (1 << 32) + 1, ..SETUP },
            GemError::Reach { memory_end: (1 << 32) + 1 },
        ),
    ];
    for (change, setup, error) in cases {
        assert_eq!(refused(change, setup), error);
    }
    let apart = GemSetup { coherent: false, ..SETUP };
    let none = Gem::<HostHal<false>, FakeGem>::new(FakeGem::new(), apart).map(|_| ()).unwrap_err();
    assert_eq!(none, GemError::Incoherent);
}

#[test]
fn b5_the_link_is_the_best_that_both_sides_offer() {
    // Control, status, offered, the peer's, and those of a gigabit.
    let cases = [
        ([0x1140, 0x796d, 0x01e1, 0xcde1, 0x0300, 0x7c00], 1000, true),
        ([0x1140, 0x796d, 0x01e1, 0xcde1, 0x0000, 0x7c00], 100, true),
        ([0x1140, 0x796d, 0x01e1, 0x40a1, 0x0300, 0x0000], 100, false),
        ([0x1140, 0x796d, 0x01e1, 0x0021, 0x0300, 0x0000], 10, false),
        // Nothing was agreed on: as it was told.
        ([0x2100, 0x794d, 0x01e1, 0x0000, 0x0300, 0x0000], 100, true),
        ([0x0140, 0x794d, 0x01e1, 0x0000, 0x0300, 0x0000], 1000, true),
    ];
    for (registers, speed, full_duplex) in cases {
        let bus = FakeGem::new();
        for (register, value) in [0, 1, 4, 5, 9, 10].into_iter().zip(registers) {
            bus.device().phy[register] = value;
        }
        let card = started(bus, SETUP);
        assert_eq!(card.link(), LinkMode { speed, full_duplex }, "{registers:x?}");
        let config = bus.device().registers[1];
        let told = (config >> 10 & 1, config & 1, config >> 1 & 1);
        assert_eq!(told, (u32::from(speed == 1000), u32::from(speed == 100), u32::from(full_duplex)));
    }
}

#[test]
fn r2_a_link_that_goes_down_is_seen_and_one_that_comes_up_again_is_what_was_agreed_on_then() {
    let bus = FakeGem::new();
    let interrupt = started(bus, SETUP).interrupt();
    let mode = || {
        let config = bus.device().registers[1];
        (config >> 10 & 1, config & 1, config >> 1 & 1)
    };
    assert!(interrupt.link_is_up(true));
    let before = bus.device().registers[1];
    // Neither up nor agreed.
    bus.device().phy[1] = 0x7949;
    assert_eq!([interrupt.link_is_up(true), interrupt.link_is_up(false)], [false; 2]);
    assert_eq!(bus.device().registers[1], before);
    // Up again, to a peer that does 100 Mbit/s.
    (bus.device().phy[10], bus.device().phy[1]) = (0, 0x796d);
    assert!(interrupt.link_is_up(true));
    assert_eq!(mode(), (1, 0, 1), "nobody saw it down");
    assert!(interrupt.link_is_up(false));
    assert_eq!(mode(), (0, 1, 1));
    assert_eq!(bus.device().registers[1] & !0x403, before & !0x403);
    // A bus that never rests says nothing.
    bus.device().registers[2] = 0;
    assert!(interrupt.link_is_up(true));
}

#[test]
fn b5_a_cards_address_is_the_trees_else_what_its_boot_loader_left_in_it() {
    let left = |low, high, station| {
        let bus = FakeGem::new();
        (bus.device().registers[0x88 / 4], bus.device().registers[0x8c / 4]) = (low, high);
        started(bus, GemSetup { station, ..SETUP }).station()
    };
    let told = Some([2, 0, 0, 0, 0, 9]);
    assert_eq!(left(0x0035_0a00, 0x2201, None), Some([0, 0x0a, 0x35, 0, 1, 0x22]));
    assert_eq!(left(0x0035_0a00, 0x2201, told), told);
    // What is above its six bytes is no part of it. None, all, and a group's.
    for (low, high) in [(0, 0xffff_0000), (u32::MAX, 0xffff), (0x0035_0a01, 0x2201)] {
        assert_eq!(left(low, high, None), None);
    }
}

#[test]
fn s1_a_card_that_is_to_rest_neither_sends_nor_receives() {
    let bus = FakeGem::new();
    let _card = started(bus, SETUP);
    assert_ne!(bus.device().registers[0], 0);
    super::rest(bus);
    assert_eq!(bus.device().registers[0], 0);
}

#[test]
fn b5_a_transceiver_that_sleeps_is_woken_and_negotiates() {
    let bus = FakeGem::new();
    bus.device().phy[0] = 0x0d40;
    started(bus, SETUP);
    assert_eq!(bus.device().phy[0], 0x1340);
}

#[test]
fn b5_queues_that_nobody_uses_have_a_ring_that_is_empty() {
    let (_card, bus) = ready(4);
    let low = bus.device().registers[0x440 / 4];
    // The ring of the first queue lies in the same 4 GiB.
    let high = u64::from(bus.device().registers[0x4c8 / 4]) << 32;
    let mut device = bus.device();
    let receiving = u64::from(device.registers[0x480 / 4]) | high;
    (device.sending_at, device.receiving_at) = (high | u64::from(low), receiving);
    device.registers[5] |= 1 << 3;
    assert_eq!(device.pieces(), None);
    assert_eq!(device.buffer(), None);
}

#[test]
fn d1_a_frame_leaves_as_it_was_gathered_and_nothing_is_copied() {
    let (mut card, bus) = ready(0);
    let lent: [&'static [u8]; 2] = [vec![2; 300].leak(), vec![3; 77].leak()];
    assert!(transmit(&mut card, &[1; 40], lent, 9));
    assert_eq!(bus.device().send(), None, "not shown yet");
    card.flush();
    let pieces = bus.device().pieces().unwrap();
    let addresses: Vec<_> = pieces.iter().map(|&(address, what)| (address, what & 0x3fff)).collect();
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
    assert!(memory[..START - 2].iter().chain(&memory[START + len..]).all(|&byte| byte == 0));
    assert!(card.receive().is_none());
}

#[test]
fn d1_a_buffer_that_is_too_short_or_not_on_lines_of_its_own_stays_out() {
    let (mut card, bus) = ready(0);
    let lent = buffer();
    card.lend(&mut lent[..64]);
    let apart = GemSetup { coherent: false, ..SETUP };
    card.flush();
    assert!(!bus.device().receive(&[0; 60]));
    let bus = FakeGem::new();
    let mut card = started(bus, apart);
    card.lend(&mut buffer()[64..]);
    card.flush();
    assert!(!bus.device().receive(&[0; 60]));
}

#[test]
fn d1_rings_go_round_and_full_ones_take_no_more() {
    let (mut card, bus) = ready(5);
    let lent: &'static [u8] = vec![7; 50].leak();
    let (mut sent, mut queued) = (0u16, 0u16);
    while queued < if cfg!(miri) { 300 } else { 40000 } {
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
fn d9_a_descriptor_with_a_part_of_a_frame_or_a_length_that_cannot_be_is_counted_and_its_buffer_lent_again() {
    let (mut card, bus) = ready(2);
    for what in [60, 60 | 1 << 14, 60 | 1 << 15, (MOST as u32 + 1) | 3 << 14, 0x1fff | 3 << 14] {
        assert!(bus.device().buffer().is_some());
        bus.device().give(what);
        assert!(card.receive().is_none(), "{what:#x}");
        card.flush();
    }
    assert_eq!((card.counts().descriptors, card.faults()), (5, 5));
    assert!(bus.device().receive(&[1; 60]));
    assert_eq!(card.receive().unwrap().1, 60);
}

#[test]
fn b5_a_card_without_buffers_is_told_when_there_are_some_again() {
    let (mut card, bus) = ready(3);
    let before = bus.device().controlled;
    for _ in 0..3 {
        assert!(bus.device().receive(&[1; 60]));
    }
    assert!(!bus.device().receive(&[2; 60]));
    let (memory, _) = card.receive().unwrap();
    card.lend(memory);
    card.flush();
    assert_eq!(bus.device().controlled, before + 1, "to read its ring on");
    assert_eq!(card.counts().dry, 1);
    // One that has buffers left is told nothing.
    let (memory, _) = card.receive().unwrap();
    card.lend(memory);
    card.flush();
    assert_eq!((bus.device().controlled, card.counts().dry), (before + 1, 1));
    assert!(bus.device().receive(&[3; 60]));
}

/// The card looks for the next buffer before the driver, which lends it, can see that the last one is used up: neither tells the
/// other.
#[test]
fn b5_a_card_that_found_no_buffer_just_before_it_was_lent_one_is_told_to_look_again() {
    for sleeps in [true, false] {
        let (mut card, bus) = ready(2);
        assert!(!card.arm(false));
        assert!(bus.device().receive(&[1; 60]));
        let (memory, _) = card.receive().unwrap();
        card.interrupt().acknowledge();
        let given = bus.device().begin_giving(60 | 3 << 14);
        assert!(bus.device().interrupts(), "whoever sleeps is to look");
        card.lend(memory);
        card.flush();
        bus.device().finish_giving(given);
        let (_, len) = card.receive().unwrap();
        assert_eq!((len, bus.device().receive(&[2; 60])), (60, false));
        if sleeps {
            assert!(!card.arm(false));
        } else {
            (0..256).for_each(|_| card.flush());
        }
        assert!(bus.device().receive(&[3; 60]), "it was lent one");
        assert_eq!(card.receive().map(|(_, len)| len), Some(60));
    }
    // One that has none is left alone: it would say the same again and again.
    let (mut card, bus) = ready(1);
    assert!(bus.device().receive(&[1; 60]));
    card.receive().unwrap();
    let before = bus.device().controlled;
    assert!(!card.arm(false));
    assert_eq!(bus.device().controlled, before);
    assert!(!bus.device().interrupts());
}

#[test]
fn b5_after_a_bus_error_in_receiving_all_buffers_are_given_again_and_frames_before_it_are_not_lost() {
    let (mut card, bus) = ready(8);
    for round in 0..40u8 {
        assert!(bus.device().receive(&[round; 60]));
        assert!(bus.device().receive(&[round + 100; 61]));
        bus.device().break_receiving();
        let first = if round % 2 == 0 { card.receive() } else { None };
        card.arm(false);
        assert!(bus.device().buffer().is_some(), "it goes again");
        let mut came: Vec<_> = first.into_iter().collect();
        came.extend(core::iter::from_fn(|| card.receive()));
        let fronts: Vec<_> = came.iter().map(|(memory, len)| (memory[START], *len)).collect();
        assert_eq!(fronts, [(round, 60), (round + 100, 61)]);
        came.into_iter().for_each(|(memory, _)| card.lend(memory));
        card.flush();
    }
    assert_eq!((card.counts().bus_errors, card.faults()), (40, 40));
    // All eight are there.
    assert_eq!((0..9).filter(|_| bus.device().receive(&[0; 60])).count(), 8);
}

#[test]
fn b5_after_an_error_in_sending_the_frames_come_back_and_the_ring_begins_anew() {
    // Retries exceeded, the bus, an underrun: marks of the descriptor, of the status.
    for (marks, status) in [(1 << 29, 1 << 2), (1 << 27, 1 << 8), (1 << 28, 1 << 6)] {
        let (mut card, bus) = ready(0);
        let lent: [&'static [u8]; 2] = [vec![2; 30].leak(), &[]];
        for cookie in 0..10 {
            assert!(transmit(&mut card, &[cookie as u8; 20], lent, cookie));
        }
        card.flush();
        bus.device().send().unwrap();
        bus.device().fail(marks, status);
        card.arm(false);
        let back: Vec<_> = core::iter::from_fn(|| card.reclaim()).collect();
        assert_eq!(back, (0..10).collect::<Vec<_>>());
        assert_eq!(card.counts().unsent, 10, "and whether the first left, nobody knows any more");
        for cookie in 10..300 {
            assert!(transmit(&mut card, &[cookie as u8; 20], lent, cookie));
            card.flush();
            assert_eq!(bus.device().send().unwrap()[..20], [cookie as u8; 20]);
            assert_eq!(card.reclaim(), Some(cookie));
        }
    }
}

#[test]
fn b5_a_card_that_stopped_just_before_it_was_told_to_go_on_is_told_again() {
    let (mut card, bus) = ready(0);
    assert!(transmit(&mut card, &[1; 20], [&[]; 2], 1));
    card.flush();
    bus.device().registers[5] &= !(1 << 3);
    assert_eq!(bus.device().send(), None);
    assert!(!card.arm(true));
    assert!(bus.device().send().is_some());
}

#[test]
fn d1_interrupts_come_only_when_armed_and_say_what_came_before() {
    for by_reading in [true, false] {
        let bus = FakeGem::new();
        if !by_reading {
            bus.device().registers[0x280 / 4] &= !(1 << 23);
        }
        let mut card = started(bus, SETUP);
        (0..8).for_each(|_| card.lend(buffer()));
        card.flush();
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
    }
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
    let (mut card, _bus) = ready(8);
    let notes = noted(|| {
        transmit(&mut card, &[1; 20], [&[]; 2], 1);
        card.flush();
    });
    assert_eq!(notes, ["barrier", "barrier", "0x0"]);
}

#[test]
fn b4_b5_a_card_that_sees_no_caches_is_shown_memory_and_one_that_does_costs_nothing() {
    for coherent in [true, false] {
        let bus = FakeGem::new();
        let mut card = started(bus, GemSetup { coherent, ..SETUP });
        assert_eq!(card.line(), if coherent { 64 } else { HOST_LINE });
        let memory = buffer();
        let at = memory.as_ptr().addr();
        let lent: &'static [u8] = vec![2; 30].leak();
        let notes = noted(|| {
            card.lend(memory);
            transmit(&mut card, &[1; 20], [lent, &[]], 1);
            card.flush();
            assert!(bus.device().receive(&[4; 200]));
            card.receive().unwrap();
        });
        let maintained: Vec<String> = notes.into_iter().filter(|note| note.contains(' ')).collect();
        if coherent {
            assert!(maintained.is_empty(), "{maintained:?}");
            continue;
        }
        let [lend, front, rest, came] = &maintained[..] else { panic!("{maintained:?}") };
        assert_eq!(*lend, std::format!("invalidate {at:#x} 1152"));
        assert!(front.starts_with("clean ") && front.ends_with(" 20"), "{front}");
        assert_eq!(*rest, std::format!("clean {:#x} 30", lent.as_ptr().addr()));
        assert_eq!(*came, std::format!("invalidate {at:#x} {}", START + 200));
    }
}

/// What the tree says of the two cards.
const STATIONS: [Option<[u8; 6]>; 2] = [Some([0x70, 0xb3, 0xd5, 0x92, 0xf0, 1]), None];

#[test]
fn d1_packets_of_the_torus_go_from_card_to_card() {
    let buses = [FakeGem::new(), FakeGem::new()];
    let [mut here, mut there] = [0, 1].map(|node| {
        let setup = GemSetup { mtu: Some(1500), station: STATIONS[node as usize], ..SETUP };
        let card = Card::new(buses[node as usize], setup).unwrap();
        TorusAdapter::new(card, node).unwrap()
    });
    for (node, bus) in (0..).zip(buses) {
        let registers = bus.device().registers;
        let taken = [0x88, 0x90].map(|at| {
            let [low, high] = [at, at + 4].map(|offset: usize| registers[offset / 4].to_le_bytes());
            [low, high].concat()[..6].to_vec()
        });
        let rank = torus::mac(node);
        let station = STATIONS[node as usize].unwrap_or(rank);
        assert_eq!(taken, [station, rank], "others' frames are the card's to drop");
        assert_eq!(registers[1] >> 5 & 1, 1, "and broadcasts");
    }
    let (header, inline, payload) = ([9; 56], [8; 10], vec![7; 1000].leak());
    // SAFETY: all that is lent is leaked, and the cookie is free.
    assert!(unsafe { here.transmit(1, &header, &inline, [Lent::new(payload), Lent::NONE], 3) });
    here.flush();
    let frame = buses[0].device().send().unwrap();
    assert_eq!((&frame[..6], &frame[6..12]), (&torus::mac(1)[..], &STATIONS[0].unwrap()[..]));
    assert_eq!(here.reclaim().map(|(cookie, _)| cookie), Some(3));
    assert!(buses[1].device().receive(&frame));
    let packet = there.receive().unwrap();
    assert_eq!(packet.packet(), [&header[..], &inline, payload].concat());
    there.recycle(packet);
    there.flush();
}

#[test]
fn b5_a_card_takes_frames_as_long_as_the_mtu_that_it_says_and_no_longer() {
    // What the tree says, what the design holds, and the MTU.
    let told =
        [(None, 10240, 8173), (Some(9000), 10240, 8173), (Some(4000), 10240, 4000), (None, 4096, 4078)];
    let plain = [(Some(1500), 10240, 1500), (Some(600), 10240, 600), (None, 0, 1500)];
    for (setup, design, mtu) in told.into_iter().chain(plain) {
        let bus = FakeGem::new();
        bus.device().registers[0x284 / 4] = design;
        let card = Card::new(bus, GemSetup { mtu: setup, ..SETUP }).unwrap();
        assert_eq!(card.mtu(), mtu, "{setup:?} of {design}");
        let mut torus = TorusAdapter::new(card, 7).unwrap();
        let most = usize::from(mtu) - torus::FRAME_HEADER + ETHERNET_HEADER;
        let packet: Vec<u8> = (0..most).map(|byte| byte as u8).collect();
        let frame = torus::frame(7, 3, torus::ETHERTYPE_RELIABLE, &packet);
        assert!(bus.device().receive(&frame), "{mtu}");
        let came = torus.receive().expect("a frame of the MTU");
        assert_eq!(came.packet(), packet);
        torus.recycle(came);
        torus.flush();
        // Frames of a card that is told nothing of long ones are of at most so many bytes.
        let longer = vec![0; most.max(1500 - torus::FRAME_HEADER + ETHERNET_HEADER) + 1];
        assert!(!bus.device().receive(&torus::frame(7, 3, torus::ETHERTYPE_RELIABLE, &longer)), "{mtu}");
    }
}

/// Pieces that a card was shown, as addresses alone.
pub fn addresses(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().map(|&(address, _)| address).collect()
}
