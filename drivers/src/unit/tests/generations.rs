//! Clients that have a place one after the other: what is for one is never another's.

use super::*;
use pami::device::{Full, Receiving, Sending};
use pami::endpoint::CLIENTS;

/// What `origin` says to task 1, as client `client`.
fn word(client: ClientId, message: u32) -> Envelope {
    let of = |task| Endpoint::from_parts(client, task, ContextOffset(0));
    envelope(of(0), of(1), message)
}

/// Drives both nodes until nothing moves.
fn settle<const TEST: usize>(units: &[&'static Unit<TEST>]) {
    for _ in 0..100 {
        units.iter().for_each(|unit| {
            unit.progress();
        });
    }
}

#[test]
fn p1_r1_what_comes_early_for_a_client_waits_for_it_and_the_one_before_gets_its_own() {
    let net = Net::new(2);
    let units = units::<20>(&net, 2, 1, None);
    let [first, second, third] = [0, 1, 2].map(|generation| ClientId::new(1, generation));
    let open = |node: usize, client| units[node].open(client, 0, 0, Sharing::Exclusive).unwrap();
    let mut b = open(1, first);
    // The other task is ahead by two clients, and late in one thing.
    for (client, message) in [(first, 0), (second, 1), (third, 2), (second, 3), (first, 4)] {
        let mut a = open(0, client);
        a.push_bcopy(torus(1), &word(client, message), &[], &pattern(message, 40)).unwrap();
        settle(&units);
    }
    let messages = |b: &mut TestPort<20>| {
        let mut seen = Vec::new();
        while let Some(arrival) = b.pull() {
            assert_eq!(arrival.data(), pattern(arrival.envelope().message, 40));
            seen.push(arrival.envelope().message);
            b.release(arrival);
        }
        seen
    };
    assert_eq!(messages(&mut b), [0, 4]);
    for (client, expected) in [(second, [1, 3].as_slice()), (third, &[2])] {
        drop(b);
        units[1].renew(client, 0);
        b = open(1, client);
        settle(&units);
        assert_eq!(messages(&mut b), expected);
    }
    let received = units[1].statistics();
    assert_eq!((received.received_packets, received.late, received.dropped.total()), (5, 0, 0));
}

#[test]
fn p1_r1_what_is_late_of_a_client_that_ended_is_dropped_and_its_buffers_come_back() {
    let net = Net::new(2);
    let units = units::<21>(&net, 2, 1, None);
    let [first, second] = [0, 1].map(|generation| ClientId::new(1, generation));
    let mut a = units[0].open(first, 0, 0, Sharing::Exclusive).unwrap();
    let (rounds, of_a_round) = (if cfg!(miri) { 13 } else { 100 }, 8);
    for round in 0..rounds {
        for _ in 0..of_a_round {
            a.push_bcopy(torus(1), &word(first, round), &[], &[1; 40]).unwrap();
        }
        settle(&units);
        // Half of it is there already when the client ends, though nobody took it.
        if round == 10 {
            units[1].renew(second, 0);
        }
    }
    let mut b = units[1].open(second, 0, 0, Sharing::Exclusive).unwrap();
    assert!(b.pull().is_none());
    drop(a);
    let mut a = units[0].open(second, 0, 0, Sharing::Exclusive).unwrap();
    a.push_bcopy(torus(1), &word(second, 7), &[], &[2; 40]).unwrap();
    settle(&units);
    assert_eq!(b.pull().map(|arrival| arrival.envelope().message), Some(7));
    let received = units[1].statistics();
    assert_eq!((received.late, received.dropped.total()), (u64::from((rounds - 11) * of_a_round), 0));
}

#[test]
fn p1_p9_clients_of_one_node_hear_their_own_only_and_late_lines_hold_nobody_up() {
    let net = Net::new(1);
    let map = TaskMap::new(1, 2, MapOrder::TasksFirst).unwrap();
    let adapter = Some(FakeAdapter::new(&net, 0, MTU));
    let unit: &'static Unit<22> = Unit::start(setup(adapter, 0, map)).unwrap();
    let [first, second, third] = [0, 1, 2].map(|generation| ClientId::new(1, generation));
    let open = |task, client| unit.open(client, task, 0, Sharing::Exclusive).unwrap();
    let say = |client, message| {
        let mut a = open(0, client);
        let path = a.locate(Endpoint::from_parts(client, 1, ContextOffset(0)), true).unwrap();
        assert!(matches!(path, Path::Local(_)));
        a.push_bcopy(path, &word(client, message), &[], &pattern(message, 20))
    };
    let hear = |b: &mut TestPort<22>| {
        let arrival = b.pull()?;
        let envelope = arrival.envelope();
        assert_eq!((envelope.origin.task(), arrival.data()), (0, &pattern(envelope.message, 20)[..]));
        let heard = (envelope.origin.client(), envelope.target.client(), envelope.message);
        b.release(arrival);
        Some(heard)
    };
    let mut b = open(1, first);
    say(first, 1).unwrap();
    say(second, 2).unwrap();
    say(second, 3).unwrap();
    assert_eq!(hear(&mut b), Some((first, first, 1)));
    assert_eq!(hear(&mut b), None);
    drop(b);
    unit.renew(second, 1);
    let mut b = open(1, second);
    assert_eq!(hear(&mut b), Some((second, second, 2)));
    drop(b);
    // The ring fills up with what nobody will take.
    let mut sent = 0;
    while say(second, sent).is_ok() {
        sent += 1;
    }
    assert_eq!(say(third, 9), Err(Full));
    unit.renew(third, 1);
    let mut b = open(1, third);
    assert_eq!(hear(&mut b), None);
    say(third, 9).unwrap();
    b.look();
    assert_eq!(hear(&mut b), Some((third, third, 9)));
}

#[test]
fn p1_n4_every_context_of_every_task_and_client_of_a_node_has_a_port_of_its_own() {
    let (net, tasks) = (Net::new(1), 3);
    let unit = units::<60>(&net, 1, tasks, None)[0];
    let mut numbers = Vec::new();
    for client in 0..CLIENTS as u8 {
        for (task, context) in (0..tasks).flat_map(|task| [(task, 0), (task, 1)]) {
            numbers.push(unit.port_number(ClientId::new(client, 0), task, context).unwrap());
        }
    }
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u16), "{numbers:?}");
    assert_eq!([(tasks, 0), (0, 2)].map(|(task, of)| unit.port_number(ClientId(0), task, of)), [None; 2]);
}
