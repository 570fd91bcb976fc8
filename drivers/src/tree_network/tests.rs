//! The adapter on a fake card; the tests play the network.

use super::*;
use crate::nic::SmallMtu;
use crate::platform::Platform;
use crate::virtio::VirtioError;
use crate::virtio::VirtioNet;
use crate::virtio::fake::{FakeCard, HostHal};
use core::cell::Cell;
use pami::combine::packet::{ETHER_TYPE, NETWORK, SHIPPED_CALLS, TreeHeader, mac};
use pami::combine::{
    AluOperation, CLASS_ROUTES, ClassRoute, Element, MOST_MEMBERS, Operator, Role, RouteMembers, Status,
    TreeEnvelope, TreePacket, TreePacketKind, WINDOW, WORLDS,
};
use proptest::prelude::*;
use std::vec::Vec;
use zerocopy::IntoBytes;

const MTU: u16 = 1024 + 24;
const NODE: u32 = 3;
const SUM: AluOperation = AluOperation::new(Operator::Sum, Element::F64).unwrap();
const WORLD: ClassRoute = ClassRoute::WORLD;

type Nic = VirtioNet<HostHal, FakeCard>;

fn adapter(card: &FakeCard) -> TreeAdapter<Nic> {
    TreeAdapter::new(Nic::new(card.clone()).unwrap(), NODE, 8).unwrap()
}

fn frame(to: u32, from: u32, envelope: &TreeEnvelope, payload: &[u8]) -> Vec<u8> {
    let header = TreeHeader::new(envelope, payload.len() as u16);
    [&mac(to)[..], &mac(from), &ETHER_TYPE.to_be_bytes(), header.as_bytes(), payload].concat()
}

/// The network sends something to the node.
fn deliver(card: &FakeCard, envelope: TreeEnvelope, payload: &[u8]) {
    card.receive(&frame(NODE, NETWORK, &envelope, payload)).expect("a buffer");
}

fn result(sequence: u32, taken: u16) -> TreeEnvelope {
    TreeEnvelope { sequence, taken, operation: SUM, ..TreeEnvelope::new(TreePacketKind::Result, WORLD, 0) }
}

fn contribute(
    tree: &mut TreeAdapter<Nic>,
    route: ClassRoute,
    operation: AluOperation,
    sequence: u32,
    payload: &[u8],
) -> Result<(), InjectError> {
    tree.contribute(route, operation, sequence, payload.len(), |into| into.copy_from_slice(payload))
}

fn broadcast(
    tree: &mut TreeAdapter<Nic>,
    route: ClassRoute,
    sequence: u32,
    payload: &[u8],
) -> Result<(), InjectError> {
    tree.broadcast(route, sequence, payload.len(), |into| into.copy_from_slice(payload))
}

/// The next packet that the node sent.
fn sent(card: &FakeCard) -> Option<(TreeEnvelope, Vec<u8>)> {
    let (frame, _) = card.transmit()?;
    assert_eq!((&frame[..6], &frame[6..12]), (&mac(NETWORK)[..], &mac(NODE)[..]));
    assert_eq!(frame[12..14], ETHER_TYPE.to_be_bytes());
    let packet = TreePacket::parse(&frame[14..]).expect("a packet");
    assert_eq!(packet.envelope.origin, NODE);
    Some((packet.envelope, packet.payload.to_vec()))
}

