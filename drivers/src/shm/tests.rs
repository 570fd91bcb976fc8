use super::*;
use pami::device::Arrival as _;
use pami::endpoint::{ClientId, ContextOffset};
use rings::buffer::Buffer;
use std::thread;
use std::vec;

const COPY_BYTES: usize = 4096;
/// Small enough for Miri.
const ROUNDS: u32 = if cfg!(miri) { 4 } else { 200 };

fn endpoint(port: u16) -> Endpoint {
    Endpoint::from_parts(ClientId(1), u32::from(port) / 2, ContextOffset((port % 2) as u8))
}

fn shm(ports: usize, pairs: usize) -> &'static Shm {
    Box::leak(Box::new(Shm::new(ports, pairs, COPY_BYTES, None).unwrap()))
}

fn open(shm: &'static Shm, port: u16) -> ShmPort {
    shm.open(port, endpoint(port)).unwrap()
}

fn first(from: u16, to: u16, message: u32, len: usize) -> Envelope {
    Envelope {
        kind: Kind::EagerFirst,
        dispatch: 200,
        origin: endpoint(from),
        target: endpoint(to),
        message,
        offset: 0,
        total: len as u32,
    }
}

fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(7) ^ seed) as u8).collect()
}

fn lendable(data: &[u8]) -> rings::buffer::Lease {
    let mut buffer = Buffer::new(vec![0; data.len() + 128].leak()).unwrap();
    buffer.as_mut_slice()[..data.len()].copy_from_slice(data);
    buffer.lend()
}

#[test]
fn p9_every_size_reaches_the_sender_itself() {
    let mut port = open(shm(1, 1), 0);
    for (message, len) in [0, 1, 8, 24, 25, 40, 41, 64, 4088, 4096].into_iter().enumerate() {
        for header_len in [0, 8, 16, 17] {
            let (header, data) = (bytes(9, header_len), bytes(message as u32, len));
            let sent = first(0, 0, message as u32, len);
            match port.push_bcopy(0, &sent, &header, &data) {
                Ok(()) => (),
                Err(error) => {
                    assert!(error == PushError::TooLong && len + header_len > COPY_BYTES);
                    continue;
                }
            }
            let arrival = port.pull(|_| ()).unwrap();
            assert_eq!(arrival.envelope(), sent);
            assert_eq!((arrival.header(), arrival.data()), (&header[..], &data[..]));
        }
    }
    assert!(port.pull(|_| ()).is_none());
}

#[test]
fn p9_every_kind_and_field_of_an_envelope_arrives() {
    let shm = shm(4, 1);
    let (mut near, mut far) = (open(shm, 3), open(shm, 2));
    for kind in [Kind::Hello, Kind::Go, Kind::EagerFirst, Kind::EagerNext, Kind::EagerFirstAcked, Kind::Ack] {
        let sent = Envelope {
            kind,
            dispatch: 255,
            origin: endpoint(3),
            target: endpoint(2),
            message: u32::MAX,
            offset: u32::MAX - 1,
            total: u32::MAX - 2,
        };
        near.push_bcopy(2, &sent, &[], &[]).unwrap();
        assert_eq!(far.pull(|_| ()).unwrap().envelope(), sent);
    }
}

#[test]
fn p9_lent_data_are_read_in_place_and_come_back() {
    let len = if cfg!(miri) { 5000 } else { 1 << 20 };
    let shm = shm(2, 1);
    let (mut near, mut far) = (open(shm, 0), open(shm, 1));
    let data = bytes(3, len);
    let lease = lendable(&data);
    let source = lease.source().slice(0..len).unwrap();
    for header_len in [0, 16, 17, 4096] {
        let header = bytes(5, header_len);
        near.push_zcopy(1, &first(0, 1, 0, len), &header, &source).unwrap();
        let arrival = far.pull(|_| ()).unwrap();
        assert_eq!(arrival.header(), header);
        assert_eq!(arrival.data().as_ptr(), source.as_slice().as_ptr());
        assert!(arrival.data() == data);
    }
    assert_eq!(
        near.push_zcopy(1, &first(0, 1, 0, len), &[0; COPY_BYTES + 1], &source),
        Err(PushError::TooLong)
    );
    drop(source);
    assert!(lease.is_idle());
}

#[test]
fn p9_all_pairs_of_eight_ports_exchange_every_size_in_order() {
    const PORTS: u16 = if cfg!(miri) { 3 } else { 8 };
    let sizes = [0, 1, 8, 40, 41, 64, 4096];
    let shm = shm(usize::from(PORTS), usize::from(PORTS * PORTS));
    let lengths = move |message: u32| sizes[message as usize % sizes.len()];
    let threads = (0..PORTS).map(|me| {
        thread::spawn(move || {
            let mut port = open(shm, me);
            let mut sent = [0; PORTS as usize];
            let mut received = [0; PORTS as usize];
            let leases: Vec<_> = sizes.map(|len| lendable(&bytes(u32::from(me), len))).into();
            let sources: Vec<_> =
                leases.iter().zip(sizes).map(|(lease, len)| lease.source().slice(0..len).unwrap()).collect();
            while sent.iter().chain(&received).any(|&count| count < ROUNDS) {
                for to in 0..PORTS {
                    let message = sent[usize::from(to)];
                    if message == ROUNDS {
                        continue;
                    }
                    let source = &sources[message as usize % sizes.len()];
                    let envelope = first(me, to, message, source.len());
                    let pushed = if message / 7 % 2 == 0 {
                        port.push_bcopy(to, &envelope, &[], source.as_slice())
                    } else {
                        port.push_zcopy(to, &envelope, b"header", source)
                    };
                    match pushed {
                        Ok(()) => sent[usize::from(to)] += 1,
                        Err(error) => assert_eq!(error, PushError::Full),
                    }
                }
                let mut idle = true;
                while let Some(arrival) = port.pull(|_| ()) {
                    let envelope = arrival.envelope();
                    let from = (0..PORTS).find(|&from| endpoint(from) == envelope.origin).unwrap();
                    let message = received[usize::from(from)];
                    assert_eq!(envelope, first(from, me, message, lengths(message)));
                    assert_eq!(arrival.header().len(), if message / 7 % 2 == 0 { 0 } else { 6 });
                    assert!(arrival.data() == bytes(u32::from(from), lengths(message)));
                    received[usize::from(from)] += 1;
                    idle = false;
                }
                if idle {
                    thread::yield_now();
                }
            }
            (leases, sources)
        })
    });
    let ended: Vec<_> =
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    for (leases, sources) in ended {
        drop(sources);
        assert!(leases.iter().all(rings::buffer::Lease::is_idle));
    }
    assert_eq!(shm.spares.lock().len(), 0);
}

