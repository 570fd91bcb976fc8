//! The whole fabric over real sockets, with nodes played by this process. Each test has a deadline.

use super::frame::{self, FRAME_HEADER_BYTES};
use super::*;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a test in a thread of its own and fails if it does not end in time.
pub fn with_deadline(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel::<()>();
    let thread = thread::spawn(move || {
        let _done = done;
        test();
    });
    assert_eq!(wait.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected), "the deadline has passed");
    thread.join().expect("the test's own thread failed");
}

/// Waits until `condition` holds; the test's deadline bounds it.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A fabric in a folder of its own.
fn fabric(shape: &str) -> (FabricHandle, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new(shape.parse().unwrap(), folder.path().join("sockets"));
    config.pcap = Some(folder.path().join("frames.pcap"));
    (Fabric::start(config).unwrap(), folder)
}

/// A node played by the test.
pub struct Node(UnixStream);

impl Node {
    fn connect(fabric: &FabricHandle, node: u32) -> Self {
        let stream = UnixStream::connect(fabric.socket(node)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.0.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat()).unwrap();
    }

    pub fn receive(&mut self) -> Vec<u8> {
        self.receive_or_end().expect("a frame")
    }

    /// The next frame, or `None` once the fabric has closed the stream.
    pub fn receive_or_end(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
            other => other.unwrap(),
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame).unwrap();
        Some(frame)
    }
}

/// All nodes of a fabric, connected and past Go.
pub fn started(fabric: &FabricHandle, nodes: u32) -> Vec<Node> {
    let mut all: Vec<Node> = (0..nodes).map(|node| Node::connect(fabric, node)).collect();
    for (rank, node) in (0..).zip(&mut all) {
        node.send(&frame::hello(rank, nodes));
    }
    for (rank, node) in (0..).zip(&mut all) {
        assert_eq!(node.receive(), frame::go(rank, nodes));
    }
    assert!(fabric.started());
    all
}

/// A frame with a number and `length` bytes of payload derived from it.
pub fn data(target: u32, origin: u32, number: u32, length: usize) -> Vec<u8> {
    let fill = (0..length).map(|i| (i as u32 ^ number) as u8);
    let payload: Vec<u8> = number.to_le_bytes().into_iter().chain([0; 28]).chain(fill).collect();
    frame::write(target, origin, &payload)
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_le_bytes(*frame[FRAME_HEADER_BYTES..].first_chunk().unwrap())
}

#[test]
fn s1_x4_a_fabric_connects_to_nodes_that_listen_and_the_next_one_does_too() {
    with_deadline(|| {
        let folder = tempfile::tempdir().unwrap();
        let socket = |node| folder.path().join(format!("own-{node}"));
        let listeners = [0, 1].map(|node| std::os::unix::net::UnixListener::bind(socket(node)).unwrap());
        let config = || {
            let nodes_listen = Some([[0, 1].map(socket).to_vec(), Vec::new()]);
            Config { nodes_listen, ..Config::new("2".parse().unwrap(), folder.path().join("sockets")) }
        };
        for number in 0..2 {
            let fabric = Fabric::start(config()).unwrap();
            let mut nodes = listeners.each_ref().map(|listener| Node(listener.accept().unwrap().0));
            for (rank, node) in (0..).zip(&mut nodes) {
                node.send(&frame::hello(rank, 2));
            }
            for (rank, node) in (0..).zip(&mut nodes) {
                assert_eq!(node.receive(), frame::go(rank, 2));
            }
            nodes[0].send(&data(1, 0, number, 8));
            assert_eq!(nodes[1].receive(), data(1, 0, number, 8));
            fabric.stop().unwrap();
            assert_eq!(nodes.map(|mut node| node.receive_or_end()), [None, None]);
        }
        drop(listeners);
        let error = Fabric::start(config()).err().expect("nobody listens").to_string();
        assert!(error.contains("own-0"), "{error}");
    });
}

