//! Whole message units with a reliable layer below them.

use super::dice::Dice;
use super::wire::{Faults, Lossy, Memory, Wire};
use super::{elapse, now};
use crate::adapter::FABRIC;
use crate::platform::Platform;
use crate::reliable::{LINGER_NS, LINK_BYTES, Reliable};
use crate::torus::{ETHERTYPE, ETHERTYPE_RELIABLE, FRAME_HEADER, TorusAdapter, frame, mac};
use crate::unit::tests::{endpoint, envelope, pattern, setup, shared};
use crate::unit::{MessageUnit, NodePort, Setup, Sharing};
use crate::virtio::VirtioNet;
use crate::virtio::fake::FakeCard;
use pami::device::{
    Arrival, Gone, Liveness, Path, Port, Receiving, RemoteMemory, Sending, Sleeping, Unreachable,
};
use pami::endpoint::{ClientId, Endpoint};
use pami::mapping::{MapOrder, TaskMap};
use pami::packet::{Envelope, Header, Kind, Packet};
use pami::region::{Memory as Reachable, Rights};
use rings::buffer::Source;
use std::boxed::Box;
use std::vec::Vec;
use zerocopy::IntoBytes;

std::thread_local! {
    static SLEPT_UNTIL: core::cell::Cell<Option<u64>> = const { core::cell::Cell::new(None) };
    static WOKEN: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
}

/// One hart, which counts its wake-ups and sleeps no longer than it is told.
pub struct Hart;

impl Platform for Hart {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        0
    }

    fn now_ns() -> u64 {
        now()
    }

    fn wake(_hart: usize) {
        WOKEN.set(WOKEN.get() + 1);
    }

    fn wait(deadline_ns: Option<u64>, _acknowledge: impl FnMut()) {
        SLEPT_UNTIL.set(deadline_ns);
        elapse(deadline_ns.map_or(1_000_000, |deadline| deadline.saturating_sub(now())));
    }
}

type Adapter = Reliable<Lossy, Hart>;
type Unit = MessageUnit<Hart, Adapter>;

