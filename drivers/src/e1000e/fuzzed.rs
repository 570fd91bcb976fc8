//! Whatever a card writes into its rings and registers: every cookie and every buffer comes back once, and no frame is
//! longer than may be (SPEC D-9).

use super::fake::{DONE, END, FakeE1000e, STATUS, TRANSMIT_RING};
use super::tests::{MOST, addresses, buffer, ready, stand_still, transmit};
use crate::nic::Nic as _;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

/// What an honest card does beside.
fn behave(bus: FakeE1000e, what: u8, len: u32) {
    let mut device = bus.device();
    match what {
        0 => {
            let pieces = device.pieces();
            pieces.iter().for_each(|pieces| device.finish(pieces));
        }
        1 if device.buffer().is_some() => device.give(len % (MOST as u32 + 9), DONE | END),
        _ => {}
    }
}

proptest! {
    #[test]
    fn d9_whatever_a_card_puts_into_its_rings_every_frame_and_buffer_comes_back_once(
        steps in proptest::collection::vec((0u8..9, any::<u32>(), any::<u32>()), 0..if cfg!(miri) { 20 } else { 300 })
    ) {
        let (mut card, bus) = ready(0);
        let (mut out, mut held): (BTreeSet<u16>, Vec<&'static mut [u8]>) = Default::default();
        let mut lent = BTreeSet::new();
        let mut lies = false;
        for (cookie, (what, a, b)) in (0u16..).zip(steps) {
            match what {
                0 if transmit(&mut card, &[1; 20], [&[2; 30], &[]], cookie) => {
                    out.insert(cookie);
                }
                1 => {
                    let memory = if let Some(memory) = held.pop() { memory } else { buffer() };
                    lent.insert(memory.as_ptr().addr());
                    card.lend(memory);
                }
                2 => card.flush(),
                3 => { card.arm(a % 2 == 0); }
                4 if a % 8 == 0 => stand_still(&mut card),
                // Anywhere in its ring, or nowhere.
                4 if a % 8 == 1 && lies => *bus.device().register(TRANSMIT_RING + 0x10) = b,
                4 => *bus.device().register(STATUS) = b,
                // A ring that lies is not one that the fake would find its way in.
                5 if a % 8 == 0 => lies = true,
                6 | 7 if !lies => behave(bus, what - 6, b),
                6 | 7 => {
                    let value = if b % 3 == 0 { b } else { u32::MAX << (b % 32) };
                    bus.device().scribble(what == 6, u64::from(a), value);
                }
                _ => {}
            }
            while let Some(cookie) = card.reclaim() {
                prop_assert!(out.remove(&cookie), "cookie {cookie} was not out");
            }
            while let Some((memory, len)) = card.receive() {
                prop_assert!(len <= MOST);
                prop_assert!(lent.remove(&memory.as_ptr().addr()), "a buffer that was not lent");
                held.push(memory);
            }
        }
        prop_assert!(!card.has_room() || out.len() <= 255);
    }

    #[test]
    fn d1_an_honest_card_is_shown_every_frame_in_order(
        steps in proptest::collection::vec((0u8..5, 0usize..3), 0..if cfg!(miri) { 20 } else { 900 })
    ) {
        let (mut card, bus) = ready(0);
        let (mut queued, mut shown, mut sent, mut back) = (0u16, 0, 0, 0);
        let lent: &'static [u8] = &[2; 30];
        for (what, pieces) in steps {
            match what {
                0 | 1 => {
                    let lent = [0, 1].map(|piece| if piece < pieces { lent } else { &[] });
                    let before = queued;
                    queued += u16::from(transmit(&mut card, &queued.to_le_bytes(), lent, queued));
                    prop_assert!(queued > before || queued - back >= 169);
                }
                2 => {
                    card.flush();
                    shown = queued;
                }
                3 => {
                    let pieces = bus.device().pieces();
                    prop_assert_eq!(pieces.is_some(), sent < shown);
                    let Some(pieces) = pieces else { continue };
                    let others = &addresses(&pieces)[1..];
                    prop_assert!(others.iter().all(|&at| at == lent.as_ptr().expose_provenance() as u64));
                    let frame = bus.device().send().unwrap();
                    prop_assert_eq!(&frame[..2], &u16::to_le_bytes(sent)[..]);
                    sent += 1;
                }
                _ => while let Some(cookie) = card.reclaim() {
                    prop_assert_eq!(cookie, back);
                    back += 1;
                },
            }
        }
        prop_assert!(back <= sent && sent <= shown);
        prop_assert_eq!(card.faults(), 0);
    }
}
