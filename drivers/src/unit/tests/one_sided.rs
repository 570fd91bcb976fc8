//! Puts, gets and updates of memory of another node, of the own one through the network, and of the own one at once.

use super::*;
use crate::adapter::{MOST_BULK, MOST_MTU};
use crate::unit::{INLINE_BYTES, WINDOW};
use pami::device::{Full, Receiving, RemoteMemory, Sending, Sleeping};
use pami::layout::Segment;
use pami::packet::ENDS;
use zerocopy::IntoBytes;

pub(super) type Ports<const TEST: usize> = (TestPort<TEST>, TestPort<TEST>);

/// Ports of tasks 0 and `task`, which is 0 for the loop-back.
pub(super) fn ports<const TEST: usize>(task: u32) -> (Ports<TEST>, u32) {
    let net = Net::new(2);
    let units = units::<TEST>(&net, 2, 1, None);
    ((open(units[0], 0), open(units[task as usize], 1)), task)
}

/// Asks of task 0, context 0, to task `task`, context 1.
pub(super) fn request(kind: Kind, task: u32, message: u32, offset: u32, total: u32) -> Envelope {
    let dispatch = if kind == Kind::Put { ENDS } else { 0 };
    Envelope { kind, dispatch, origin: endpoint(0, 0), target: endpoint(task, 1), message, offset, total }
}

pub(super) fn push_put<P: Port>(
    port: &mut P,
    node: u32,
    message: u32,
    region: RegionId,
    offset: u32,
    data: &[u8],
) {
    let envelope = request(Kind::PutLast, node, message, offset, data.len() as u32);
    port.push_bcopy(torus(node), &envelope, region.as_bytes(), data).unwrap();
}

pub(super) fn push_rmw<P: Port>(
    port: &mut P,
    node: u32,
    message: u32,
    region: RegionId,
    offset: u32,
    op: RmwOp,
) -> Result<(), Full> {
    let (dispatch, operands) = op.encode();
    let envelope = Envelope { dispatch, ..request(Kind::Rmw, node, message, offset, 0) };
    port.push_bcopy(torus(node), &envelope, region.as_bytes(), operands.as_bytes())
}

pub(super) fn add(operand: u64) -> RmwOp {
    RmwOp { width: Width::Eight, update: Update::Add(operand) }
}

pub(super) fn statistics<const TEST: usize>(port: &TestPort<TEST>) -> crate::unit::Statistics {
    port.unit().statistics()
}

#[test]
fn p7_a_put_of_any_length_to_any_place_is_there_when_it_completes() {
    for task in [1, 0] {
        let ((mut a, mut b), node) = ports::<0>(task);
        let before = pattern(77, 700);
        let (region, memory) = region(&mut b, &before);
        let mut expected = before;
        let most = MTU - 8;
        for (message, len) in [0, 1, 8, INLINE_BYTES - 8, INLINE_BYTES - 7, 64, most].into_iter().enumerate()
        {
            for offset in [0, 3, 8, 700 - len] {
                let data = pattern(message as u32, len);
                if offset + len > 700 {
                    continue;
                }
                push_put(&mut a, node, 9, region, offset as u32, &data);
                assert_eq!(ended_by(&mut a, &mut b), Completed { message: 9, result: Ok(0) });
                expected[offset..offset + len].copy_from_slice(&data);
                assert_eq!(bytes(&memory), expected);
            }
        }
        assert!(a.pull().is_none() && b.pull().is_none(), "no application hears of it");
    }
}

#[test]
fn p7_a_put_of_several_packets_is_answered_once_and_lent_memory_comes_back() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, memory) = region(&mut b, &[0; 2000]);
    let data = pattern(5, 2000);
    let mut buffer = Buffer::new(std::vec![0; 2200].leak()).unwrap();
    buffer.as_mut_slice()[..2000].copy_from_slice(&data);
    let lease = buffer.lend();
    for (number, start) in (0..2000).step_by(500).enumerate() {
        let kind = if number == 3 { Kind::PutLast } else { Kind::Put };
        let part = lease.source().slice(start..start + 500).unwrap();
        let envelope = request(kind, 1, 3, start as u32, 2000);
        a.push_zcopy(torus(1), &envelope, region.as_bytes(), &part).unwrap();
    }
    assert_eq!(ended_by(&mut a, &mut b), Completed { message: 3, result: Ok(0) });
    assert!(bytes(&memory) == data && a.completed().is_none());
    assert!(lease.reclaim().is_ok());
}