#[test]
fn d3_a_contribution_goes_out_and_its_result_comes_in_aligned() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    assert_eq!(tree.payload(), 1024);
    tree.hello();
    tree.flush();
    let (hello, _) = sent(&card).unwrap();
    assert_eq!((hello.kind, hello.argument), (TreePacketKind::Hello, 8));
    assert!(!tree.is_welcome());
    deliver(
        &card,
        TreeEnvelope { argument: 8, ..TreeEnvelope::new(TreePacketKind::Welcome, WORLD, NETWORK) },
        &[],
    );
    assert!(tree.advance() && tree.is_welcome() && !tree.advance());

    let mine = [1.5f64.to_le_bytes(), 2.5f64.to_le_bytes()].concat();
    contribute(&mut tree, WORLD, SUM, 41, &mine).unwrap();
    tree.flush();
    let (envelope, payload) = sent(&card).unwrap();
    assert_eq!((envelope.kind, envelope.sequence, envelope.operation), (TreePacketKind::Contribute, 41, SUM));
    assert_eq!(payload, mine);
    assert_eq!(tree.front(WORLD), None);
    deliver(&card, result(41, 1), &[7; 16]);
    tree.advance();
    let arrival = tree.front(WORLD).unwrap();
    assert_eq!((arrival.broadcast, arrival.sequence, arrival.status), (None, 41, Status::Good));
    assert_eq!(arrival.payload, [7; 16]);
    assert_eq!(arrival.payload.as_ptr().align_offset(64), 0);
    tree.take(WORLD);
    assert_eq!(tree.front(WORLD), None);
    assert_eq!(tree.counters(), TreeCounters { sent: 1, received: 1, ..TreeCounters::default() });
    assert_eq!(tree.faults(), TreeFaults::default());
    assert!(tree.is_drained());
}

#[test]
fn d3_a_window_of_contributions_is_out_at_once_and_credit_lets_more_go() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    for sequence in 0..u32::from(WINDOW) {
        contribute(&mut tree, WORLD, SUM, sequence, &[0; 1024]).unwrap();
    }
    assert_eq!(contribute(&mut tree, WORLD, SUM, 8, &[]), Err(InjectError::Full));
    assert_eq!(broadcast(&mut tree, WORLD, 8, &[]), Err(InjectError::Full));
    deliver(
        &card,
        TreeEnvelope { taken: 2, ..TreeEnvelope::new(TreePacketKind::Credit, WORLD, NETWORK) },
        &[],
    );
    tree.advance();
    assert_eq!(contribute(&mut tree, WORLD, SUM, 8, &[]), Ok(()));
    assert_eq!(broadcast(&mut tree, WORLD, 9, &[5; 3]), Ok(()));
    assert_eq!(contribute(&mut tree, WORLD, SUM, 9, &[]), Err(InjectError::Full));
    tree.flush();
    assert_eq!(core::iter::from_fn(|| sent(&card)).count(), 10);
    // Who takes results and has nothing to send tells so every half window.
    for sequence in 0..8 {
        deliver(&card, result(sequence, 8), &[]);
    }
    tree.advance();
    for sequence in 0..8 {
        assert_eq!(tree.front(WORLD).unwrap().sequence, sequence);
        tree.take(WORLD);
        tree.flush();
        let credit = sent(&card).map(|(envelope, _)| (envelope.kind, envelope.taken));
        assert_eq!(credit, (sequence % 4 == 3).then_some((TreePacketKind::Credit, sequence as u16 + 1)));
    }
    // What goes out says it as well.
    deliver(&card, result(8, 10), &[]);
    tree.advance();
    tree.take(WORLD);
    contribute(&mut tree, WORLD, SUM, 10, &[]).unwrap();
    tree.flush();
    assert_eq!(sent(&card).unwrap().0.taken, 9);
}

