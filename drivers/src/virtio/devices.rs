//! Devices that do not behave, and the order in which one that does is told things (SPEC R-5).

use super::fake::{FakeCard, HostHal, noted};
use super::mmio;
use super::{Acknowledge as _, Features, Told, Transport as _, VirtioError, VirtioNet};
use crate::adapter::{Adapter as _, MOST_BULK};
use crate::link::LINK_BYTES;
use crate::torus::TorusAdapter;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

type Nic = VirtioNet<HostHal, FakeCard>;

fn adapter(card: FakeCard) -> TorusAdapter<Nic> {
    TorusAdapter::new(Nic::new(card).unwrap(), 0).unwrap()
}

fn refused(change: impl FnOnce(&mut super::fake::Card)) -> VirtioError {
    let card = FakeCard::new(1024);
    change(&mut card.card());
    Nic::new(card).map(|_| ()).unwrap_err()
}

#[test]
fn r5_a_device_that_never_leaves_its_reset_is_refused() {
    let stuck = |card: &mut super::fake::Card| (card.stuck, card.status) = (true, 7);
    assert_eq!(refused(stuck), VirtioError::InReset);
}

#[test]
fn r5_a_device_whose_configuration_never_holds_still_is_refused() {
    assert_eq!(refused(|card| card.unsteady = true), VirtioError::Unsteady);
}

#[test]
fn r5_a_device_that_wants_a_reset_is_refused() {
    for at in [8, 4] {
        assert_eq!(refused(|card| card.breaks_at = at), VirtioError::NeedsReset, "at status {at}");
    }
}

#[test]
fn r5_rings_are_in_memory_before_the_device_may_look_at_them() {
    let notes = noted(|| drop(adapter(FakeCard::new(1024))));
    let go = |note: &String| *note == "status 15";
    for told in ["queue 0", "queue 1", "status 15"] {
        let at = notes.iter().position(|note| note == told).unwrap_or_else(|| panic!("no {told}: {notes:?}"));
        assert_eq!(notes[at - 1], "barrier", "before {told}: {notes:?}");
    }
    assert!(notes.iter().any(go));
}

#[test]
fn r5_no_device_says_how_much_memory_the_driver_takes() {
    assert_eq!(adapter(FakeCard::new(u16::MAX)).mtu(), MOST_BULK + LINK_BYTES);
    let buffer = FakeCard::new(u16::MAX);
    let _adapter = adapter(buffer.clone());
    let (_, chain) = buffer.card().queues[0].as_mut().unwrap().take().unwrap();
    assert!(chain[0].1 as usize <= MOST_BULK + 2 * 64, "a receive buffer of {} bytes", chain[0].1);
}

/// Registers of a virtio-mmio device that is mere memory: words by offset.
fn registers() -> &'static [AtomicU32; 128] {
    let words: &'static [AtomicU32; 128] = Box::leak(Box::new([const { AtomicU32::new(0) }; 128]));
    for (offset, value) in [(0, 0x7472_6976), (4, 2), (8, 1)] {
        words[offset / 4].store(value, Relaxed);
    }
    words
}

#[test]
fn r5_a_device_that_breaks_down_is_noticed_by_its_interrupt() {
    const INTERRUPT_STATUS: usize = 0x60 / 4;
    const INTERRUPT_ACK: usize = 0x64 / 4;
    const STATUS: usize = 0x70 / 4;
    let words = registers();
    // SAFETY: as large as a register block, aligned, and never freed; nothing else uses it but by atomics.
    let device = unsafe { mmio::MmioTransport::new(NonNull::from(words).cast()) }.unwrap();
    let interrupt = device.interrupt();
    // (what it interrupts for, its status, what it tells)
    let broken = Told::Broken;
    let cases = [(1, 15, Told::Frames), (2, 15, Told::Changed), (3, 15 | 64, broken), (2, 15 | 64, broken)];
    let seen: Vec<Told> = cases
        .map(|(pending, status, _)| {
            words[INTERRUPT_STATUS].store(pending, Relaxed);
            words[STATUS].store(status, Relaxed);
            let told = interrupt.serve();
            assert_eq!(words[INTERRUPT_ACK].load(Relaxed), pending);
            told
        })
        .into();
    assert_eq!(seen, cases.map(|(_, _, told)| told));
    // Who only wants the line back leaves the news to whoever serves the device.
    interrupt.acknowledge();
    assert_eq!(words[INTERRUPT_ACK].load(Relaxed), 1);
}

#[test]
fn r2_a_device_that_was_agreed_to_tell_of_its_link_is_asked_and_others_are_up() {
    // Bytes 4 to 7 of the configuration: the status is the upper two.
    const STATUS: usize = 0x104 / 4;
    let words = registers();
    let told = |features: Features| {
        // SAFETY: as above.
        let mut device = unsafe { mmio::MmioTransport::new(NonNull::from(words).cast()) }.unwrap();
        device.accept(features);
        [0, 1 << 16].map(|status| {
            words[STATUS].store(status, Relaxed);
            device.interrupt().link_is_up(true)
        })
    };
    assert_eq!(told(Features::VERSION_1 | Features::NET_STATUS), [false, true]);
    assert_eq!(told(Features::VERSION_1), [true, true]);
}
