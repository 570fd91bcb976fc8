//! Harts that are threads and really sleep: nobody may sleep through what is for him (SPEC N-8). Too much for an
//! interpreter.
#![cfg(not(miri))]

use super::*;
use crate::platform::Platform;
use core::sync::atomic::{AtomicBool, Ordering};
use pami::device::{Receiving, RemoteMemory, Sending, Sleeping};
use zerocopy::IntoBytes;

const ROUNDS: u32 = 2_000;

/// Waits, as a context does, until `port` has an arrival; polls `polls` times before it sleeps.
fn receive<P: Port>(port: &mut P, polls: u32) -> P::Arrival {
    loop {
        for _ in 0..polls {
            port.progress();
            if let Some(arrival) = port.pull() {
                return arrival;
            }
        }
        port.arm();
        port.progress();
        let arrival = port.pull();
        if arrival.is_none() {
            port.sleep(None);
        }
        port.disarm();
        if let Some(arrival) = arrival {
            return arrival;
        }
    }
}

/// Pushes until there is room, sleeping in between.
fn push<P: Port>(port: &mut P, path: Path, envelope: &Envelope, data: &[u8]) {
    while port.push_bcopy(path, envelope, &[], data).is_err() {
        port.arm();
        port.progress();
        let pushed = port.push_bcopy(path, envelope, &[], data).is_ok();
        if !pushed {
            port.sleep(None);
        }
        port.disarm();
        if pushed {
            break;
        }
    }
    port.progress();
}

/// `ROUNDS` times to and fro between two endpoints, each side a hart.
fn ping_pong<const TEST: usize>(
    units: [&'static Unit<TEST>; 2],
    harts: [usize; 2],
    ends: [Endpoint; 2],
    local: bool,
) {
    std::thread::scope(|scope| {
        for side in 0..2 {
            scope.spawn(move || {
                Host::<TEST>::be(harts[side]);
                let (me, peer) = (ends[side], ends[1 - side]);
                let mut port = units[side].open(ClientId(0), 0, me.context().0, Sharing::Exclusive).unwrap();
                let path = port.locate(peer, local).unwrap();
                for round in 0..ROUNDS {
                    let data = pattern(round, round as usize % MTU);
                    if side == 0 {
                        push(&mut port, path, &envelope(me, peer, round), &data);
                    }
                    let arrival = receive(&mut port, round % 3);
                    assert_eq!((arrival.envelope().message, arrival.data()), (round, &data[..]));
                    port.release(arrival);
                    if side == 1 {
                        push(&mut port, path, &envelope(me, peer, round), &data);
                    }
                }
                // The last packet must leave even if its sender does not come back.
                units[side].drain();
            });
        }
    });
}

#[test]
fn n8_a_packet_from_another_node_ends_the_sleep() {
    let net = Net::new(2);
    let units = units::<11>(&net, 2, 1, None);
    ping_pong([units[0], units[1]], [0, 8], [endpoint(0, 0), endpoint(1, 1)], true);
}

#[test]
fn n8_a_packet_from_another_hart_ends_the_sleep() {
    let net = Net::new(1);
    let unit = units::<12>(&net, 1, 1, None)[0];
    ping_pong([unit; 2], [0, 1], [endpoint(0, 0), endpoint(0, 1)], true);
}

#[test]
fn n8_a_looped_packet_that_another_hart_takes_in_ends_the_sleep() {
    let net = Net::new(1);
    let unit = units::<13>(&net, 1, 1, None)[0];
    ping_pong([unit; 2], [0, 1], [endpoint(0, 0), endpoint(0, 1)], false);
}

#[test]
fn d7_an_agent_core_runs_the_engine_for_ports_that_do_not() {
    let net = Net::new(2);
    // Node 0's agent is hart 7, node 1's is hart 15.
    let map = TaskMap::new(2, 1, MapOrder::NodesFirst).unwrap();
    let units: Vec<&'static Unit<14>> = [7, 15]
        .into_iter()
        .map(|agent| {
            let node = agent as u32 / 8;
            let adapter = Some(FakeAdapter::new(&net, node as usize, MTU));
            let setup = Setup { agent: Some(agent), ..setup(adapter, node, map) };
            let unit = MessageUnit::start(setup).unwrap();
            unit.note_go();
            // Lives as long as the test's process.
            std::thread::spawn(move || {
                Host::<14>::be(agent);
                unit.run_agent();
            });
            unit
        })
        .collect();
    ping_pong([units[0], units[1]], [0, 8], [endpoint(0, 0), endpoint(1, 0)], true);
}

#[test]
fn p11_a_sender_that_sleeps_for_room_goes_on() {
    let net = Net::new(2);
    let units = units::<15>(&net, 2, 1, None);
    let (from, to) = (endpoint(0, 0), endpoint(1, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Host::<15>::be(0);
            let mut port = open(units[0], 0);
            for message in 0..ROUNDS * 4 {
                push(&mut port, torus(1), &envelope(from, to, message), &pattern(message, 200));
            }
            units[0].drain();
        });
        scope.spawn(|| {
            Host::<15>::be(8);
            let mut port = open(units[1], 0);
            for message in 0..ROUNDS * 4 {
                let arrival = receive(&mut port, 1);
                assert_eq!(arrival.data(), pattern(message, 200));
                port.release(arrival);
            }
        });
    });
    assert_eq!(units[1].statistics().dropped.total(), 0);
}