#[test]
fn n8_whoever_lent_what_was_got_is_woken_when_nobody_reads_it_any_more() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let (mut a, mut owner, mut other) = (open(units[0], 0), open(units[1], 0), open(units[1], 1));
    let lease = Buffer::new(std::vec![0; 1200].leak()).unwrap().lend();
    let region = owner.register(Memory::Lent(lease.source()), Rights::READ).unwrap();
    let into = shared(&[0; 1000]);
    let envelope = Envelope { target: endpoint(1, 0), ..request(Kind::Get, 1, 4, 0, 1000) };
    a.push_get(1, &envelope, region, Some((&into, 0)), true).unwrap();
    owner.arm();
    // The owner's node is driven by another of its contexts.
    assert_eq!(ended_by(&mut a, &mut other).result, Ok(0));
    owner.deregister(region);
    assert!(lease.reclaim().is_ok());
    assert_eq!(owner.bell().ring(), None, "somebody has woken it");
}

#[test]
fn p10_a_put_is_scattered_to_the_segments_that_it_names() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, memory) = region(&mut b, &[0; 64]);
    let segment = |offset: u32, len: u32| Segment { offset: offset.into(), len: len.into() };
    let put = |a: &mut TestPort<0>, message, segments: &[Segment], data: &[u8]| {
        let header = [region.as_bytes(), segments.as_bytes()].concat();
        let envelope = request(Kind::PutLast, 1, message, 1 << 30, data.len() as u32);
        a.push_packed(torus(1), &envelope, &header, data.len(), |to| to.copy_from_slice(data)).unwrap();
    };
    put(&mut a, 1, &[segment(60, 4), segment(7, 3), segment(8, 0), segment(9, 1)], &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(ended_by(&mut a, &mut b).result, Ok(0));
    let mut expected = std::vec![0; 64];
    expected[60..].copy_from_slice(&[1, 2, 3, 4]);
    expected[7..10].copy_from_slice(&[5, 6, 8]);
    assert_eq!(bytes(&memory), expected, "where segments overlap the later one stays");
    for outside in [segment(61, 4), segment(u32::MAX, 4), segment(65, 4)] {
        put(&mut a, 2, &[segment(0, 4), outside], &[9; 8]);
        assert_eq!(ended_by(&mut a, &mut b).result, Err(RegionFault::Bounds));
        assert_eq!(bytes(&memory), expected, "nothing of it was written");
    }
}

#[test]
fn p7_a_get_of_any_length_lands_where_it_was_wanted_and_nowhere_else() {
    for task in [1, 0] {
        let ((mut a, mut b), node) = ports::<0>(task);
        let content = pattern(3, 5000);
        let (open, _) = region(&mut b, &content);
        let lent: &'static [u8] = content.clone().leak();
        let lent = b.register(Memory::Lent(lent.into()), Rights::READ).unwrap();
        for region in [open, lent] {
            for (len, offset, at) in
                [(0, 5000, 0), (1, 7, 9), (24, 8, 8), (25, 1, 16), (448, 0, 0), (4900, 99, 61)]
            {
                let into = shared(&[0xee; 5000]);
                let envelope = request(Kind::Get, node, 4, offset as u32, len as u32);
                a.push_get(node, &envelope, region, Some((&into, at as u32)), true).unwrap();
                assert_eq!(ended_by(&mut a, &mut b), Completed { message: 4, result: Ok(0) });
                let mut expected = std::vec![0xee; 5000];
                expected[at..at + len].copy_from_slice(&content[offset..offset + len]);
                assert!(bytes(&into) == expected, "{len} bytes from {offset} to {at}");
                assert!(into.reclaim().is_ok(), "nobody keeps the memory");
            }
        }
    }
}

