//! Faults in the whole fabric, over real sockets.

use super::tests::*;
use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// A fabric with faults, and all its nodes.
fn faulty(shape: &str, faults: &str, links_down: &[&str]) -> (FabricHandle, Vec<Node>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new(shape.parse().unwrap(), folder.path().join("sockets"));
    config.pcap = Some(folder.path().join("frames.pcap"));
    config.faults = (!faults.is_empty()).then(|| faults.parse().unwrap());
    config.links_down = links_down.iter().map(|down| down.parse().unwrap()).collect();
    let nodes = config.shape.nodes();
    let fabric = Fabric::start(config).unwrap();
    let nodes = started(&fabric, nodes);
    (fabric, nodes, folder)
}

fn captured(folder: &tempfile::TempDir) -> usize {
    pcap::read(&std::fs::read(folder.path().join("frames.pcap")).unwrap()).unwrap().len()
}

#[test]
fn x4_hello_and_go_pass_where_every_packet_is_lost() {
    with_deadline(|| {
        let (fabric, mut nodes, folder) = faulty("2", "drop=100%,seed=7", &[]);
        // To another node and to itself: more than the queues on the way hold.
        for number in 0..100 {
            nodes[0].send(&data(1, 0, number, 100));
            nodes[0].send(&data(0, 0, number, 100));
        }
        until(|| fabric.statistics().nodes[0].faults.dropped == 200);
        nodes[0].send(&frame::hello(0, 2));
        assert_eq!(nodes[0].receive(), frame::go(0, 2));
        let statistics = fabric.stop().unwrap();
        assert_eq!(statistics.faults.as_deref(), Some("drop=100%,seed=7"));
        assert_eq!(statistics.nodes[0].injected.packets, 200);
        assert!(statistics.nodes.iter().all(|node| node.delivered.packets == 0 && node.dropped.total() == 0));
        assert_eq!(captured(&folder), 200 + 3 + 3, "the capture is of what was sent");
    });
}

#[test]
fn x4_counts_add_up_and_a_seed_gives_the_same_run_again() {
    const SENT: u32 = 3000;
    let run = || {
        let faults = "drop=10%,corrupt=10%,dup=10%,reorder=10%,seed=42";
        let (fabric, mut nodes, _folder) = faulty("2x2", faults, &[]);
        let mut sender = nodes.remove(0);
        let writer = thread::spawn(move || {
            for number in 0..SENT {
                sender.send(&data(3, 0, number, 40));
            }
            sender
        });
        let mut receiver = nodes.remove(2);
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            while let Some(frame) = receiver.receive_or_end() {
                got.push(frame);
            }
            got.sort_unstable();
            got
        });
        let _sender = writer.join().unwrap();
        let settled = |node: &NodeStatistics| node.injected.packets == u64::from(SENT);
        until(|| settled(&fabric.statistics().nodes[0]));
        until(|| {
            let nodes = fabric.statistics().nodes;
            let faults = nodes[0].faults;
            nodes[3].delivered.packets == u64::from(SENT) - faults.dropped + faults.duplicated
        });
        let faults = fabric.stop().unwrap().nodes[0].faults;
        (faults, reader.join().unwrap())
    };
    with_deadline(move || {
        let (faults, got) = run();
        assert_eq!(got.len() as u64, u64::from(SENT) - faults.dropped + faults.duplicated);
        for count in [faults.dropped, faults.corrupted, faults.duplicated, faults.reordered] {
            assert!((200..400).contains(&count), "{faults:?}");
        }
        assert_eq!((faults.delayed, faults.cut), (0, 0));
        assert_eq!(run(), (faults, got));
    });
}

#[test]
fn x4_delayed_packets_arrive_by_themselves_and_the_fabric_sleeps_until_then() {
    with_deadline(|| {
        let (fabric, mut nodes, _folder) = faulty("2", "delay=300ms,seed=1", &[]);
        let (start, before) = (Instant::now(), fabric.statistics().rounds);
        for number in 0..50 {
            nodes[0].send(&data(1, 0, number, 10));
        }
        until(|| fabric.statistics().nodes[0].faults.delayed == 50);
        assert!(fabric.state_dump().contains("node 1: router empty; 50 held back by faults"));
        for number in 0..50 {
            assert_eq!(nodes[1].receive(), data(1, 0, number, 10));
        }
        assert!(start.elapsed() >= Duration::from_millis(300));
        // A few per packet and per question, one when it is time; a fabric that spins makes thousands.
        let rounds = fabric.statistics().rounds - before;
        assert!(rounds < 400, "{rounds} rounds");
    });
}