#[test]
fn n8_a_hart_that_computes_does_not_keep_packets_from_one_that_sleeps() {
    // Hart 0 takes a packet of its own in, which spends the interrupt, and then computes without ever driving
    // again. Hart 1 sleeps all the time and must still get its own.
    let net = Net::new(2);
    let units = units::<16>(&net, 2, 1, None);
    let (mut a, done) = (open(units[0], 0), AtomicBool::new(false));
    let busy = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Host::<16>::be(9);
            let mut port = open(units[1], 1);
            let arrival = receive(&mut port, 0);
            port.release(arrival);
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            Host::<16>::be(8);
            let mut port = open(units[1], 0);
            let arrival = receive(&mut port, 1000);
            port.release(arrival);
            busy.store(true, Ordering::Release);
            while !done.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        });
        Host::<16>::be(0);
        a.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 0), 0), &[], b"for the first").unwrap();
        a.progress();
        a.progress();
        while !busy.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        a.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 1), 1), &[], b"for the second").unwrap();
        a.progress();
        a.progress();
        let start = Host::<16>::now_ns();
        while !done.load(Ordering::Acquire) && Host::<16>::now_ns() - start < 10_000_000_000 {
            std::thread::yield_now();
        }
        assert!(done.load(Ordering::Acquire), "the second hart sleeps on");
    });
}

/// Sleeps until a request of `port` ends.
fn wait_for_end<P: Port>(port: &mut P) -> Completed {
    loop {
        port.arm();
        port.progress();
        let completed = port.completed();
        if completed.is_none() {
            port.sleep(None);
        }
        port.disarm();
        if let Some(completed) = completed {
            return completed;
        }
    }
}