#[test]
fn x4_go_is_given_once_all_nodes_have_said_hello() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("3");
        let mut nodes: Vec<Node> = (0..3).map(|node| Node::connect(&fabric, node)).collect();
        nodes[2].send(&frame::hello(2, 3));
        nodes[2].send(&frame::hello(2, 3));
        nodes[0].send(&frame::hello(0, 3));
        let mut other = frame::hello(0, 3);
        (other[11], other[18]) = (1, 1);
        nodes[1].send(&other);
        nodes[1].send(&frame::hello(1, 8));
        until(|| fabric.statistics().nodes[1].dropped.control == 2);
        until(|| fabric.joined() == 2);
        assert!(!fabric.started());
        let complaints = fabric.statistics().complaints;
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints.iter().all(|text| text.starts_with("node 1: it says")), "{complaints:?}");
        nodes[1].send(&frame::hello(1, 3));
        for (rank, node) in (0..).zip(&mut nodes) {
            assert_eq!(node.receive(), frame::go(rank, 3));
        }
        assert!(fabric.started());
        nodes[0].send(&frame::hello(0, 3));
        assert_eq!(nodes[0].receive(), frame::go(0, 3));
    });
}

#[test]
fn x4_a_plain_switch_learns_addresses_says_nothing_and_looks_at_no_rank() {
    with_deadline(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new("3".parse().unwrap(), folder.path().join("sockets"));
        config.plain = true;
        let fabric = Fabric::start(config).unwrap();
        let mut nodes: Vec<Node> = (0..3).map(|node| Node::connect(&fabric, node)).collect();
        let mut send = |from: usize, to: u8, number: u8| {
            let frame = [&[2, 0, 0, 0, 0, to][..], &[2, 0, 0, 0, 0, from as u8], &[number; 48]].concat();
            let before = fabric.traffic()[from].0;
            nodes[from].send(&frame);
            until(|| fabric.traffic()[from].0 > before);
            frame
        };
        // Nobody has sent from 9, so all others get it; then 0 is known, then 0 and 1 are.
        let (first, second, third) = (send(0, 9, 1), send(1, 0, 2), send(0, 1, 3));
        // The address of 2 is no group's and not known; the fabric's own is no more than that.
        let hello = frame::hello(2, 3);
        nodes[2].send(&hello);
        fabric.announce(1, Fate::Died);
        let fourth = frame::hello(0, 3);
        nodes[0].send(&fourth);
        assert_eq!([nodes[1].receive(), nodes[2].receive()], [first.clone(), first]);
        assert_eq!((nodes[0].receive(), nodes[1].receive()), (second, third));
        assert_eq!([nodes[0].receive(), nodes[2].receive()], [hello.clone(), fourth.clone()]);
        let both = [nodes[1].receive(), nodes[1].receive()];
        assert!(both == [hello.clone(), fourth.clone()] || both == [fourth, hello]);
        let statistics = fabric.stop().unwrap();
        assert!(statistics.complaints.is_empty(), "{:?}", statistics.complaints);
        assert!(statistics.nodes.iter().all(|node| node.hops == 0 && node.control == 0));
    });
}

/// Looks at nodes while two neighbours of a torus send each other `FRAMES` frames by turns.
fn looks_while_two_talk(shape: &str, nodes: u32) -> u64 {
    const FRAMES: u32 = 200;
    let (fabric, _folder) = fabric(shape);
    let mut nodes = started(&fabric, nodes);
    let before = fabric.statistics().looks;
    for number in 0..FRAMES {
        let (origin, target) = (number % 2, 1 - number % 2);
        nodes[origin as usize].send(&data(target, origin, number, 100));
        assert_eq!(nodes[target as usize].receive(), data(target, origin, number, 100));
    }
    let looks = fabric.statistics().looks - before;
    assert!(looks >= u64::from(FRAMES), "{looks} looks");
    looks / u64::from(FRAMES)
}

#[test]
fn x4_nodes_that_are_idle_cost_the_fabric_nothing() {
    with_deadline(|| {
        let [few, many] = [("2", 2), ("10x10", 100)].map(|(shape, nodes)| looks_while_two_talk(shape, nodes));
        // How many rounds a frame takes is the scheduler's matter, but not how many nodes there are.
        assert!(many <= 2 * few + 10, "{many} looks a frame among 100 nodes, {few} among 2");
    });
}