fn units(seed: u64, faults: Faults) -> (Wire, [&'static Unit; 2]) {
    let wire = Wire::new(2, seed, faults);
    let memory = Box::leak(Box::new(Memory::new()));
    let map = TaskMap::new(2, 1, MapOrder::NodesFirst).unwrap();
    let units = [0, 1].map(|node| {
        let adapter = Some(Reliable::new(Lossy::new(&wire, memory, node, 300, 64), node, 2));
        MessageUnit::start(Setup { harts: 1, ..setup(adapter, node, map) }).unwrap()
    });
    (wire, units)
}

/// Both ends of one context, which sends and receives numbered messages.
pub(super) struct Talker<A: crate::adapter::ReliableAdapter> {
    port: NodePort<Hart, A>,
    me: Endpoint,
    peer: Endpoint,
    sent: u32,
    received: u32,
}

impl<A: crate::adapter::ReliableAdapter> Talker<A> {
    pub(super) fn new(unit: &'static MessageUnit<Hart, A>, node: u32, context: u8) -> Self {
        let port = unit.open(ClientId(0), 0, context, Sharing::Exclusive).unwrap();
        Self { port, me: endpoint(node, context), peer: endpoint(1 - node, context), sent: 0, received: 0 }
    }

    pub(super) fn step(&mut self, total: u32) -> bool {
        let mut moved = self.port.progress();
        if self.sent < total {
            let message = self.sent;
            let path = Path::Torus(self.peer.task());
            let envelope = envelope(self.me, self.peer, message);
            let data = pattern(message, message as usize % 200);
            // Inline, copied and lent in turn.
            let pushed = if message % 3 == 2 {
                let lent: &'static [u8] = data.leak();
                self.port.push_zcopy(path, &envelope, &message.to_le_bytes(), &Source::from(lent))
            } else {
                self.port.push_bcopy(path, &envelope, &message.to_le_bytes(), &data)
            };
            if pushed.is_ok() {
                (self.sent, moved) = (message + 1, true);
            }
        }
        while let Some(arrival) = self.port.pull() {
            let message = self.received;
            assert_eq!(arrival.envelope().message, message);
            assert_eq!(arrival.header(), message.to_le_bytes());
            assert_eq!(arrival.data(), pattern(message, message as usize % 200));
            self.port.release(arrival);
            (self.received, moved) = (message + 1, true);
        }
        moved
    }

    pub(super) fn is_done(&self, total: u32) -> bool {
        self.sent == total && self.received == total
    }
}

#[test]
fn d8_message_units_over_bad_wires_deliver_each_contexts_packets_in_order() {
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let mut dice = Dice::new(seed);
        let faults = Faults {
            drop: dice.below(150),
            corrupt: dice.below(50),
            duplicate: dice.below(100),
            reorder: dice.below(200),
            latency: 10_000,
            jitter: dice.below(200_000),
        };
        let (_wire, units) = units(seed, faults);
        let mut talkers: Vec<_> = (0..2)
            .flat_map(|node| [0, 1].map(|context| (node, context)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(node, context)| Talker::new(units[node as usize], node, context))
            .collect();
        let total = if cfg!(miri) { 20 } else { 150 };
        let mut rounds = 0;
        while !talkers.iter().all(|talker| talker.is_done(total)) {
            let moved = talkers.iter_mut().fold(false, |moved, talker| talker.step(total) | moved);
            elapse(if moved { 5_000 } else { 200_000 });
            rounds += 1;
            assert!(rounds < 200_000, "seed {seed} hangs");
        }
        let statistics = units.map(|unit| unit.statistics());
        for one in statistics {
            assert_eq!(
                (one.received_packets, one.failed_packets, one.dropped.total()),
                (2 * u64::from(total), 0, 0)
            );
        }
        assert!(statistics[0].reliability.retransmitted > 0 || faults.drop < 10 || cfg!(miri), "seed {seed}");
    }
}

/// Messages of one context for another: how many there are, and how many were sent and came.
struct Flow {
    from: usize,
    to: usize,
    total: u32,
    sent: u32,
    received: u32,
}

/// The contexts of two nodes, and what they send each other.
struct Stage {
    wire: Wire,
    ports: Vec<NodePort<Hart, Adapter>>,
    flows: Vec<Flow>,
    rounds: u32,
}

impl Stage {
    fn new((wire, units): (Wire, [&'static Unit; 2]), flows: &[(usize, usize, u32)]) -> Self {
        let open = |port: u8| {
            units[usize::from(port / 2)].open(ClientId(0), 0, port % 2, Sharing::Exclusive).unwrap()
        };
        let flow = |&(from, to, total)| Flow { from, to, total, sent: 0, received: 0 };
        Self { wire, ports: (0..4).map(open).collect(), flows: flows.iter().map(flow).collect(), rounds: 0 }
    }

    /// A round in which contexts take what they have if they are `ready`.
    fn step(&mut self, ready: impl Fn(usize) -> bool) {
        let of = |port: usize| endpoint(port as u32 / 2, port as u8 % 2);
        let mut moved = false;
        for (number, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.sent < flow.total) {
            let header = [number as u32, flow.sent];
            let (envelope, data) = (
                envelope(of(flow.from), of(flow.to), flow.sent),
                pattern(flow.sent, flow.sent as usize % 200),
            );
            let path = Path::Torus(flow.to as u32 / 2);
            let pushed = if flow.sent % 3 == 2 {
                let lent: &'static [u8] = data.leak();
                self.ports[flow.from].push_zcopy(path, &envelope, header.as_bytes(), &Source::from(lent))
            } else {
                self.ports[flow.from].push_bcopy(path, &envelope, header.as_bytes(), &data)
            };
            flow.sent += u32::from(pushed.is_ok());
            moved |= pushed.is_ok();
        }
        for (at, port) in self.ports.iter_mut().enumerate() {
            moved |= port.progress();
            while let Some(arrival) = Some(&mut *port).filter(|_| ready(at)).and_then(NodePort::pull) {
                let header: &[u8; 8] = arrival.header().try_into().unwrap();
                let [number, message]: [u32; 2] = zerocopy::transmute!(*header);
                let flow = &mut self.flows[number as usize];
                assert_eq!((flow.to, message), (at, flow.received), "of {}", flow.from);
                assert_eq!(arrival.data(), pattern(message, message as usize % 200));
                flow.received += 1;
                port.release(arrival);
                moved = true;
            }
        }
        let state = || {
            let flows =
                self.flows.iter().map(|flow| [flow.from as u32, flow.to as u32, flow.sent, flow.received]);
            flows.collect::<Vec<_>>()
        };
        let next = self.wire.network().next_arrival();
        if moved {
            elapse(5_000);
        } else if let Some(next) = next.filter(|&next| next > now()) {
            elapse(next - now());
        } else {
            // Nothing is under way: somebody knows when to look again.
            let wakes = self.ports.iter_mut().map(|port| {
                SLEPT_UNTIL.set(Some(0));
                port.arm();
                port.sleep(None);
                port.disarm();
                SLEPT_UNTIL.get().is_some()
            });
            let wakes = wakes.fold(false, |some, wakes| some | wakes);
            let waits = (0..4).any(|port| !ready(port)) || self.all_came(|_| true);
            assert!(wakes || waits, "all sleep for ever: {:?}", state());
        }
        self.rounds += 1;
        assert!(self.rounds < 400_000, "it hangs: from, to, sent, received {:?}", state());
    }

    fn all_came(&self, which: impl Fn(&Flow) -> bool) -> bool {
        self.flows.iter().filter(|flow| which(flow)).all(|flow| flow.received == flow.total)
    }
}

#[test]
fn r1_p11_what_is_for_a_context_that_takes_nothing_holds_up_nothing_to_others_of_its_node() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        let mut dice = Dice::new(seed);
        let bad = seed % 4 != 0;
        let mut per_mille = |most| if bad { dice.below(most) } else { 0 };
        let (drop, corrupt, duplicate) = (per_mille(150), per_mille(50), per_mille(100));
        let (reorder, jitter) = (per_mille(200), per_mille(200_000));
        let (wire, units) =
            units(seed, Faults { drop, corrupt, duplicate, reorder, latency: 10_000, jitter });
        // Of one context for both of the other node, of its neighbour, to the own node, and back.
        let total = if cfg!(miri) { 60 } else { 150 };
        let flows = [
            (0, 2, total),
            (0, 3, total),
            (1, 3, total),
            (1, 2, total),
            (2, 0, total),
            (3, 2, total),
            (3, 1, total),
        ];
        let mut stage = Stage::new((wire, units), &flows);
        // Context 2 has its turn late, then now and then, and all is there.
        while !stage.all_came(|flow| flow.to != 2) {
            stage.step(|port| port != 2);
        }
        assert!(!stage.all_came(|flow| flow.to == 2));
        while !stage.all_came(|_| true) {
            let turn = (stage.rounds / 50).is_multiple_of(3);
            stage.step(|port| port != 2 || turn);
        }
        let statistics = units.map(|unit| unit.statistics());
        assert!(statistics[0].reliability.refused > 0, "seed {seed}: {:?}", statistics[0].reliability);
        for one in statistics {
            assert_eq!((one.failed_packets, one.dropped.total()), (0, 0));
        }
    }
}

#[test]
fn d8_a_unit_drains_although_a_peer_is_dead_and_says_which() {
    // Than find room.
    const MORE: u32 = 300;
    let (wire, [unit, _]) = units(1, Faults::NONE);
    let mut talker = Talker::new(unit, 0, 0);
    assert_eq!(talker.port.locate(talker.peer, true), Ok(Path::Torus(1)));
    wire.network().cut[1] = true;
    for round in 0.. {
        if talker.sent == MORE {
            break;
        }
        talker.step(MORE);
        elapse(5_000);
        if round == 1000 {
            assert!((1..MORE).contains(&talker.sent), "{} packets wait", talker.sent);
            unit.announce(1, Gone::Died);
            unit.drain();
            assert!(unit.is_dead(1) && !unit.is_dead(0));
            assert_eq!(unit.deaths(), 1);
        }
    }
    unit.drain();
    assert_eq!(talker.port.locate(talker.peer, true), Err(Unreachable::Gone(1, Gone::Died)));
    let statistics = unit.statistics();
    assert_eq!(statistics.failed_packets, u64::from(MORE));
    assert_eq!(statistics.reliability.dead_peers, 1);
}

#[test]
fn d8_units_that_have_drained_let_each_other_go_at_once() {
    let (_, [unit, peer]) = units(1, Faults::NONE);
    let mut talkers = [Talker::new(unit, 0, 0), Talker::new(peer, 1, 0)];
    while talkers.iter().any(|talker| talker.received < 5) {
        talkers.iter_mut().for_each(|talker| _ = talker.step(5));
        elapse(10_000);
    }
    let start = now();
    let rests = |unit: &Unit| unit.with_engine(|engine| engine.may_rest(now())) == Some(true);
    while ![unit, peer].map(rests).iter().all(|&rests| rests) {
        talkers.iter_mut().for_each(|talker| _ = talker.step(5));
        elapse(10_000);
        assert!(now() - start < LINGER_NS / 10, "each has told the other that it need not stay");
    }
}

#[test]
fn d8_a_sleeping_hart_wakes_up_to_send_again_what_was_lost() {
    let (wire, [unit, peer]) = units(1, Faults::NONE);
    let mut talkers = [Talker::new(unit, 0, 0), Talker::new(peer, 1, 0)];
    // Both know each other.
    while talkers[1].received < 1 {
        talkers.iter_mut().zip([1, 0]).for_each(|(talker, total)| _ = talker.step(total));
        elapse(10_000);
    }
    wire.network().faults.drop = 1000;
    while talkers[0].step(2) || talkers[0].sent < 2 {}
    let frames = wire.network().frames;
    wire.network().faults.drop = 0;
    // No deadline of the caller's, and nothing will interrupt.
    for _ in 0..10 {
        talkers[0].port.arm();
        talkers[0].port.sleep(None);
        talkers[0].port.disarm();
    }
    assert!(SLEPT_UNTIL.get().is_some_and(|until| until <= now()));
    assert!(wire.network().frames > frames, "nobody but the sleeper could send it");
    for _ in 0..100 {
        talkers[1].step(0);
        elapse(10_000);
    }
    assert_eq!(talkers[1].received, 2);
    // Once all is acknowledged, there is nothing to wake up for.
    talkers[1].port.sleep(None);
    for _ in 0..100 {
        talkers[0].step(2);
        elapse(10_000);
    }
    talkers[0].port.sleep(None);
    assert_eq!(SLEPT_UNTIL.get(), None);
}

type Nic = VirtioNet<Hart, FakeCard>;
pub(super) type CardUnit = MessageUnit<Hart, Reliable<TorusAdapter<Nic>, Hart>>;

/// The nodes of two cards, joined.
pub(super) fn card_units(cards: &[FakeCard; 2]) -> [&'static CardUnit; 2] {
    let map = TaskMap::new(2, 1, MapOrder::NodesFirst).unwrap();
    let units: [&'static CardUnit; 2] = [0, 1].map(|node| {
        let torus = TorusAdapter::new(Nic::new(cards[node as usize].clone()).unwrap(), node).unwrap();
        let adapter = Some(Reliable::new(torus, node, 2));
        MessageUnit::start(Setup { harts: 1, ..setup(adapter, node, map) }).unwrap()
    });
    for (card, node) in cards.iter().zip(0..) {
        let go = Envelope { kind: Kind::Go, ..envelope(endpoint(0, 0), endpoint(node, 0), 0) };
        let packet = Header::new(&go, 0, 0);
        let frame = frame(node, FABRIC, ETHERTYPE, packet.as_bytes());
        card.receive(&frame).unwrap();
    }
    units.iter().for_each(|unit| unit.join(2));
    for card in cards {
        let hello = card.transmit().unwrap().0;
        assert_eq!(hello[..6], mac(FABRIC));
        assert_eq!(hello[12..14], ETHERTYPE.to_be_bytes());
        assert_eq!(Packet::parse(&hello[FRAME_HEADER..]).unwrap().envelope.kind, Kind::Hello);
        // It has nothing more to send, and waits to be kicked.
        assert_eq!(card.transmit(), None);
    }
    units
}