#[test]
fn d9_what_cannot_be_sent_is_refused_with_its_reason() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    let other = ClassRoute { id: 4, generation: 1 };
    assert_eq!(contribute(&mut tree, other, SUM, 0, &[]), Err(InjectError::NoRoute));
    assert_eq!(
        contribute(&mut tree, ClassRoute { id: 0, generation: 1 }, SUM, 0, &[]),
        Err(InjectError::NoRoute)
    );
    assert_eq!(
        broadcast(&mut tree, ClassRoute { id: 200, generation: 0 }, 0, &[]),
        Err(InjectError::NoRoute)
    );
    assert_eq!(contribute(&mut tree, WORLD, SUM, 0, &[0; 12]), Err(InjectError::Length));
    assert_eq!(contribute(&mut tree, WORLD, SUM, 0, &[0; 1032]), Err(InjectError::Length));
    assert_eq!(tree.release(WORLD), Err(InjectError::NoRoute));
    let members = [RouteMembers::range(0, 7, Role::BOTH); MOST_MEMBERS + 1];
    assert_eq!(tree.allocate(1, &members), Err(InjectError::Length));
    // The card has room for 64 frames.
    for id in (WORLDS..CLASS_ROUTES).map(|id| id as u8) {
        let route = ClassRoute { id, generation: 1 };
        deliver(
            &card,
            TreeEnvelope { role: Role::CONTRIBUTES, ..TreeEnvelope::new(TreePacketKind::Opened, route, 0) },
            &[],
        );
    }
    tree.advance();
    let routes = (WORLDS..CLASS_ROUTES).map(|id| ClassRoute { id: id as u8, generation: 1 });
    let all: Vec<_> = routes.flat_map(|route| [route; WINDOW as usize]).collect();
    let done = all.iter().take_while(|&&route| contribute(&mut tree, route, SUM, 0, &[0; 8]).is_ok()).count();
    assert_eq!(done, 64);
    tree.flush();
    assert!(!tree.is_drained());
    assert!(!tree.arm(), "nothing was sent yet");
    let interrupts = core::iter::from_fn(|| card.transmit()).filter(|(_, interrupt)| *interrupt).count();
    assert_eq!(interrupts, 1, "for the first place that comes free");
    assert!(tree.arm(), "there is room");
    assert_eq!(contribute(&mut tree, all[64], SUM, 0, &[0; 8]), Ok(()));
}

#[test]
fn d3_class_routes_are_opened_by_the_network_found_by_tag_and_closed() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    let members = [
        RouteMembers::range(2, 5, Role::BOTH),
        RouteMembers { first: 6, last: 7, stride: 1, role: Role::RECEIVES },
    ];
    assert_eq!(tree.allocate(77, &members), Ok(()));
    assert_eq!(tree.allocate(78, &members), Err(InjectError::Pending));
    tree.flush();
    let (request, list) = sent(&card).unwrap();
    assert_eq!((request.kind, request.argument), (TreePacketKind::Allocate, 77));
    assert!(RouteMembers::read(&list).unwrap().eq(members));
    assert_eq!(tree.answer(), None);

    let route = ClassRoute { id: 7, generation: 9 };
    let opened = TreeEnvelope {
        argument: 77,
        role: Role::BOTH,
        ..TreeEnvelope::new(TreePacketKind::Opened, route, NODE)
    };
    deliver(&card, opened, &[]);
    // Of another node's, which this one only receives on.
    let others = ClassRoute { id: 5, generation: 1 };
    deliver(
        &card,
        TreeEnvelope {
            argument: 77,
            role: Role::RECEIVES,
            ..TreeEnvelope::new(TreePacketKind::Opened, others, 1)
        },
        &[],
    );
    let six = TreeEnvelope { sequence: 6, ..TreeEnvelope::new(TreePacketKind::Broadcast, others, 1) };
    deliver(&card, six, &[1, 2, 3]);
    tree.advance();
    assert_eq!((tree.answer(), tree.answer()), (Some(Ok(route)), None));
    assert_eq!((tree.find(NODE, 77), tree.find(1, 77), tree.find(2, 77)), (Some(route), Some(others), None));
    assert_eq!(tree.role(others), Some(Role::RECEIVES));
    assert_eq!(contribute(&mut tree, others, SUM, 0, &[]), Err(InjectError::NoRoute));
    assert_eq!(broadcast(&mut tree, others, 0, &[]), Ok(()));
    let arrival = tree.front(others).unwrap();
    assert_eq!((arrival.broadcast, arrival.sequence, arrival.payload), (Some(1), 6, &[1, 2, 3][..]));

    assert_eq!(tree.release(others), Err(InjectError::NoRoute), "it is node 1's");
    assert_eq!(tree.release(route), Ok(()));
    for closed in [route, others, others].into_iter().chain(ClassRoute::worlds()) {
        deliver(&card, TreeEnvelope::new(TreePacketKind::Closed, closed, NETWORK), &[]);
    }
    deliver(&card, six, &[1, 2, 3]);
    tree.advance();
    assert_eq!((tree.role(route), tree.role(others)), (None, None));
    assert!(ClassRoute::worlds().all(|world| tree.role(world) == Some(Role::BOTH)));
    assert_eq!(tree.faults(), TreeFaults { no_route: 2 + WORLDS as u64, ..TreeFaults::default() });
    assert_eq!(tree.counters().abandoned, 1);
    // The same id again, and a refusal.
    tree.allocate(80, &members).unwrap();
    let refused = TreeEnvelope {
        argument: 80,
        status: Status::Exhausted,
        ..TreeEnvelope::new(TreePacketKind::Refused, WORLD, NETWORK)
    };
    deliver(&card, refused, &[]);
    tree.advance();
    assert_eq!(tree.answer(), Some(Err(Status::Exhausted)));
    assert_eq!(tree.allocate(81, &members), Ok(()));
}