#[test]
fn x4_all_pairs_of_2x2x2_exchange_frames_in_order_and_the_capture_has_them() {
    const EACH: u32 = 40;
    with_deadline(|| {
        let (fabric, folder) = fabric("2x2x2");
        let nodes = started(&fabric, 8);
        let play = |(rank, mut node): (u32, Node)| {
            let mut reader = Node(node.0.try_clone().unwrap());
            let length = |number: u32| (number as usize * 977) % 4097;
            let writer = thread::spawn(move || {
                for number in 0..EACH {
                    for target in 0..8 {
                        node.send(&data(target, rank, number, length(number)));
                    }
                }
            });
            thread::spawn(move || {
                let mut next = [0; 8];
                for _ in 0..EACH * 8 {
                    let frame = reader.receive();
                    let origin = frame::FrameHeader::read(&frame).unwrap().source;
                    let number = next[origin as usize];
                    assert_eq!(frame, data(rank, origin, number, length(number)));
                    next[origin as usize] += 1;
                }
                writer.join().unwrap();
                reader
            })
        };
        let players: Vec<_> = (0..).zip(nodes).map(play).collect();
        let _nodes: Vec<Node> = players.into_iter().map(|player| player.join().unwrap()).collect();
        let statistics = fabric.stop().unwrap();
        assert!(statistics.complaints.is_empty(), "{:?}", statistics.complaints);
        for node in &statistics.nodes {
            assert_eq!(
                (node.injected.packets, node.delivered.packets),
                (u64::from(EACH) * 8, u64::from(EACH) * 8)
            );
            assert_eq!(node.injected.bytes, node.delivered.bytes);
            // To the eight nodes of a cube it is 0, 1, 1, 1, 2, 2, 2 and 3 links.
            assert_eq!(node.hops, u64::from(EACH) * 12);
            assert_eq!((node.control, node.dropped.total()), (2, 0));
        }
        let links: u64 = statistics.nodes.iter().flat_map(|node| node.links).map(|link| link.packets).sum();
        assert_eq!(links, 8 * u64::from(EACH) * 12);

        let frames = pcap::read(&std::fs::read(folder.path().join("frames.pcap")).unwrap()).unwrap();
        assert_eq!(frames.len(), 8 * 8 * EACH as usize + 8 + 8);
        assert_eq!(frames.iter().filter(|(_, frame)| *frame == frame::hello(5, 8)).count(), 1);
        assert_eq!(frames.iter().filter(|(_, frame)| *frame == frame::go(5, 8)).count(), 1);
        let of_pair =
            |frame: &&Vec<u8>| frame[..FRAME_HEADER_BYTES] == data(7, 0, 0, 0)[..FRAME_HEADER_BYTES];
        let numbers: Vec<u32> =
            frames.iter().map(|(_, frame)| frame).filter(of_pair).map(|f| number(f)).collect();
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>());
    });
}

#[test]
fn x4_a_stalled_reader_stalls_its_sender_at_bounded_memory_and_recovers() {
    const LENGTH: usize = 4000;
    with_deadline(|| {
        let (fabric, _folder) = fabric("2x2x2");
        let mut nodes = started(&fabric, 8);
        // Node 0 sends to node 7, which does not read, until its own socket takes nothing for a while.
        let mut sender = nodes[0].0.try_clone().unwrap();
        sender.set_nonblocking(true).unwrap();
        let wire = |number| {
            let frame = data(7, 0, number, LENGTH);
            [&(frame.len() as u32).to_be_bytes()[..], &frame].concat()
        };
        let (mut sent, mut rest, mut last) = (0, wire(0), Instant::now());
        while last.elapsed() < Duration::from_millis(300) {
            match sender.write(&rest) {
                Ok(bytes) => {
                    rest.drain(..bytes);
                    last = Instant::now();
                    if rest.is_empty() {
                        sent += 1;
                        rest = wire(sent);
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        // A bubble stays free in each ring. Five queues, two buffers of 64 KiB, and what two sockets hold.
        assert!(sent < 1000, "{sent} frames were taken in");
        let dump = fabric.state_dump();
        assert!(
            dump.contains("node 7: router +z 7/8 (head to node 7 over ejection), ejection 8/8"),
            "{dump}"
        );
        assert!(dump.contains("the node does not read"), "{dump}");

        // Nothing can move, so the fabric sleeps: asking is all that wakes it.
        let before = fabric.statistics().rounds;
        thread::sleep(Duration::from_millis(200));
        assert!(fabric.statistics().rounds <= before + 2, "it spins");

        // Others go on.
        for number in 0..1000 {
            nodes[6].send(&data(4, 6, number, 100));
            assert_eq!(nodes[4].receive(), data(4, 6, number, 100));
        }

        let finish = thread::spawn(move || {
            sender.set_nonblocking(false).unwrap();
            sender.write_all(&rest).unwrap();
        });
        for number in 0..=sent {
            assert_eq!(nodes[7].receive(), data(7, 0, number, LENGTH));
        }
        finish.join().unwrap();
        let statistics = fabric.stop().unwrap();
        assert_eq!(statistics.nodes[7].delivered.packets, u64::from(sent) + 1);
        assert_eq!(statistics.nodes[7].dropped.total(), 0);
    });
}

#[test]
fn x4_an_idle_fabric_sleeps() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2x2x2");
        let _nodes = started(&fabric, 8);
        let before = fabric.statistics().rounds;
        thread::sleep(Duration::from_millis(200));
        assert!(fabric.statistics().rounds <= before + 2);
    });
}

#[test]
fn d9_garbage_ends_its_node_with_a_reason_and_no_other() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2x2");
        let mut nodes = started(&fabric, 4);
        let garbage: Vec<u8> =
            (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
        // The fabric closes the stream before it has all.
        let _ = nodes[1].0.write_all(&garbage);
        until(|| fabric.statistics().nodes[1].left.is_some());
        let left = fabric.statistics().nodes[1].left.clone().unwrap();
        assert!(left.starts_with("it announced a frame of"), "{left}");
        nodes[3].send(&data(0, 3, 7, 10));
        assert_eq!(nodes[0].receive(), data(0, 3, 7, 10));
        assert!(fabric.state_dump().contains("node 1: router empty; left: it announced"));
    });
}

