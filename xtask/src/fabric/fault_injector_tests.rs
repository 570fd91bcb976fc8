//! The fault injector, and the torus with it, in a time of the tests' own.

use super::super::torus::Torus;
use super::*;
use proptest::prelude::*;

const LENGTH: usize = 60;

fn injector(words: &str, nodes: u32) -> FaultInjector {
    FaultInjector::new(words.parse().unwrap(), nodes)
}

/// A packet whose frame tells which it is.
fn packet(injector: &mut FaultInjector, origin: u32, target: u32) -> Packet {
    let number = injector.number(origin, target);
    let mut frame = vec![0; ETHERNET_BYTES];
    frame.extend(number.to_le_bytes());
    frame.resize(LENGTH, origin as u8);
    Packet { number, ..Packet::new(origin, target, frame) }
}

/// What `target` gets of packets from the given origins, one a microsecond, and then for as long as it takes.
fn receive(injector: &mut FaultInjector, target: u32, origins: impl IntoIterator<Item = u32>) -> Vec<Packet> {
    let (mut now, mut got) = (Duration::ZERO, Vec::new());
    for origin in origins {
        let mut arriving = Some(packet(injector, origin, target));
        while let Some(packet) = injector.next(target, now, || arriving.take()) {
            got.push(packet);
        }
        assert!(injector.held(target) <= MOST_HELD);
        now += Duration::from_micros(1);
    }
    while let Some(due) = injector.due(target) {
        assert!(injector.next(target, due - Duration::from_nanos(1), || None).is_none(), "before it is due");
        while let Some(packet) = injector.next(target, due, || None) {
            got.push(packet);
        }
    }
    assert_eq!(injector.held(target), 0);
    got
}

fn numbers(packets: &[Packet], origin: u32) -> Vec<u64> {
    packets.iter().filter(|packet| packet.origin == origin).map(|packet| packet.number).collect()
}

