//! Nodes that ask, more of them than there are places for (SPEC R-3).

use super::hostile::packet;
use super::one_sided::add;
use super::*;
use crate::ranks::MOST_NODES;
use crate::unit::StartError;
use pami::device::Gone;
use pami::packet::{ENDS, Packet};
use zerocopy::IntoBytes;

/// The unit of node 0 of `nodes`, which has something under way with `most` others at once.
fn unit(net: &Net, nodes: u32, most: usize) -> Result<&'static Unit<0>, StartError> {
    let adapter = Some(FakeAdapter::new(net, 0, MTU).with_most_peers(most));
    let map = TaskMap::new(nodes, 1, MapOrder::TasksFirst).unwrap();
    MessageUnit::start(setup(adapter, 0, map))
}

fn from(node: u32, kind: Kind) -> Envelope {
    let (origin, target) = (endpoint(node, 0), endpoint(0, 0));
    Envelope { kind, dispatch: 0, origin, target, message: 7, offset: 0, total: 0 }
}

/// Node `node` adds 1 to the region's first word.
fn asks(net: &Net, node: u32, region: RegionId) {
    let (dispatch, operands) = add(1).encode();
    let envelope = Envelope { dispatch, ..from(node, Kind::Rmw) };
    net.inject(0, &packet(&envelope, region.as_bytes(), operands.as_bytes()));
}

/// What node `node` is answered, if it is: the fault, or 0.
fn answer(net: &Net, node: u32) -> Option<u8> {
    let bytes = net.take(node as usize)?;
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.envelope.kind, packet.envelope.message), (Kind::Reply, 7));
    Some(packet.envelope.dispatch)
}

fn progress(port: &mut TestPort<0>) {
    for _ in 0..10 {
        port.progress();
    }
}

#[test]
fn r3_places_of_nodes_that_asked_go_to_others_that_ask() {
    let net = Net::new(8);
    let mut port = open(unit(&net, 8, 2).unwrap(), 0);
    let (region, memory) = region(&mut port, &[0; 64]);
    for round in 1..=3 {
        for node in 1..8 {
            asks(&net, node, region);
            progress(&mut port);
            assert_eq!(answer(&net, node), Some(0), "round {round}, node {node}");
        }
    }
    assert_eq!(bytes(&memory)[..8], 21u64.to_le_bytes());
    assert_eq!(statistics(&port).dropped.total(), 0);
}

#[test]
fn r3_who_is_owed_an_answer_keeps_its_place() {
    let net = Net::new(4);
    let mut port = open(unit(&net, 4, 2).unwrap(), 0);
    let (region, memory) = region(&mut port, &[0; 64]);
    // Nothing leaves for nodes 1 and 2 but what the adapter takes, which is 32 packets.
    for node in [1, 2] {
        (0..100).for_each(|_| net.inject(node, &[]));
    }
    for _ in 0..20 {
        asks(&net, 1, region);
        asks(&net, 2, region);
    }
    progress(&mut port);
    // The adapter would not let node 3 in; if it does, node 3 is refused, and nobody's answer is lost.
    asks(&net, 3, region);
    progress(&mut port);
    assert_eq!((statistics(&port).dropped.beyond, net.on_the_way(3)), (1, 0));
    for node in [1, 2] {
        (0..100).for_each(|_| _ = net.take(node));
    }
    let mut answers = 0;
    for _ in 0..100 {
        progress(&mut port);
        answers += [1, 2].iter().filter(|&&node| answer(&net, node) == Some(0)).count();
    }
    assert_eq!((answers, u64::from(bytes(&memory)[0])), (40, 40));
    asks(&net, 3, region);
    progress(&mut port);
    assert_eq!(answer(&net, 3), Some(0));
}

#[test]
fn r3_a_put_that_was_refused_in_part_is_remembered_until_its_end() {
    let net = Net::new(6);
    let mut port = open(unit(&net, 6, 2).unwrap(), 0);
    let (region, _) = region(&mut port, &[0; 64]);
    let put = |kind, offset| {
        let envelope = Envelope { dispatch: ENDS, offset, total: 16, ..from(1, kind) };
        net.inject(0, &packet(&envelope, region.as_bytes(), &[1; 8]));
    };
    put(Kind::Put, 60);
    progress(&mut port);
    for node in [2, 3, 4, 5, 2] {
        asks(&net, node, region);
        progress(&mut port);
        assert_eq!(answer(&net, node), Some(0), "node {node}");
    }
    // The part that ends it is good in itself.
    put(Kind::PutLast, 0);
    progress(&mut port);
    assert_eq!(answer(&net, 1), Some(RegionFault::Bounds as u8));
    // Now nothing keeps the place.
    for node in [2, 3] {
        asks(&net, node, region);
    }
    progress(&mut port);
    assert_eq!([2, 3].map(|node| answer(&net, node)), [Some(0); 2]);
}

#[test]
fn r2_r3_a_node_that_died_in_the_middle_of_a_put_keeps_no_place() {
    let net = Net::new(4);
    let mut port = open(unit(&net, 4, 2).unwrap(), 0);
    let (region, _) = region(&mut port, &[0; 64]);
    // Its end, which is to be answered with the fault, never comes.
    let put = Envelope { dispatch: ENDS, offset: 60, total: 16, ..from(1, Kind::Put) };
    net.inject(0, &packet(&put, region.as_bytes(), &[1; 8]));
    progress(&mut port);
    port.unit().announce(1, Gone::Died);
    for node in [2, 3] {
        asks(&net, node, region);
    }
    progress(&mut port);
    assert_eq!([2, 3].map(|node| answer(&net, node)), [Some(0); 2]);
}

#[test]
fn r3_more_peers_at_once_than_there_is_memory_for_are_refused_by_number() {
    let net = Net::new(1);
    let nodes = MOST_NODES as u32 + 1;
    assert_eq!(unit(&net, nodes, usize::MAX).err(), Some(StartError::TooManyPeers(MOST_NODES + 1)));
    assert!(unit(&net, nodes, MOST_NODES).is_ok(), "the adapter lets fewer in");
    assert!(unit(&net, MOST_NODES as u32, usize::MAX).is_ok());
}

fn statistics(port: &TestPort<0>) -> crate::unit::Statistics {
    super::one_sided::statistics(port)
}