#[test]
fn d9_frames_that_are_not_of_the_torus_are_counted_and_dropped() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2x2");
        let mut nodes = started(&fabric, 4);
        let good = data(3, 0, 1, 0);
        let with = |at: usize, byte: u8| {
            let mut frame = good.clone();
            frame[at] = byte;
            frame
        };
        let bad = [
            vec![0; MIN_FRAME - 1],
            vec![],
            vec![0; MAX_FRAME + 1],
            with(12, 0x08),
            with(11, 2),
            with(7, 0),
            with(5, 4),
            with(0, 0xFF),
            data(frame::FABRIC, 0, 0, 0),
            frame::go(0, 4),
        ];
        for frame in &bad {
            nodes[0].send(frame);
        }
        nodes[0].send(&good);
        assert_eq!(nodes[3].receive(), good);
        // With a link header, and nothing but one.
        for length in [good.len(), MIN_FRAME] {
            let framed = &with(13, 0xB6)[..length];
            nodes[0].send(framed);
            assert_eq!(nodes[3].receive(), framed);
        }
        let node = fabric.statistics().nodes[0].clone();
        let expected =
            Dropped { short: 2, long: 1, foreign: 1, forged: 3, unroutable: 2, control: 1, undelivered: 0 };
        assert_eq!(node.dropped, expected);
        assert_eq!(node.injected.packets, 3);
        assert_eq!(node.left, None);
    });
}

#[test]
fn x4_frames_go_by_the_address_that_a_port_was_heard_with_or_by_rank_and_by_no_other() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2");
        let mut nodes: Vec<Node> = (0..2).map(|node| Node::connect(&fabric, node)).collect();
        let station = |rank: u32| [0x70, 0xb3, 0xd5, 0, 0, rank as u8];
        let addressed = |mut frame: Vec<u8>, to: Option<[u8; 6]>, from: [u8; 6]| {
            frame[6..12].copy_from_slice(&from);
            to.into_iter().for_each(|to| frame[..6].copy_from_slice(&to));
            frame
        };
        for (rank, node) in (0..).zip(&mut nodes) {
            node.send(&addressed(frame::hello(rank, 2), None, station(rank)));
        }
        for (rank, node) in (0..).zip(&mut nodes) {
            assert_eq!(node.receive(), frame::go(rank, 2));
        }
        let sent = |to, from| addressed(data(1, 0, 7, 10), to, from);
        for (to, from) in [
            // Nobody's, its own, its own rank's.
            (Some(station(2)), station(0)),
            (Some(station(0)), station(0)),
            (Some(frame::rank_address(0)), station(0)),
            // Not what it was heard with.
            (Some(station(1)), station(1)),
            (Some(station(1)), frame::rank_address(0)),
        ] {
            nodes[0].send(&sent(to, from));
        }
        for to in [None, Some(station(1))] {
            nodes[0].send(&sent(to, station(0)));
            assert_eq!(nodes[1].receive(), sent(to, station(0)));
        }
        let dropped = fabric.statistics().nodes[0].dropped;
        assert_eq!((dropped.unroutable, dropped.forged, dropped.total()), (3, 2, 5));
        let mut group = addressed(data(0, 1, 7, 10), None, station(1));
        group[6] |= 1;
        nodes[1].send(&group);
        until(|| fabric.statistics().nodes[1].dropped.forged == 1);
    });
}