#[test]
fn d8_over_torus_adapters_packets_have_link_headers_and_hello_has_none() {
    const CARD_MTU: u16 = 512;
    let cards = [FakeCard::new(CARD_MTU), FakeCard::new(CARD_MTU)];
    let stations = [[0x70, 0xb3, 0, 0, 0, 5], [0x70, 0xb3, 0, 0, 0, 6]];
    for (card, station) in cards.iter().zip(stations) {
        card.card().config[..6].copy_from_slice(&station);
    }
    let mut by_rank = [true; 2];
    let units = card_units(&cards);
    let mut talkers = [0, 1].map(|node| Talker::new(units[node as usize], node, 0));
    assert_eq!(talkers[0].port.mtu(), usize::from(CARD_MTU) - 8 - 32 - LINK_BYTES);
    let total = if cfg!(miri) { 60 } else { 400 };
    let (mut frames, mut rounds) = (0, 0);
    while !talkers.iter().all(|talker| talker.is_done(total)) {
        let moved = talkers.iter_mut().fold(false, |moved, talker| talker.step(total) | moved);
        for (node, card) in cards.iter().enumerate() {
            while let Some((frame, _)) = card.transmit() {
                if frame[..6] == mac(FABRIC) {
                    continue;
                }
                assert_eq!(frame[12..14], ETHERTYPE_RELIABLE.to_be_bytes());
                assert!(frame.len() >= FRAME_HEADER + LINK_BYTES);
                // To an address that is nobody's station, until the peer's is known.
                assert_eq!(frame[6..12], stations[node]);
                assert!(frames > 0 || frame[..6] == mac(1 - node as u32));
                by_rank[node] &= frame[..6] != stations[1 - node];
                assert!(by_rank[node] == (frame[..6] == mac(1 - node as u32)));
                frames += 1;
                // Every seventh is lost, every eleventh twice.
                for _ in 0..usize::from(frames % 7 != 0) + usize::from(frames % 11 == 0) {
                    // So is one that the other card has no buffer for.
                    let _ = cards[1 - node].receive(&frame);
                }
            }
        }
        elapse(if moved { 5_000 } else { 500_000 });
        rounds += 1;
        assert!(rounds < 100_000, "hangs");
    }
    assert_eq!(by_rank, [false; 2]);
    let statistics = units.map(|unit| unit.statistics());
    assert!(statistics[0].reliability.retransmitted > u64::from(total) / 20);
    assert_eq!(statistics[0].dropped.total() + statistics[1].dropped.total(), 0);
}

