use super::*;
use crate::irq::Controller as _;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::os::unix::net::UnixStream;
use std::{thread, time};

/// Two nodes of two harts, with a page of memory each.
const SHAPE: Shape = Shape { node: 1, nodes: 2, harts: 2, bytes: 4096 };

/// Memory of so many bytes, which may shrink or not.
fn memory(bytes: usize, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes as u64).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn bytes() -> usize {
    shared_bytes(SHAPE.nodes, SHAPE.bytes).unwrap()
}

fn right() -> OwnedFd {
    memory(bytes(), SealFlags::SHRINK)
}

fn some_bells(count: usize) -> Descriptors {
    let bell = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    (0..count).map(bell).collect()
}

/// Hands descriptors over, as who starts the nodes does.
fn hand(socket: &UnixStream, descriptors: &[&OwnedFd]) {
    let descriptors: std::vec::Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_BELLS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(socket, &[IoSlice::new(b"s")], &mut ancillary, SendFlags::empty()).unwrap();
}

#[test]
fn h2_memory_that_is_not_as_it_must_be_is_refused_by_what_is_wrong() {
    let refused = |memory, bells, shape| Peers::new(memory, some_bells(bells), shape).err();
    assert_eq!(refused(right(), 3, SHAPE), Some(SegmentError::Bells(3)));
    assert_eq!(refused(right(), 4, Shape { node: 2, ..SHAPE }), Some(SegmentError::Bells(4)));
    for wrong in [0, bytes() - 64, bytes() + 64] {
        let short = memory(wrong, SealFlags::SHRINK);
        assert_eq!(refused(short, 4, SHAPE), Some(SegmentError::Bytes(wrong as u64)));
    }
    let pages = Shape { bytes: 4095, ..SHAPE };
    assert_eq!(refused(right(), 4, pages), Some(SegmentError::Bytes(bytes() as u64)));
    let shrinks = memory(bytes(), SealFlags::GROW);
    assert_eq!(refused(shrinks, 4, SHAPE), Some(SegmentError::MayShrink));
    // Its seals are those of memory, which others do not have.
    let (socket, _other) = UnixStream::pair().unwrap();
    assert!(refused(socket.into(), 4, SHAPE).is_some());
}

/// A process has room for one such memory, so all that wants it is one test.
#[test]
fn h2_what_comes_over_the_socket_lies_where_it_lies_for_all_and_calls_go_to_the_hart_of_a_node() {
    let (memory, bells) = (right(), some_bells(4));
    let (ours, theirs) = UnixStream::pair().unwrap();
    hand(&ours, &[&memory, &bells[0], &bells[1], &bells[2], &bells[3]]);
    let peers: &'static Peers = Box::leak(Box::new(Peers::receive(&theirs, SHAPE).unwrap()));
    let (start, len) = peers.memory();
    assert_eq!((start, len), (SHARED_AT + desk_bytes(2) + 4096, 4096));
    assert!(peers.contain(start - 4096, 8192) && peers.contain(SHARED_AT, bytes()));
    assert!(
        !peers.contain(start, 4097) && !peers.contain(SHARED_AT - 1, 1) && !peers.contain(start, usize::MAX)
    );
    // SAFETY: it is mapped, and nobody else has it.
    unsafe { ptr::with_exposed_provenance_mut::<[u8; 4]>(start).write(*b"here") };
    let mut read = [0; 4];
    rustix::io::pread(&memory, &mut read, (start - SHARED_AT) as u64).unwrap();
    assert_eq!(&read, b"here");

    // The node's own, as it publishes them for others; here it calls itself as another.
    let near = peers.near();
    assert_eq!((near.desks.len(), near.node), (2, 1));
    peers.call(1, 0);
    let events: &'static Events = Box::leak(Box::new(Events::new(peers.own_bells())));
    peers.publish(events);
    let sleeper = thread::spawn(|| {
        events.wait(1);
        events.claim(1)
    });
    let calls = (0..600).find(|_| {
        peers.call(1, 1);
        thread::sleep(time::Duration::from_millis(100));
        sleeper.is_finished()
    });
    assert!(calls.is_some() && sleeper.join().unwrap().is_some());
    assert_eq!(events.claim(0), None);
    // Who is not there is not called.
    peers.call(1, 2);
    peers.call(0, 0);
    peers.call(2, 0);

    assert_eq!(Peers::new(right(), some_bells(4), SHAPE).err(), Some(SegmentError::Taken));
}

#[test]
fn h2_a_socket_that_hands_nothing_over_is_told() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    assert_eq!(Peers::receive(&theirs, SHAPE).err(), Some(SegmentError::Bells(0)));
    let (ours, theirs) = UnixStream::pair().unwrap();
    hand(&ours, &[&right()]);
    assert_eq!(Peers::receive(&theirs, SHAPE).err(), Some(SegmentError::Bells(0)));
}
