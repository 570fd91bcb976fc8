use super::*;
use rings::packets::Form;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::os::unix::net::UnixStream;

const NODES: usize = 2;

/// Memory of so many bytes, which may shrink or not.
fn memory(bytes: usize, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes as u64).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn right() -> OwnedFd {
    memory(Segment::bytes(NODES), SealFlags::SHRINK)
}

fn bells(count: usize) -> Vec<OwnedFd> {
    let bell = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    (0..count).map(bell).collect()
}

/// Hands descriptors over, as who starts the nodes does.
fn hand(socket: &UnixStream, descriptors: &[&OwnedFd]) {
    let descriptors: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_NODES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(socket, &[IoSlice::new(b"s")], &mut ancillary, SendFlags::empty()).unwrap();
}

#[test]
fn h2_memory_that_is_not_as_it_must_be_is_refused_by_what_is_wrong() {
    let refused = |memory, bells, nodes| Peers::new(memory, bells, nodes).err();
    let bytes = Segment::bytes(NODES) as u64;
    assert_eq!(refused(right(), bells(1), NODES), Some(SegmentError::Nodes(NODES)));
    assert_eq!(refused(right(), bells(17), 17), Some(SegmentError::Nodes(17)));
    for wrong in [0, bytes - 64, bytes + 64] {
        let short = memory(wrong as usize, SealFlags::SHRINK);
        assert_eq!(refused(short, bells(NODES), NODES), Some(SegmentError::Bytes(wrong)));
    }
    let shrinks = memory(bytes as usize, SealFlags::GROW);
    assert_eq!(refused(shrinks, bells(NODES), NODES), Some(SegmentError::MayShrink));
    // Its seals are those of memory, which others do not have.
    let (socket, _other) = UnixStream::pair().unwrap();
    assert!(refused(socket.into(), bells(NODES), NODES).is_some());
}

#[test]
fn h2_what_comes_over_the_socket_is_the_same_memory_for_all() {
    let (memory, bells) = (right(), bells(NODES));
    let [first, second] = [0, 1].map(|_| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        hand(&ours, &[&memory, &bells[0], &bells[1]]);
        Peers::receive(&theirs, NODES).unwrap()
    });
    assert!(first.segment().sender(0, 1).push(Form::Packet, &[b"a packet"]));
    let mut bytes = [0; 64];
    let pulled = second.segment().receiver(0, 1).pull(&mut bytes);
    assert_eq!(pulled.map(|packet| packet.ok()), Some(Some((Form::Packet, 8))));
    assert_eq!(&bytes[..8], b"a packet");
    first.ring(1);
    first.ring(1);
    first.ring(NODES);
    assert_eq!((second.take_rings(0), second.take_rings(1), second.take_rings(1)), (0, 2, 0));
}

#[test]
fn h2_a_socket_that_hands_nothing_over_is_told() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    assert_eq!(Peers::receive(&theirs, NODES).err(), Some(SegmentError::Nodes(NODES)));
    let (ours, theirs) = UnixStream::pair().unwrap();
    hand(&ours, &[&right()]);
    assert_eq!(Peers::receive(&theirs, NODES).err(), Some(SegmentError::Nodes(NODES)));
}

#[test]
fn n8_a_node_sleeps_on_its_own_bell_alone() {
    let peers = Peers::new(right(), bells(NODES), NODES).unwrap();
    let (card, _other) = UnixStream::pair().unwrap();
    let signal = Signal::new(card.into()).unwrap();
    peers.attach(1, &signal).unwrap();
    assert!(peers.attach(NODES, &signal).is_err());
    let is_ready = || {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(signal.ready(), PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    peers.ring(0);
    assert!(!is_ready());
    peers.ring(1);
    assert!(is_ready());
    assert_eq!(peers.take_rings(1), 1);
    assert!(!is_ready());
}