#[test]
fn d5_what_is_got_from_where_it_lies_comes_in_longer_packets_than_what_is_copied() {
    const LEN: usize = 40_000;
    for mtu in [MOST_BULK, MOST_BULK - 1, MOST_MTU] {
        let units = units_of::<0>(&Net::new(2), (2, 1), None, mtu);
        let (mut a, mut b) = (open(units[0], 0), open(units[1], 1));
        assert_eq!(a.mtu(), MOST_MTU, "what is copied is no longer");
        let content = pattern(3, LEN);
        let (copied, _) = region(&mut b, &content);
        let lent: &'static [u8] = content.clone().leak();
        let lent = b.register(Memory::Lent(lent.into()), Rights::READ).unwrap();
        let longest = mtu - mtu % 64;
        for (region, packets) in [(copied, LEN.div_ceil(MOST_MTU)), (lent, LEN.div_ceil(longest))] {
            let (into, before) = (shared(&[0; LEN]), statistics(&b).sent_packets);
            let envelope = request(Kind::Get, 1, 4, 0, LEN as u32);
            a.push_get(1, &envelope, region, Some((&into, 0)), true).unwrap();
            assert_eq!(ended_by(&mut a, &mut b), Completed { message: 4, result: Ok(0) });
            assert!(bytes(&into) == content, "on a network of {mtu} bytes");
            assert_eq!(statistics(&b).sent_packets - before, packets as u64, "on a network of {mtu} bytes");
        }
    }
}

#[test]
fn p10_gets_of_one_number_end_together_with_the_first_fault() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let content = pattern(3, 1000);
    let (region, _) = region(&mut b, &content);
    let into = shared(&[0; 1000]);
    let get = |a: &mut TestPort<0>, offset, at, last| {
        a.push_get(1, &request(Kind::Get, 1, 5, offset, 10), region, Some((&into, at)), last).unwrap();
    };
    for round in 0..2 {
        get(&mut a, 0, 100, false);
        get(&mut a, if round == 0 { 20 } else { 995 }, 300, false);
        get(&mut a, 40, 200, true);
        let completed = ended_by(&mut a, &mut b);
        let result = if round == 0 { Ok(0) } else { Err(RegionFault::Bounds) };
        assert_eq!(completed, Completed { message: 5, result });
        assert!(a.completed().is_none());
    }
    let placed = bytes(&into);
    for (from, at) in [(0, 100), (20, 300), (40, 200)] {
        assert_eq!(placed[at..at + 10], content[from..from + 10]);
    }
}

#[test]
fn p7_updates_tell_the_old_value_whatever_way_they_come() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, memory) = region(&mut b, &[0; 20]);
    let mut count = 0;
    for (message, rmw) in [
        add(5),
        RmwOp { width: Width::Four, update: Update::Or(0x10) },
        RmwOp { width: Width::Eight, update: Update::CompareSwap { expected: 0x15, new: 1 << 40 } },
        RmwOp { width: Width::Eight, update: Update::Swap(7) },
        RmwOp { width: Width::Eight, update: Update::Xor(3) },
        RmwOp { width: Width::Eight, update: Update::And(12) },
    ]
    .into_iter()
    .enumerate()
    {
        push_rmw(&mut a, 1, message as u32, region, 8, rmw).unwrap();
        let completed = ended_by(&mut a, &mut b);
        let old = [0, 5, 0x15, 1 << 40, 7, 4][message];
        assert_eq!(completed, Completed { message: message as u32, result: Ok(old) });
        count += 1;
    }
    // The same word by the way within the node.
    assert_eq!(b.rmw_local(endpoint(1, 0), region, 8, add(1)), Ok(4));
    assert_eq!(memory.update(8, Width::Eight, Update::Add(0)), Ok(5));
    for (offset, fault) in [(16, RegionFault::Bounds), (4, RegionFault::Unaligned), (24, RegionFault::Bounds)]
    {
        push_rmw(&mut a, 1, 99, region, offset, add(1)).unwrap();
        assert_eq!(ended_by(&mut a, &mut b), Completed { message: 99, result: Err(fault) });
        count += 1;
    }
    assert_eq!(count, 9);
}