#[test]
fn d9_frames_that_are_not_for_this_node_are_counted_and_their_buffers_used_again() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    let good = result(0, 0);
    let with = |at: usize, byte: u8| {
        let mut frame = frame(NODE, NETWORK, &good, &[0; 8]);
        frame[at] = byte;
        frame
    };
    // More than there are buffers of each.
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for _ in 0..rounds {
        for bytes in [
            std::vec![1, 2, 3],
            with(12, 8),
            with(8, 0),
            with(5, 1),
            with(14, 9),
            with(15, 2),
            with(36, 200),
            with(17, 1),
            with(34, 1),
        ] {
            card.receive(&bytes).expect("a buffer");
        }
        assert!(tree.advance());
        tree.flush();
    }
    let faults = tree.faults();
    assert_eq!((faults.runts, faults.foreign, faults.stray), (rounds, 2 * rounds, rounds));
    assert_eq!((faults.malformed, faults.no_route, faults.overrun), (3 * rounds, rounds, rounds));
    assert_eq!((faults.total(), tree.front(WORLD)), (9 * rounds, None));
    // Beyond credit: nobody has taken any.
    for sequence in 0..20 {
        deliver(&card, result(sequence, 0), &[]);
    }
    tree.advance();
    assert_eq!(tree.faults().overrun, rounds + 20 - u64::from(WINDOW));
    assert_eq!(tree.front(WORLD).unwrap().sequence, 0);
}

#[test]
fn d9_used_entries_that_cannot_be_are_counted() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    for id in [256, u32::MAX, 7, 7] {
        card.card().queues[0].as_mut().unwrap().put(id, 100_000);
    }
    tree.advance();
    assert_eq!(tree.faults(), TreeFaults { rings: 4, ..TreeFaults::default() });
}

#[test]
fn d1_devices_that_cannot_be_used_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut crate::virtio::fake::Card)| {
        let card = FakeCard::new(MTU);
        change(&mut card.card());
        Nic::new(card).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(&|card| card.id = 2), VirtioError::WrongDevice { id: 2 });
    assert_eq!(refused(&|card| card.queue_max = 128), VirtioError::Queue { index: 0, max: 128 });
    let card = FakeCard::new(0);
    assert_eq!(TreeAdapter::new(Nic::new(card).unwrap(), 0, 1).map(|_| ()).unwrap_err(), SmallMtu(0));
}