/// Any faults that lose and change nothing.
fn lossless() -> impl Strategy<Value = String> {
    (0..=100u32, 0..=100u32, 0..30_000u32, any::<u64>()).prop_map(|(dup, reorder, delay, seed)| {
        format!("dup={dup}%,reorder={reorder}%,delay=0..{delay}us,seed={seed}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn x4_without_drop_nothing_is_lost_or_changed(
        words in lossless(), origins in proptest::collection::vec(0..3u32, 0..1500)
    ) {
        let mut injector = injector(&words, 3);
        let got = receive(&mut injector, 1, origins.iter().copied());
        let doubled: u64 = (0..3).map(|origin| injector.counts(origin).duplicated).sum();
        prop_assert_eq!(got.len() as u64, origins.len() as u64 + doubled);
        for origin in 0..3 {
            let mut got = numbers(&got, origin);
            got.sort_unstable();
            let most = got.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0);
            prop_assert!(most <= 2, "{} copies", most);
            got.dedup();
            let sent = origins.iter().filter(|of| **of == origin).count() as u64;
            prop_assert_eq!(got, (0..sent).collect::<Vec<_>>());
        }
        for packet in got {
            prop_assert_eq!(&packet.frame[ETHERNET_BYTES..][..8], &packet.number.to_le_bytes());
            prop_assert!(packet.frame[ETHERNET_BYTES + 8..].iter().all(|byte| u32::from(*byte) == packet.origin));
        }
    }

    #[test]
    fn x4_fates_do_not_depend_on_how_pairs_come_in_between(
        seed in any::<u64>(), origins in proptest::collection::vec(0..3u32, 0..500)
    ) {
        let words = format!("drop=20%,dup=20%,corrupt=20%,seed={seed}");
        let fates = |origins: &[u32]| {
            let got = receive(&mut injector(&words, 3), 2, origins.iter().copied());
            [0, 1, 2].map(|origin| got.iter().filter(|p| p.origin == origin).cloned().collect::<Vec<_>>())
        };
        let mut sorted = origins.clone();
        sorted.sort_unstable();
        prop_assert_eq!(fates(&origins), fates(&sorted));
    }

    #[test]
    fn x4_what_is_injected_and_doubled_is_delivered_or_dropped_or_cut(
        seed in any::<u64>(), cut in proptest::collection::vec((0..8u32, 0..6usize), 0..3),
        pairs in proptest::collection::vec((0..8u32, 0..8u32), 0..1500)
    ) {
        let words = format!("drop=10%,corrupt=10%,dup=10%,reorder=10%,delay=0..100us,seed={seed}");
        let mut injector = injector(&words, 8);
        let mut torus = Torus::new("2x2x2".parse().unwrap(), 8);
        for (node, link) in cut {
            torus.set_down(node, pami::topology::Direction::from_index(link), true);
        }
        let mut pairs = pairs.into_iter().peekable();
        let (mut now, mut sent, mut delivered) = (Duration::ZERO, 0, 0);
        while pairs.peek().is_some() || torus.in_flight() > 0 || (0..8).any(|node| injector.held(node) > 0) {
            while let Some((origin, target)) = pairs.next_if(|&(origin, _)| torus.has_room(origin)) {
                let packet = packet(&mut injector, origin, target);
                torus.inject(packet).unwrap();
                sent += 1;
            }
            torus.step();
            for node in 0..8 {
                while injector.next(node, now, || torus.eject(node)).is_some() {
                    delivered += 1;
                }
            }
            now += Duration::from_micros(1);
            prop_assert!(now < Duration::from_secs(1), "it does not end");
        }
        let sum = |what: fn(&FaultCounts) -> u64| (0..8).map(|node| what(&injector.counts(node))).sum::<u64>();
        let cut: u64 = torus.counters().map(|counters| counters.cut).sum();
        prop_assert_eq!(delivered, sent - cut - sum(|it| it.dropped) + sum(|it| it.duplicated));
    }
}

#[test]
fn x4_shares_are_met_and_the_same_seed_strikes_the_same_packets() {
    const SENT: usize = 100_000;
    let words = "drop=1%,corrupt=0.1%,dup=2%,reorder=5%";
    let run = |words: &str| {
        let mut injector = injector(words, 2);
        let got = receive(&mut injector, 1, std::iter::repeat_n(0, SENT));
        (injector.counts(0), got)
    };
    for seed in 0..8 {
        let words = format!("{words},seed={seed}");
        let (counts, got) = run(&words);
        let close = |count: u64, of: u64, share: f64| {
            let (mean, variance) = (of as f64 * share, of as f64 * share * (1.0 - share));
            let off = (count as f64 - mean).abs() / variance.sqrt();
            assert!(off < 4.0, "seed {seed}: {count} of {of}, {off} standard deviations off");
        };
        let carried = SENT as u64 - counts.dropped;
        close(counts.dropped, SENT as u64, 0.01);
        close(counts.duplicated, carried, 0.02);
        close(counts.corrupted, got.len() as u64, 0.001);
        close(counts.reordered, got.len() as u64, 0.05);
        assert_eq!(run(&words), (counts, got));
    }
    // Seeds keep their meaning: a failure that was seen with one can be seen again.
    let expected =
        FaultCounts { dropped: 991, corrupted: 88, duplicated: 1939, delayed: 0, reordered: 4936, cut: 0 };
    assert_eq!(run(&format!("{words},seed=7")).0, expected);
    assert_ne!(run("drop=1%,seed=1").1, run("drop=1%,seed=2").1);
}

#[test]
fn x4_another_share_of_one_fault_leaves_the_others_where_they_were() {
    let lost = |words: &str| {
        let mut got = numbers(&receive(&mut injector(words, 2), 1, [0; 2000]), 0);
        got.sort_unstable();
        got.dedup();
        got
    };
    let alone = lost("drop=5%,seed=3");
    assert!(alone.len() < 2000);
    assert_eq!(lost("drop=5%,dup=50%,corrupt=50%,reorder=20%,delay=1ms,seed=3"), alone);
    // What a small share takes, a greater one takes too.
    assert!(lost("drop=10%,seed=3").iter().all(|number| alone.contains(number)));
}

#[test]
fn x4_corruption_changes_one_to_eight_places_behind_the_ethernet_header() {
    let mut changes = [0; 9];
    let (mut first, mut last, mut single) = (false, false, 0);
    for _ in 0..10 {
        let mut injector = injector("corrupt=100%,seed=5", 2);
        for got in receive(&mut injector, 1, [0; 2000]) {
            let sent = {
                let mut frame = vec![0; ETHERNET_BYTES];
                frame.extend(got.number.to_le_bytes());
                frame.resize(LENGTH, 0);
                frame
            };
            assert_eq!(got.frame.len(), LENGTH);
            assert_eq!(got.frame[..ETHERNET_BYTES], sent[..ETHERNET_BYTES]);
            let masks: Vec<u8> = got.frame.iter().zip(&sent).map(|(a, b)| a ^ b).collect();
            changes[masks.iter().filter(|mask| **mask != 0).count()] += 1;
            first |= masks[ETHERNET_BYTES] != 0;
            last |= masks[LENGTH - 1] != 0;
            single += u32::from(masks.iter().all(|mask| mask.count_ones() <= 1));
        }
    }
    assert_eq!(changes[0], 0);
    assert!(changes[1..].iter().all(|&count| count > 100), "{changes:?}");
    assert!(first && last && single > 8000, "{single} of 20000 with single bits");
}

#[test]
fn x4_a_reordered_packet_is_overtaken_by_one_to_eight_of_its_pair() {
    let mut overtakers = [0; 9];
    for seed in 0..200 {
        let mut injector = injector(&format!("reorder=2%,seed={seed}"), 2);
        let got = receive(&mut injector, 1, [0, 1].into_iter().cycle().take(400));
        for origin in 0..2 {
            let got = numbers(&got, origin);
            for (place, number) in got.iter().enumerate() {
                overtakers[got[..place].iter().filter(|before| *before > number).count()] += 1;
            }
        }
    }
    assert!(overtakers[1..].iter().all(|&count| count > 50), "{overtakers:?}");
    assert!(overtakers[0] > 70_000, "{overtakers:?}");

    // Nobody comes to overtake it: it waits, but not for ever.
    let mut injector = injector("reorder=100%", 2);
    let mut arriving = Some(packet(&mut injector, 0, 1));
    assert!(injector.next(1, Duration::ZERO, || arriving.take()).is_none());
    assert_eq!(injector.due(1), Some(OVERTAKEN_TIMEOUT));
    assert!(injector.next(1, OVERTAKEN_TIMEOUT, || None).is_some());
}

#[test]
fn x4_a_delay_lies_between_its_bounds_and_a_fixed_one_keeps_the_order() {
    let micros = Duration::from_micros;
    let mut late = injector("delay=5..20ms,seed=1", 2);
    let mut sent = 0;
    let mut arrive = |injector: &mut FaultInjector| {
        let packet = packet(injector, 0, 1);
        sent += 1;
        packet
    };
    let mut sum = Duration::ZERO;
    for _ in 0..MOST_HELD {
        let mut arriving = Some(arrive(&mut late));
        assert!(late.next(1, Duration::ZERO, || arriving.take()).is_none());
    }
    assert!(late.due(1).unwrap() >= micros(5000));
    while let Some(due) = late.due(1) {
        assert!(due <= micros(20_000));
        assert!(late.next(1, due, || None).is_some());
        sum += due;
    }
    let mean = sum / MOST_HELD as u32;
    assert!(mean > micros(11_500) && mean < micros(13_500), "{mean:?}");
    assert_eq!(late.counts(0).delayed, MOST_HELD as u64);

    let mut fixed = injector("delay=100us", 2);
    assert_eq!(numbers(&receive(&mut fixed, 1, [0; 1000]), 0), (0..1000).collect::<Vec<_>>());
    assert_eq!(fixed.counts(0).delayed, 1000);
}

#[test]
fn x4_what_is_held_back_is_bounded_and_the_rest_passes_uncounted() {
    let mut late = injector("delay=1s,seed=1", 2);
    let got = receive(&mut late, 1, [0; 2 * MOST_HELD]);
    assert_eq!(late.counts(0).delayed, MOST_HELD as u64);
    assert_eq!(got.len(), 2 * MOST_HELD);
    assert_eq!(got[0].number, MOST_HELD as u64, "the first that found no room came first");
}