#[test]
fn x4_two_ports_with_one_address_are_named_and_frames_by_rank_arrive() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2");
        let mut nodes: Vec<Node> = (0..2).map(|node| Node::connect(&fabric, node)).collect();
        let of = |mut frame: Vec<u8>, station: [u8; 6]| {
            frame[6..12].copy_from_slice(&station);
            frame
        };
        nodes[0].send(&of(frame::hello(0, 2), [0; 6]));
        until(|| fabric.statistics().nodes[0].dropped.forged == 1);
        let station = [0x70, 0xb3, 0xd5, 0, 0, 1];
        for (rank, node) in (0..).zip(&mut nodes) {
            node.send(&of(frame::hello(rank, 2), station));
            until(|| fabric.statistics().nodes[rank as usize].control > 0);
        }
        for (rank, node) in (0..).zip(&mut nodes) {
            assert_eq!(node.receive(), frame::go(rank, 2));
        }
        for number in 0..2 {
            let sent = of(data(1, 0, number, 10), station);
            nodes[0].send(&sent);
            assert_eq!(nodes[1].receive(), sent);
        }
        let complaints = fabric.statistics().complaints;
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert_eq!(complaints[1], "node 1: its card has the address of node 0's");
    });
}

#[test]
fn x4_a_node_that_goes_in_the_middle_of_a_frame_is_named_and_others_go_on() {
    with_deadline(|| {
        let (fabric, _folder) = fabric("2x2x2");
        let mut nodes = started(&fabric, 8);
        let mut gone = nodes.remove(7);
        gone.send(&data(0, 7, 1, 5000));
        let half = data(0, 7, 2, 5000);
        gone.0.write_all(&[&(half.len() as u32).to_be_bytes()[..], &half[..2000]].concat()).unwrap();
        drop(gone);
        assert_eq!(nodes[0].receive(), data(0, 7, 1, 5000));
        until(|| fabric.statistics().nodes[7].left.is_some());
        let left = fabric.statistics().nodes[7].left.clone().unwrap();
        assert!(left.ends_with("in the middle of a frame"), "{left}");
        // What goes to it is lost, and stalls nobody.
        for number in 0..500 {
            nodes[6].send(&data(7, 6, number, 4000));
        }
        nodes[6].send(&data(2, 6, 0, 100));
        assert_eq!(nodes[2].receive(), data(2, 6, 0, 100));
        until(|| fabric.statistics().nodes[7].dropped.undelivered == 500);
    });
}

#[test]
fn x4_listeners_are_made_at_start_and_removed_at_the_end() {
    with_deadline(|| {
        let (fabric, folder) = fabric("2");
        let path = fabric.socket(1).to_path_buf();
        assert!(path.ends_with("sockets/node-1.sock") && path.exists());
        fabric.stop().unwrap();
        assert!(!path.exists());

        // One that a killed run left behind is replaced; dropping the handle is as good as stopping.
        let config = Config::new("2".parse().unwrap(), folder.path().join("sockets"));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let fabric = Fabric::start(config.clone()).unwrap();
        let mut nodes = started(&fabric, 2);
        drop(fabric);
        assert!(!path.exists());
        assert_eq!(nodes[0].0.read(&mut [0; 8]).unwrap(), 0, "the stream is closed");

        // What is no socket is left alone, and named.
        std::fs::write(&path, "kept").unwrap();
        let error = Fabric::start(config).err().unwrap().to_string();
        assert!(error.contains("node-1.sock"), "{error}");
        assert!(path.exists());
    });
}

#[test]
fn x4_a_capture_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new("2".parse().unwrap(), folder.path());
    std::fs::write(folder.path().join("file"), "").unwrap();
    config.pcap = Some(folder.path().join("file/frames.pcap"));
    let error = Fabric::start(config).err().unwrap().to_string();
    assert!(error.contains("frames.pcap"), "{error}");
    assert!(!folder.path().join("node-0.sock").exists());
}