#[test]
fn n8_the_end_of_a_request_ends_the_sleep_whoever_runs_the_engine() {
    let net = Net::new(2);
    let units = &units::<21>(&net, 2, 1, None);
    let (mut owner, done) = (open(units[1], 0), AtomicBool::new(false));
    let (region, memory) = region(&mut owner, &[0; 8]);
    let update = RmwOp { width: Width::Eight, update: Update::Add(1) };
    std::thread::scope(|scope| {
        // Two harts of each node ask node 1, which only sleeps and wakes up when something comes.
        let askers = [(0, 0, 0), (1, 0, 1), (9, 1, 1)].map(|(hart, node, context)| {
            scope.spawn(move || {
                Host::<21>::be(hart);
                let mut port = open(units[node], context);
                let (dispatch, operands) = update.encode();
                let (origin, target) = (endpoint(node as u32, context), endpoint(1, 0));
                let mut last = None;
                for message in 0..ROUNDS / 2 {
                    let kind = Kind::Rmw;
                    let envelope =
                        Envelope { kind, dispatch, offset: 0, ..envelope(origin, target, message) };
                    port.push_bcopy(torus(1), &envelope, region.as_bytes(), operands.as_bytes()).unwrap();
                    let Completed { message: number, result } = wait_for_end(&mut port);
                    assert!(number == message && result.ok() > last, "{result:?} after {last:?}");
                    last = result.ok();
                }
                units[node].drain();
            })
        });
        let (flag, waker) = (&done, owner.waker());
        let sleeper = scope.spawn(move || {
            Host::<21>::be(8);
            let mut rounds = 0;
            while !flag.load(Ordering::Acquire) {
                owner.arm();
                if !owner.progress() && !flag.load(Ordering::Acquire) {
                    owner.sleep(None);
                }
                owner.disarm();
                // The same word, by the shorter way.
                owner.rmw_local(endpoint(1, 0), region, 0, update).unwrap();
                rounds += 1;
            }
            rounds
        });
        let ends = askers.map(std::thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Release);
        pami::device::Wake::wake(&waker);
        ends.into_iter().for_each(Result::unwrap);
        let rounds = sleeper.join().unwrap();
        let count = memory.update(0, Width::Eight, Update::Add(0)).unwrap();
        assert_eq!(count, u64::from(3 * (ROUNDS / 2)) + rounds);
    });
    assert_eq!(units.iter().map(|unit| unit.statistics().dropped.total()).sum::<u64>(), 0);
}

#[test]
fn p8_regions_come_and_go_while_others_get_from_them() {
    let net = Net::new(2);
    let units = &units::<22>(&net, 2, 1, None);
    let name = core::sync::atomic::AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Host::<22>::be(8);
            let mut owner = open(units[1], 0);
            let (mut number, mut buffer) = (0, shared(&[0; 3000]).reclaim().ok().unwrap());
            while !done.load(Ordering::Acquire) {
                number += 1;
                // All bytes of a region are the same.
                buffer.as_mut_slice().fill(number as u8);
                let memory = buffer.share();
                let region = owner.register(Memory::Shared(memory.clone()), Rights::READ).unwrap();
                let [index, generation] = [region.index.get(), region.generation.get()].map(u64::from);
                name.store(generation << 32 | index, Ordering::Release);
                for _ in 0..number % 40 {
                    owner.progress();
                    std::thread::yield_now();
                }
                owner.deregister(region);
                let reclaimed = memory.reclaim().ok();
                buffer = reclaimed.expect("nobody is at it any more");
                std::thread::yield_now();
            }
            units[1].drain();
        });
        let gets = [(0, 0, false), (9, 1, true)].map(|(hart, node, local)| {
            let name = &name;
            scope.spawn(move || {
                Host::<22>::be(hart);
                let mut port = open(units[node], 1);
                let into = shared(&[0; 3000]);
                let (mut whole, mut gone) = (0, 0);
                for message in 0.. {
                    if whole >= 100 && gone >= 10 {
                        break;
                    }
                    let name = name.load(Ordering::Acquire);
                    let region =
                        RegionId { index: (name as u32).into(), generation: ((name >> 32) as u32).into() };
                    let (origin, target) = (endpoint(node as u32, 1), endpoint(1, 0));
                    let result = if local {
                        port.get_local(target, region, 0, (&into, 0), 3000)
                    } else {
                        let envelope = Envelope { total: 3000, ..envelope(origin, target, message) };
                        port.push_get(1, &envelope, region, Some((&into, 0)), true).unwrap();
                        loop {
                            port.progress();
                            if let Some(completed) = port.completed() {
                                assert_eq!(completed.message, message);
                                break completed.result.map(|_| ());
                            }
                            std::thread::yield_now();
                        }
                    };
                    match result {
                        Ok(()) => {
                            let bytes = bytes(&into);
                            assert!(bytes.iter().all(|&byte| byte == bytes[0]));
                            whole += 1;
                        }
                        Err(fault) => {
                            assert_eq!(fault, RegionFault::Stale);
                            gone += 1;
                        }
                    }
                }
            })
        });
        let ends = gets.map(std::thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Release);
        ends.into_iter().for_each(Result::unwrap);
    });
}