proptest! {
    #[test]
    fn d9_whatever_comes_no_buffer_is_lost(
        frames in proptest::collection::vec((0u8..11, 0u8..18, 0u8..3, any::<u16>(), 0u8..4, any::<u8>(), 0usize..40), 0..if cfg!(miri) { 20 } else { 300 })
    ) {
        let card = FakeCard::new(MTU);
        let mut tree = adapter(&card);
        let mut held = 0;
        for (kind, id, generation, taken, role, spoiled, len) in frames {
            let envelope = TreeEnvelope { taken: taken % 12, ..TreeEnvelope::new(TreePacketKind::Credit, WORLD, NETWORK) };
            let mut bytes = frame(NODE, NETWORK, &envelope, &std::vec![0; len]);
            (bytes[15], bytes[16], bytes[17], bytes[33]) = (kind, id, generation, role);
            if spoiled < 38 {
                bytes[usize::from(spoiled)] ^= 0x11;
            }
            prop_assert!(card.receive(&bytes).is_some(), "{} are held", held);
            tree.advance();
            if role == 3 {
                let route = ClassRoute { id, generation };
                let _ = (contribute(&mut tree, route, SUM, 0, &[]), tree.front(route));
                tree.take(route);
            }
            tree.flush();
            while card.transmit().is_some() {}
            held = tree.routes_hold();
            prop_assert!(held <= CLASS_ROUTES * usize::from(WINDOW));
        }
    }
}

type Unit = TreeUnit<Bench, Nic>;

/// A platform whose harts are numbered by the test.
struct Bench;

std::thread_local! {
    static HART: Cell<usize> = const { Cell::new(0) };
    static WOKEN: Cell<u32> = const { Cell::new(0) };
}

impl Platform for Bench {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        HART.get()
    }
    fn now_ns() -> u64 {
        0
    }
    fn wake(hart: usize) {
        WOKEN.set(WOKEN.get() | 1 << hart);
    }
    fn wait(_: Option<u64>, _: impl FnMut()) {}
}

#[test]
fn n8_no_hart_sleeps_through_what_another_took_in() {
    let card = FakeCard::new(MTU);
    let unit: Unit = TreeUnit::new(adapter(&card));
    let on = |hart| HART.set(hart);
    let woken = || WOKEN.replace(0);
    let waiting = |unit: &Unit| unit.with(|tree| tree.front(WORLD).is_none());

    // Hart 1 has looked; then hart 0 takes the result in: hart 1 must look again, once.
    on(1);
    unit.look();
    assert!(waiting(&unit));
    on(0);
    deliver(&card, result(0, 0), &[]);
    assert!(!waiting(&unit));
    assert_eq!(woken(), 0, "nobody sleeps");
    on(1);
    assert!(unit.fall_asleep());
    assert!(!unit.fall_asleep());
    // Now it sleeps, and is woken by an interrupt and by whoever takes something in.
    assert_eq!(card.receive(&frame(NODE, NETWORK, &result(1, 0), &[])), Some(true));
    on(2);
    assert!(!waiting(&unit));
    assert_eq!(woken(), 1 << 1);
    on(1);
    unit.wake_up();
    assert!(unit.fall_asleep(), "it has not seen the second");
    // What has come and nobody took in ends the attempt as well.
    deliver(&card, result(2, 0), &[]);
    assert!(unit.fall_asleep());
    assert!(!unit.fall_asleep());
    on(3);
    deliver(&card, result(3, 0), &[]);
    assert!(unit.fall_asleep());
    assert_eq!(woken(), 1 << 1);
}