#[test]
fn f2_a_get_of_nothing_ends_after_all_that_was_got_before() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, _) = region(&mut b, &pattern(1, 60_000));
    let into = shared(&[0; 60_000]);
    for (message, len) in [(1, 60_000), (2, 0), (3, 1000), (4, 0)] {
        let (of, into) = if len > 0 { (region, Some((&into, 0))) } else { (RegionId::NONE, None) };
        a.push_get(1, &request(Kind::Get, 1, message, 0, len), of, into, true).unwrap();
    }
    for message in 1..=4 {
        assert_eq!(ended_by(&mut a, &mut b), Completed { message, result: Ok(0) });
        if message == 2 {
            assert!(bytes(&into) == pattern(1, 60_000));
        }
    }
}

#[test]
fn p7_no_more_requests_are_under_way_than_a_node_takes() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, memory) = region(&mut b, &[0; 8]);
    let (mut pushed, mut done, mut checked) = (0, 0, false);
    let total = if cfg!(miri) { 200 } else { 5_000 };
    while done < total {
        while pushed < total
            && pushed - done < pami::device::REQUESTS as u32
            && push_rmw(&mut a, 1, pushed, region, 0, add(1)).is_ok()
        {
            pushed += 1;
        }
        a.progress();
        if pushed >= 60 && !checked {
            checked = true;
            // The target has not answered: no more than the window left.
            for _ in 0..10 {
                a.progress();
            }
            assert_eq!(a.unit().statistics().sent_packets, WINDOW as u64);
        }
        if pushed >= 60 {
            b.progress();
        }
        while let Some(completed) = a.completed() {
            assert_eq!(completed, Completed { message: done, result: Ok(u64::from(done)) });
            done += 1;
        }
    }
    assert_eq!(memory.update(0, Width::Eight, Update::Add(0)), Ok(u64::from(total)));
    assert_eq!(statistics(&b).dropped.total() + statistics(&a).dropped.total(), 0);
}

#[test]
fn p3_ports_that_share_an_injection_fifo_get_their_own_answers() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let mut ports: Vec<_> =
        (0..2).map(|c| units[0].open(ClientId(0), 0, c, Sharing::Shared).unwrap()).collect();
    let mut b = open(units[1], 1);
    let (region, _) = region(&mut b, &[0; 8]);
    for round in 0..50 {
        for (context, port) in ports.iter_mut().enumerate() {
            let (dispatch, operands) = add(1).encode();
            let origin = endpoint(0, context as u8);
            let envelope = Envelope { dispatch, origin, ..request(Kind::Rmw, 1, round, 0, 0) };
            port.push_bcopy(torus(1), &envelope, region.as_bytes(), operands.as_bytes()).unwrap();
        }
        for (context, port) in ports.iter_mut().enumerate() {
            let completed = ended(port, || {
                b.progress();
            });
            let old = u64::from(2 * round) + context as u64;
            assert_eq!(completed, Completed { message: round, result: Ok(old) });
        }
    }
}

#[test]
fn d5_answers_and_messages_take_turns_for_the_room_in_the_network() {
    let ((mut a, mut b), _) = ports::<0>(1);
    let (region, _) = region(&mut b, &pattern(1, 200_000));
    let into = shared(&[0; 200_000]);
    a.push_get(1, &request(Kind::Get, 1, 1, 0, 200_000), region, Some((&into, 0)), true).unwrap();
    // The target itself sends as much as it can.
    let (mut arrived, mut sent) = (0, 0);
    let completed = loop {
        let envelope = Envelope { origin: endpoint(1, 1), ..envelope(endpoint(1, 1), endpoint(0, 0), sent) };
        while b.push_bcopy(torus(0), &envelope, &[], &[0; 100]).is_ok() {
            sent += 1;
        }
        b.progress();
        a.progress();
        while let Some(arrival) = a.pull() {
            arrived += 1;
            a.release(arrival);
        }
        if let Some(completed) = a.completed() {
            break completed;
        }
        assert!(arrived < 5_000, "the get starves");
    };
    assert_eq!(completed, Completed { message: 1, result: Ok(0) });
    assert!(arrived > 50, "the messages starve: {arrived}");
}