#[test]
fn p11_a_stalled_receiver_stops_its_senders_only_and_they_go_on_later() {
    let shm = shm(3, 3);
    let (mut near, mut stalled, mut other) = (open(shm, 0), open(shm, 1), open(shm, 2));
    let lease = lendable(&[1; 100]);
    let source = lease.source();
    let mut messages = 0;
    while near.push_zcopy(1, &first(0, 1, messages, 100), &[], &source).is_ok() {
        messages += 1;
    }
    // The gate has a line too.
    assert_eq!(messages, LINES_PER_RING as u32 - 1);
    assert_eq!(near.push_bcopy(1, &first(0, 1, 0, 0), &[], &[]), Err(PushError::Full));
    near.push_bcopy(2, &first(0, 2, 0, 64), &[], &[7; 64]).unwrap();
    assert_eq!(other.pull(|_| ()).unwrap().data(), [7; 64]);

    drop(source);
    assert!(!lease.is_idle());
    drop(stalled.pull(|_| ()).unwrap());
    near.push_bcopy(1, &first(0, 1, messages, 0), &[], &[]).unwrap();
    for message in 1..=messages {
        assert_eq!(stalled.pull(|_| ()).unwrap().envelope().message, message);
    }
    assert!(stalled.pull(|_| ()).is_none() && lease.is_idle());
}

#[test]
fn p11_copies_stop_at_the_copy_slots_and_small_messages_go_on() {
    let shm = shm(2, 1);
    let (mut near, mut far) = (open(shm, 0), open(shm, 1));
    for message in 0..COPIES_PER_RING as u32 {
        near.push_bcopy(1, &first(0, 1, message, 41), &[], &[message as u8; 41]).unwrap();
    }
    assert_eq!(near.push_bcopy(1, &first(0, 1, 4, 41), &[], &[0; 41]), Err(PushError::Full));
    near.push_bcopy(1, &first(0, 1, 4, 8), &[], &[4; 8]).unwrap();
    for message in 0..=COPIES_PER_RING as u8 {
        assert_eq!(far.pull(|_| ()).unwrap().data()[0], message);
    }
    near.push_bcopy(1, &first(0, 1, 5, 41), &[], &[5; 41]).unwrap();
    assert_eq!(far.pull(|_| ()).unwrap().data(), [5; 41]);
}

#[test]
fn p9_a_chatty_peer_does_not_keep_the_others_waiting() {
    let shm = shm(3, 2);
    let (mut chatty, mut quiet, mut far) = (open(shm, 0), open(shm, 1), open(shm, 2));
    while chatty.push_bcopy(2, &first(0, 2, 0, 0), &[], &[]).is_ok() {}
    quiet.push_bcopy(2, &first(1, 2, 0, 0), &[], &[]).unwrap();
    let origins = core::iter::from_fn(|| far.pull(|_| ()).map(|arrival| arrival.envelope().origin));
    let order: Vec<_> = origins.collect();
    // One of the lines has the gate.
    assert_eq!(order.len(), LINES_PER_RING);
    assert!(order.iter().position(|&origin| origin == endpoint(1)).unwrap() <= BURST);
}

#[test]
fn p9_what_came_before_the_opening_or_while_closed_waits() {
    let shm = shm(2, 1);
    let mut near = open(shm, 0);
    near.push_bcopy(1, &first(0, 1, 0, 0), &[], &[]).unwrap();
    let mut far = open(shm, 1);
    assert!(matches!(shm.open(1, endpoint(1)), Err(ShmOpenError::InUse)));
    assert_eq!(far.pull(|_| ()).unwrap().envelope().message, 0);
    drop(far);
    near.push_bcopy(1, &first(0, 1, 1, 0), &[], &[]).unwrap();
    drop(near);
    let (mut near, mut far) = (open(shm, 0), open(shm, 1));
    near.push_bcopy(1, &first(0, 1, 2, 0), &[], &[]).unwrap();
    assert_eq!([1, 2], [(); 2].map(|()| far.pull(|_| ()).unwrap().envelope().message));
}

#[test]
fn p9_no_port_or_no_ring_left_is_an_error() {
    let shm = shm(3, 1);
    let mut port = open(shm, 0);
    assert!(matches!(shm.open(3, endpoint(3)), Err(ShmOpenError::NoSuchPort)));
    assert_eq!(port.connect(3), Err(PushError::Unreachable));
    assert_eq!(port.connect(1), Ok(()));
    assert_eq!(port.connect(1), Ok(()));
    assert_eq!(port.connect(2), Err(PushError::Unreachable));
    assert_eq!(port.push_bcopy(2, &first(0, 2, 0, 0), &[], &[]), Err(PushError::Unreachable));
    assert!(Shm::new(1, 1, 65536, None).is_err());
}