#[test]
fn n8_what_comes_in_the_middle_of_a_look_is_looked_at_again() {
    let card = FakeCard::new(MTU);
    let unit: Unit = TreeUnit::new(adapter(&card));
    let contribute = || unit.contribute(WORLD, AluOperation::NOTHING, 0, &[]);
    while contribute().is_ok() {}
    unit.look();
    assert_eq!(contribute(), Err(InjectError::Full));
    // The look for results takes the credit in that a contribution has just been refused for.
    let credit = TreeEnvelope { taken: 1, ..TreeEnvelope::new(TreePacketKind::Credit, WORLD, NETWORK) };
    deliver(&card, credit, &[]);
    assert!(!unit.receive(WORLD, |_| true));
    assert!(unit.fall_asleep());
    unit.look();
    assert_eq!(contribute(), Ok(()));
    assert!(!unit.fall_asleep());
}

#[test]
fn s2_a_call_is_answered_in_a_buffer_of_its_own_until_its_caller_has_read_it() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    let reply = |call: &TreeEnvelope, status, payload: &[u8]| {
        deliver(&card, TreeEnvelope { kind: TreePacketKind::Reply, status, ..*call }, payload);
    };
    let ship = |tree: &mut TreeAdapter<Nic>, text: &[u8]| {
        let call = tree.ship(text.len(), |into| into.copy_from_slice(text))?;
        tree.flush();
        let (envelope, payload) = sent(&card).expect("a call");
        assert_eq!((envelope.kind, &payload[..]), (TreePacketKind::Ship, text));
        Ok::<_, InjectError>((call, envelope))
    };
    let all: Vec<_> = (0..SHIPPED_CALLS).map(|_| ship(&mut tree, b"call").expect("a place")).collect();
    assert_eq!(tree.ship(0, |_| {}), Err(InjectError::Full));
    assert_eq!(tree.ship(1025, |_| {}), Err(InjectError::Length));
    // In any order, and each to its own.
    for (number, (_, envelope)) in all.iter().enumerate().rev() {
        reply(envelope, Status::Good, &[number as u8; 3]);
    }
    tree.advance();
    for (number, (call, _)) in all.iter().enumerate() {
        assert_eq!(tree.reply(*call), Some((Status::Good, &[number as u8; 3][..])));
        tree.leave(*call);
        assert_eq!(tree.reply(*call), None);
    }
    let (call, envelope) = ship(&mut tree, b"again").expect("a place");
    reply(&envelope, Status::Dead, b"ignored");
    tree.advance();
    assert_eq!(tree.reply(call), Some((Status::Dead, &[][..])));
    tree.leave(call);
    assert_eq!(tree.faults().total(), 0);
}

#[test]
fn s2_a_late_answer_is_nobody_elses_and_d9_one_to_no_call_is_dropped() {
    let card = FakeCard::new(MTU);
    let mut tree = adapter(&card);
    let call = tree.ship(0, |_| {}).expect("a place");
    tree.flush();
    let (envelope, _) = sent(&card).expect("a call");
    let reply = TreeEnvelope { kind: TreePacketKind::Reply, ..envelope };
    tree.leave(call);
    // Its place is not taken until the answer has come.
    let others: Vec<_> = (1..SHIPPED_CALLS).map(|_| tree.ship(0, |_| {}).expect("a place")).collect();
    assert_eq!(tree.ship(0, |_| {}), Err(InjectError::Full));
    deliver(&card, reply, b"late");
    tree.advance();
    assert_eq!(tree.faults().total(), 0);
    let next = tree.ship(0, |_| {}).expect("its place is free");
    // The same again, others in number and place, one to a call that another answer has come for.
    for wrong in [
        reply,
        TreeEnvelope { sequence: 77, ..reply },
        TreeEnvelope { argument: SHIPPED_CALLS as u32, ..reply },
        TreeEnvelope { argument: u32::MAX, ..reply },
    ] {
        deliver(&card, wrong, b"wrong");
    }
    tree.advance();
    assert_eq!(tree.faults().overrun, 4);
    assert!(others.iter().chain([&next]).all(|call| tree.reply(*call).is_none()));
    // However many come, the card keeps its buffers.
    for _ in 0..300 {
        deliver(&card, reply, b"wrong");
        tree.advance();
        tree.flush();
    }
}
