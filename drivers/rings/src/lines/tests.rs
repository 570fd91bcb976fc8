use super::*;
use crate::buffer::Buffer;
use std::collections::VecDeque;
use std::vec::Vec;
use std::{thread, vec};

const COPY_BYTES: usize = 100;

fn make(lines: usize, copies: usize, index: usize) -> (Sender, Receiver) {
    let lines: Vec<Line> = (0..lines).map(|_| Line::new()).collect();
    ring_at(lines.leak(), vec![0; copies * COPY_BYTES].leak(), COPY_BYTES, index).unwrap()
}

fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| at.wrapping_mul(31).wrapping_add(seed) as u8).collect()
}

#[test]
fn p9_every_length_of_header_and_data_arrives_by_copy_or_loan() {
    let (mut sender, mut receiver) = make(2, 1, 0);
    let source = Source::from(&*bytes(1, 200).leak());
    let (headers, step) = if cfg!(miri) { (60, 7) } else { (COPY_BYTES + 1, 1) };
    for header_len in (0..=headers).step_by(step) {
        for data_len in (0..=COPY_BYTES + 1).step_by(step) {
            let (header, data) = (bytes(2, header_len), source.slice(3..3 + data_len).unwrap());
            let tag = [header_len as u32, data_len as u32, 2, u32::MAX];
            let copied = sender.push_bcopy(&tag, &header, data.as_slice());
            assert_eq!(copied.is_ok(), header_len + data_len <= COPY_BYTES);
            let lent = copied.is_err();
            if lent {
                assert_eq!(copied, Err(Refused::TooLong));
                let lent = sender.push_zcopy(&tag, &header, &data);
                assert_eq!(lent, if header_len <= COPY_BYTES { Ok(()) } else { Err(Refused::TooLong) });
                if lent.is_err() {
                    continue;
                }
            }
            let arrival = receiver.pull().unwrap();
            assert_eq!(
                (arrival.tag(), arrival.header(), arrival.data()),
                (tag, &header[..], data.as_slice())
            );
            assert_eq!(lent, arrival.data().as_ptr() == data.as_slice().as_ptr());
            drop(arrival);
            let mut called = false;
            let filled = sender.push_packed(&tag, &header, data_len, |to| {
                called = true;
                to.copy_from_slice(data.as_slice());
            });
            assert_eq!((filled, called), (copied, copied.is_ok()));
            if called {
                let arrival = receiver.pull().unwrap();
                assert_eq!((arrival.header(), arrival.data()), (&header[..], data.as_slice()));
            }
        }
    }
}

#[test]
fn d4_rings_of_any_size_wrap_at_any_index_and_arrivals_may_be_dropped_in_any_order() {
    for (lines, copies) in [(1, 1), (2, 1), (4, 2), (4, 3), (8, 8)] {
        for start in [0, 1, lines - 1, lines, usize::MAX, usize::MAX - lines, usize::MAX - 2 * lines + 1] {
            let (mut sender, mut receiver) = make(lines, copies, start);
            let mut held = VecDeque::new();
            let (mut sent, mut received) = (0u32, 0u32);
            // A walk that depends on nothing but the step: every mixture of push, pull and drop comes up.
            for step in 0..if cfg!(miri) { 60u32 } else { 600 } {
                match step.wrapping_mul(2_654_435_761) >> 30 {
                    0 | 1 => {
                        let data = bytes(sent, if sent.is_multiple_of(3) { 41 } else { 8 });
                        if sender.push_bcopy(&[sent; 4], &[], &data).is_ok() {
                            sent += 1;
                        } else {
                            assert!(sent > received || !held.is_empty());
                        }
                    }
                    2 => match receiver.pull() {
                        Some(arrival) => {
                            assert_eq!(arrival.tag(), [received; 4]);
                            held.push_back((received, arrival));
                            received += 1;
                        }
                        None => assert_eq!(sent, received),
                    },
                    _ => {
                        let kept = if step % 2 == 0 { held.pop_front() } else { held.pop_back() };
                        drop(kept);
                    }
                }
                assert!(sent - received <= lines as u32 && held.len() <= lines);
                for (number, arrival) in &held {
                    let len = if number.is_multiple_of(3) { 41 } else { 8 };
                    assert_eq!(arrival.data(), bytes(*number, len));
                }
            }
            assert!(sent > if cfg!(miri) { 3 } else { 30 });
        }
    }
}

#[test]
fn p9_a_loan_ends_when_the_arrival_is_dropped() {
    let (mut sender, mut receiver) = make(2, 0, 0);
    let lease = Buffer::new(vec![5; 300].leak()).unwrap().lend();
    let source = lease.source();
    sender.push_zcopy(&[0; 4], &[1], &source).unwrap();
    sender.push_zcopy(&[0; 4], &[2], &source).unwrap();
    assert_eq!(sender.push_zcopy(&[0; 4], &[3], &source), Err(Refused::Full));
    drop(source);
    let arrivals = [receiver.pull().unwrap(), receiver.pull().unwrap()];
    assert!(!lease.is_idle() && !sender.is_settled());
    assert_eq!(arrivals.each_ref().map(Arrival::header), [[1], [2]]);
    drop(arrivals);
    assert!(lease.is_idle() && sender.is_settled());
    for number in 0..3 {
        sender.push_bcopy(&[number; 4], &[], &[]).unwrap();
        assert!(sender.is_settled(), "a copy is no loan");
        drop(receiver.pull().unwrap());
    }
    assert_eq!(sender.push_bcopy(&[0; 4], &[], &[0; 41]), Err(Refused::TooLong));
}