#[test]
fn x4_a_reader_that_stalls_with_due_packets_does_not_make_the_fabric_spin() {
    with_deadline(|| {
        let (fabric, mut nodes, _folder) = faulty("2", "delay=20ms,seed=1", &[]);
        let mut sender = nodes.remove(0);
        let writer = thread::spawn(move || {
            for number in 0..2000 {
                sender.send(&data(1, 0, number, 4000));
            }
            sender
        });
        until(|| fabric.state_dump().contains("the node does not read"));
        // Long enough for all that is held back to be due.
        thread::sleep(Duration::from_millis(300));
        let before = fabric.statistics().rounds;
        thread::sleep(Duration::from_millis(200));
        assert!(fabric.statistics().rounds <= before + 2, "it spins");
        let mut got: Vec<u32> = (0..2000).map(|_| number(&nodes[0].receive())).collect();
        got.sort_unstable();
        assert_eq!(got, (0..2000).collect::<Vec<_>>());
        writer.join().unwrap();
    });
}

#[test]
fn x4_a_link_that_is_down_loses_the_packets_that_cross_it_and_no_others() {
    with_deadline(|| {
        // In x first, so that of node 0's packets those to 1, 3, 5 and 7 cross the link.
        let (fabric, mut nodes, _folder) = faulty("2x2x2", "", &["0:+x@0s..", "4:+y@100s..200s"]);
        let pairs: Vec<(u32, u32)> = (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).collect();
        for &(origin, target) in &pairs {
            nodes[origin as usize].send(&data(target, origin, 1, 10));
        }
        for node in 0..8u32 {
            let passes = |origin: u32| origin != 0 || node % 2 == 0;
            let mut origins: Vec<u32> = (0..8)
                .filter(|&origin| passes(origin))
                .map(|_| frame::FrameHeader::read(&nodes[node as usize].receive()).unwrap().source)
                .collect();
            origins.sort_unstable();
            assert_eq!(origins, (0..8).filter(|&origin| passes(origin)).collect::<Vec<_>>());
        }
        let statistics = fabric.stop().unwrap();
        assert_eq!(statistics.faults.as_deref(), Some("down 0:+x@0s.., down 4:+y@100s..200s"));
        let cut: Vec<u64> = statistics.nodes.iter().map(|node| node.faults.cut).collect();
        assert_eq!(cut, [4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(statistics.nodes[0].links[1].packets, 0);
    });
}

#[test]
fn x4_a_link_is_up_before_and_after_its_time() {
    with_deadline(|| {
        let (fabric, mut nodes, _folder) = faulty("2", "", &["0:+x@1000ms..1200ms"]);
        let mut sent = 0;
        let passed = || fabric.statistics().nodes[0].links[1].packets;
        let mut send_until = |enough: &dyn Fn() -> bool| {
            while !enough() {
                nodes[0].send(&data(1, 0, sent, 10));
                sent += 1;
                thread::sleep(Duration::from_millis(1));
            }
        };
        send_until(&|| passed() > 0);
        send_until(&|| fabric.statistics().nodes[0].faults.cut > 0);
        let before = passed();
        send_until(&|| passed() > before);
        until(|| fabric.statistics().nodes[0].injected.packets == u64::from(sent));
        let node = fabric.statistics().nodes[0].clone();
        assert_eq!(node.links[1].packets + node.faults.cut, u64::from(sent));
        assert!(node.faults.cut > 0);
        let got: Vec<u32> = (0..node.links[1].packets).map(|_| number(&nodes[1].receive())).collect();
        let gap = got.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert_eq!((got[0], got.last().copied(), gap), (0, Some(sent - 1), 1), "one gap, in the middle");
    });
}