#[test]
fn d8_what_was_asked_of_a_dead_node_is_forgotten_before_its_death_is_told() {
    let (wire, [unit, peer]) = units(1, Faults::NONE);
    let (mut a, mut b) = (Talker::new(unit, 0, 0), Talker::new(peer, 1, 0));
    let memory = shared(&[7; 50_000]);
    let region = b.port.register(Reachable::Shared(memory.clone()), Rights::all()).unwrap();
    let own = a.port.register(Reachable::Shared(memory.clone()), Rights::all()).unwrap();
    let into = shared(&[0; 50_000]);
    let get = |me, peer, message| Envelope { kind: Kind::Get, total: 50_000, ..envelope(me, peer, message) };
    let mut other = Talker::new(unit, 0, 1);
    // More than the window takes, so that some wait in the injection FIFO; and the peer asks this node as well.
    for message in 0..40 {
        a.port.push_get(1, &get(a.me, a.peer, message), region, Some((&into, 0)), true).unwrap();
        b.port.push_get(0, &get(b.me, b.peer, message), own, Some((&into, 0)), true).unwrap();
    }
    for _ in 0..20 {
        a.port.progress();
        b.port.progress();
        elapse(30_000);
    }
    assert!(unit.statistics().placed > 10 && unit.statistics().sent_packets > 40, "both are at it");
    while a.port.completed().is_some() || b.port.completed().is_some() {}
    wire.network().cut[1] = true;
    elapse(100_000_000_000);
    a.port.progress();
    assert_eq!(a.port.deaths(), 0, "silence means nothing");
    unit.announce(1, Gone::Died);
    assert_eq!((a.port.first_dead(), a.port.is_dead(1)), (Some(1), true));
    // Those under way are forgotten already; those that still wait are with the next rounds, and whose memory they held is
    // woken, whoever runs the engine.
    a.port.arm();
    let woken = WOKEN.get();
    other.port.progress();
    assert_eq!(WOKEN.get(), woken + 1);
    a.port.disarm();
    peer.announce(0, Gone::Died);
    for _ in 0..5 {
        a.port.progress();
        b.port.progress();
    }
    assert!(into.reclaim().is_ok(), "nobody waits for data any more");
    assert!(a.port.completed().is_none() && b.port.completed().is_none());
    unit.drain();
    a.port.deregister(own);
    b.port.deregister(region);
    assert!(memory.reclaim().is_ok());
}