#[test]
fn p9_two_threads_exchange_all_forms() {
    let (mut sender, mut receiver) = make(4, 2, usize::MAX - 5);
    let count = if cfg!(miri) { 40 } else { 100_000 };
    let len = |number: u32| [0, 8, 40, 41, 99][number as usize % 5];
    let sending = thread::spawn(move || {
        let lease = Buffer::new(bytes(0, 400).leak()).unwrap().lend();
        for number in 0..count {
            let copy = bytes(number, len(number));
            let source = lease.source().slice(0..len(number)).unwrap();
            loop {
                let pushed = match number % 4 {
                    0 => sender.push_bcopy(&[number; 4], &[], &copy),
                    2 => {
                        sender.push_packed(&[number; 4], &[], copy.len(), |data| data.copy_from_slice(&copy))
                    }
                    _ => sender.push_zcopy(&[number; 4], &[7; 17], &source),
                };
                match pushed {
                    Ok(()) => break,
                    Err(refused) => assert_eq!(refused, Refused::Full),
                }
                thread::yield_now();
            }
        }
        lease
    });
    for number in 0..count {
        let arrival = loop {
            match receiver.pull() {
                Some(arrival) => break arrival,
                None => thread::yield_now(),
            }
        };
        assert_eq!((arrival.tag(), arrival.data().len()), ([number; 4], len(number)));
        if number % 2 == 0 {
            assert_eq!(arrival.data(), bytes(number, len(number)));
        } else {
            assert_eq!(arrival.header(), [7; 17]);
        }
    }
    assert!(sending.join().unwrap().is_idle());
}

#[test]
fn d4_storage_that_makes_no_ring_is_refused() {
    let three = vec![Line::new(), Line::new(), Line::new()];
    assert_eq!(ring(three.leak(), &mut [], 0).err(), Some(BadStorage::Lines));
    assert_eq!(ring(&mut [], &mut [], 0).err(), Some(BadStorage::Lines));
    assert_eq!(ring(vec![Line::new()].leak(), &mut [], 65536).err(), Some(BadStorage::CopyBytes));
}

#[test]
fn p9_a_gate_holds_back_what_is_behind_it_at_any_number_of_lines() {
    for index in [0, 1, (1 << 31) - 1, u32::MAX as usize - 1, usize::MAX - 1] {
        let (mut sender, mut receiver) = make(4, 0, index);
        sender.push_bcopy(&[1; 4], &[], &[]).unwrap();
        sender.gate(5).unwrap();
        sender.gate(6).unwrap();
        sender.push_bcopy(&[2; 4], &[], &[]).unwrap();
        assert_eq!(sender.gate(7), Err(Refused::Full));
        assert_eq!(receiver.gate(), None);
        assert_eq!(receiver.pull().unwrap().tag(), [1; 4]);
        for gate in [5, 6] {
            assert!(receiver.pull().is_none() && !receiver.is_ready());
            assert_eq!(receiver.gate(), Some(gate));
            receiver.pass_gate();
        }
        // Not at a message.
        receiver.pass_gate();
        assert_eq!(receiver.pull().unwrap().tag(), [2; 4]);
        // A lap later nothing of it is left.
        for lap in 0..9 {
            assert!(receiver.gate().is_none() && receiver.pull().is_none());
            sender.push_bcopy(&[lap; 4], &[], &[]).unwrap();
            assert_eq!(receiver.pull().unwrap().tag(), [lap; 4]);
        }
    }
}

#[test]
fn h4_what_a_dead_receiver_has_not_given_back_comes_back_and_what_it_was_giving_back_is_not_counted_twice() {
    let (mut sender, mut receiver) = make(4, 0, 0);
    let leases = [0, 1, 2].map(|seed| {
        let mut buffer = Buffer::new(vec![0; 400].leak()).unwrap();
        buffer.as_mut_slice()[..200].copy_from_slice(&bytes(seed, 200));
        let lease = buffer.lend();
        sender.push_zcopy(&[seed; 4], &[], &lease.source().slice(0..200).unwrap()).unwrap();
        lease
    });
    // It dies over the first, which it was giving back, and holds the second; the third it has not seen.
    let [first, second] = [receiver.pull().unwrap(), receiver.pull().unwrap()];
    let line = sender.storage.line(0);
    line.mark.store(line.mark.load(Ordering::Relaxed) & !0xff | u64::from(RETURNED), Ordering::Relaxed);
    // SAFETY: the line has a source, and nobody else takes it.
    drop(line.payload.with(|payload| unsafe { Source::from_raw((*payload).lent.source) }));
    core::mem::forget((first, second));
    // SAFETY: nobody receives any more.
    unsafe { sender.take_back() };
    for lease in leases {
        assert!(lease.reclaim().is_ok());
    }
}
