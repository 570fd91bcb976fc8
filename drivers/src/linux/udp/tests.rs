use super::*;
use crate::torus::{mac, rank};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use std::vec;
use std::vec::Vec;

const MTU: u16 = 1432;
const START: usize = 64;
const BUFFER: usize = 2048;

/// Sockets at addresses of their own.
fn sockets(count: usize, host: &str) -> Vec<UdpSocket> {
    (0..count).map(|_| UdpSocket::bind((host, 0)).unwrap()).collect()
}

/// Cards at the addresses of these sockets, with so many buffers each; one address more is nobody's.
fn cards(sockets: Vec<UdpSocket>, buffers: usize) -> Vec<UdpCard> {
    let count = sockets.len();
    let nodes: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let closed = sockets[0].local_addr().unwrap().ip();
    let closed = UdpSocket::bind((closed, 0)).unwrap().local_addr().unwrap();
    drop(sockets);
    let nodes: Box<[_]> = nodes.into_iter().chain([closed]).collect();
    let card = |own| {
        let mut card = UdpCard::bind(own, nodes.clone(), MTU, rank).unwrap();
        let most = ETHERNET_HEADER + usize::from(MTU);
        card.start([mac(own as u32); 2], START, most);
        (0..buffers).for_each(|_| card.lend(vec![0; BUFFER].leak()));
        card
    };
    (0..count).map(card).collect()
}

/// A frame with these bytes behind its header.
fn frame(to: u32, from: u32, body: &[u8]) -> &'static [u8] {
    [&mac(to)[..], &mac(from), &[0x88, 0xb6], body].concat().leak()
}

fn transmit(card: &mut UdpCard, frame: &'static [u8]) {
    let (front, rest) = frame.split_at(ETHERNET_HEADER.min(frame.len()));
    let (first, second) = rest.split_at(rest.len() / 2);
    // SAFETY: what is lent lives for ever and does not change.
    assert!(unsafe { card.transmit(Lent::new(front), [first, second].map(Lent::new), 7) });
    assert_eq!((card.reclaim(), card.reclaim()), (Some(7), None));
}

/// The next frame that comes, as bytes; its buffer is lent again. None if none comes.
fn next(card: &mut UdpCard) -> Option<Vec<u8>> {
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        // Nothing is to be overlooked by who polls.
        if let Some((buffer, len)) = card.receive() {
            let frame = buffer[START..START + len].to_vec();
            card.lend(buffer);
            return Some(frame);
        }
    }
    None
}

#[test]
fn h1_datagrams_come_in_order_and_whole_over_both_families() {
    for host in ["127.0.0.1", "::1"] {
        // A machine may have no IPv6.
        if UdpSocket::bind((host, 0)).is_err() {
            continue;
        }
        let [a, b] = &mut cards(sockets(2, host), 4)[..] else { unreachable!() };
        for number in 0..20u8 {
            let sent = frame(1, 0, &vec![number; usize::from(number) * 70]);
            transmit(a, sent);
            assert_eq!(next(b).as_deref(), Some(sent));
        }
        for number in 0..3 {
            transmit(b, frame(0, 1, &[number]));
        }
        let came: Vec<_> = (0..3).map(|_| next(a).unwrap()[ETHERNET_HEADER]).collect();
        assert_eq!((came, a.faults(), b.faults()), (vec![0, 1, 2], 0, 0));
    }
}

#[test]
fn h1_what_does_not_fit_or_has_no_target_is_lost_and_counted() {
    let [a, b] = &mut cards(sockets(2, "127.0.0.1"), 4)[..] else { unreachable!() };
    transmit(a, frame(1, 0, &[1; MTU as usize + 1]));
    // Nobody's address, no node's, and none at all.
    transmit(a, frame(9, 0, &[1]));
    transmit(a, &[0xff; 20]);
    transmit(a, &[1, 2]);
    assert_eq!(a.faults(), 4);
    let longest = frame(1, 0, &[1; MTU as usize]);
    transmit(a, longest);
    assert_eq!((next(b).as_deref(), next(b)), (Some(longest), None));
    // Where nobody listens it is lost without a word, again and again, and the card goes on.
    (0..10).for_each(|_| transmit(a, frame(2, 0, &[1])));
    transmit(a, frame(1, 0, &[5]));
    assert_eq!(next(b).map(|frame| frame[ETHERNET_HEADER]), Some(5));
    assert_eq!((a.faults(), b.faults()), (4, 0));
}

#[test]
fn d9_datagrams_of_strangers_and_in_anothers_name_are_dropped_and_counted() {
    let [a, b, c] = &mut cards(sockets(3, "127.0.0.1"), 2)[..] else { unreachable!() };
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for wrong in [frame(1, 0, &[1]), frame(1, 7, &[1]), &[], &[0; 11], &[0xff; 1 << 12]] {
        stranger.send_to(wrong, a.nodes[1]).unwrap();
    }
    // Node 2 says that it is node 0.
    transmit(c, frame(1, 0, &[1]));
    assert_eq!((next(b), b.faults()), (None, 6));
    transmit(a, frame(1, 0, &[3]));
    assert_eq!(next(b).map(|frame| frame[ETHERNET_HEADER]), Some(3));
}

#[test]
fn n8_a_card_with_a_datagram_or_a_cookie_lets_nobody_sleep() {
    let [a, b] = &mut cards(sockets(2, "127.0.0.1"), 1)[..] else { unreachable!() };
    assert!(!a.arm(true) && !b.arm(true));
    // SAFETY: what is lent lives for ever and does not change.
    assert!(unsafe { a.transmit(Lent::new(frame(1, 0, &[1])), [Lent::NONE; 2], 3) });
    assert!(a.arm(true) && !a.arm(false) && b.arm(false));
    assert_eq!((a.reclaim(), a.arm(true)), (Some(3), false));
    // Whoever has slept finds it at the first look, and so does who polls, though it has just found nothing.
    let (buffer, _) = b.receive().unwrap();
    assert!(b.receive().is_none() && !b.arm(false), "it has no buffer");
    b.lend(buffer);
    assert!(b.receive().is_none());
    transmit(a, frame(1, 0, &[2]));
    assert!((0..=RESTS).any(|_| b.receive().is_some()));
}