#[test]
fn r2_the_networks_notice_that_a_node_is_gone_ends_sleeps_and_nobody_elses_is_believed() {
    let (_, [unit, peer]) = units(1, Faults::NONE);
    let mut talkers = [Talker::new(unit, 0, 0), Talker::new(peer, 1, 0)];
    for _ in 0..100 {
        talkers.iter_mut().for_each(|talker| _ = talker.step(3));
        elapse(100_000);
    }
    let [mut a, _] = talkers;
    // Whoever waits is woken, though it has nothing under way to the node.
    a.port.arm();
    let woken = WOKEN.get();
    unit.announce(1, Gone::Ended);
    assert_eq!((WOKEN.get(), unit.deaths(), unit.first_dead()), (woken + 1, 1, None));
    assert_eq!(unit.gone(1), Some(Gone::Ended));
    a.port.disarm();
    assert_eq!(a.port.locate(a.peer, true), Err(Unreachable::Gone(1, Gone::Ended)));
    // Once told, it stays so; strangers and oneself are nobody to mourn.
    for node in [0, 1, 77] {
        unit.announce(node, Gone::Died);
    }
    assert_eq!((unit.deaths(), unit.first_dead()), (1, None));
    a.port.sleep(None);
    assert_eq!(SLEPT_UNTIL.get(), None, "nothing ticks");
    // A node that says so of another lies.
    let (_, [unit, peer]) = units(2, Faults::NONE);
    let (mut a, mut b) = (Talker::new(unit, 0, 0), Talker::new(peer, 1, 0));
    let lie = Envelope { kind: Kind::Gone, ..envelope(b.me, b.peer, 0) };
    b.port.push_bcopy(Path::Torus(0), &lie, &[], &[]).unwrap();
    for _ in 0..100 {
        b.port.progress();
        a.port.progress();
        elapse(100_000);
    }
    assert_eq!((unit.deaths(), unit.statistics().dropped.unexpected), (0, 1));
}

#[test]
fn d8_answers_that_always_come_late_are_waited_for() {
    // As among nodes that share few processors: an answer takes far longer than anybody guessed, and each packet is
    // alone on its way.
    let slow = Faults { latency: 150_000_000, ..Faults::NONE };
    let (_wire, units) = units(1, slow);
    let mut talkers = [Talker::new(units[0], 0, 0), Talker::new(units[1], 1, 0)];
    let (packets, looks) = (40, 20);
    for packet in 1..=packets {
        for _ in 0..looks {
            talkers[0].step(packet);
            talkers[1].step(0);
            elapse(1_000_000_000 / looks);
        }
    }
    assert_eq!(talkers[1].received, packets);
    let again = units[0].statistics().reliability.retransmitted;
    assert!(again < u64::from(packets) / 4, "{again} of {packets} packets were sent again for nothing");
}
