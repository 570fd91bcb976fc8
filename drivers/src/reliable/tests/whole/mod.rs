//! The whole engine: contexts of three nodes over their message units, over reliable layers, over bad wires. Messages of all
//! kinds, puts, gets, updates and fences at once; each is checked byte for byte, and that it ends, once, and when it may.
//!
//! `PAMIR_SEEDS=n` tries that many seeds, `PAMIR_SEED=n` only seed `n`.

mod book;
mod node;
mod orders;
mod world;

use super::nodes::{ACTORS, CONTEXTS, NODES, endpoint, place_of};
use super::seeds;
use pami::{ClientBuilder, Pools};
use std::boxed::Box;
use world::{Trouble, World};

const SEEDS: u64 = 10_000;
/// Seeds that the same nodes go through one after the other: message units are never freed.
const BATCH: u64 = 500;
/// Most bytes of a message.
const MOST: usize = 1500;
/// From here on messages to other nodes go by rendezvous.
const SWITCH: usize = 700;
const UNEXPECTED: usize = 3;
/// Dispatch id of the signals of puts.
const SIGNALS: u8 = 1;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[test]
fn d8_f6_the_engine_is_exact_under_random_faults() {
    let mended = seeds::run(SEEDS, BATCH, || World::new(Trouble::None), World::run);
    assert!(mended > 0, "the wires were too good");
}

#[test]
fn r9_d8_the_engine_is_exact_with_pools_as_small_as_those_of_a_client_that_names_none() {
    // There is room for whatever the book expects to be kept.
    let unexpected_bytes = 2 * UNEXPECTED * MOST;
    let small = Pools { unexpected: UNEXPECTED, unexpected_bytes, ..Pools::SMALL };
    seeds::run(1000, BATCH, || World::with(Trouble::None, small), World::run);
}

#[test]
fn r9_a_nodes_context_with_its_pools_takes_at_most_16_kib_besides_what_it_owes_to_endpoints() {
    let world = World::new(Trouble::None);
    let client = ClientBuilder::new(world.clients[0].node(), "small").create().unwrap();
    let footprint = client.footprint();
    let rest = footprint.bytes() - footprint.records * footprint.ack;
    std::println!("{rest} bytes: {footprint:?}");
    assert!(rest <= 16 << 10, "{rest} bytes");
}

#[test]
fn d6_the_same_operations_do_the_same_whatever_the_places() {
    // Two nodes; another context and the own one by the network's loop-back; the same through shared memory.
    for (from, to, local) in [(0, 2, false), (4, 5, false), (4, 4, false), (0, 1, true), (0, 0, true)] {
        let mut world = World::new(Trouble::None);
        world.all(from, to);
        // The fences over all nodes leave the node anyhow.
        let packets = world.on_the_wire(from, to);
        assert_eq!(packets > 20, !local, "{from} to {to}: {packets} packets");
    }
}

#[test]
fn d8_what_waits_for_a_node_that_dies_at_any_moment_ends_and_the_rest_is_exact() {
    seeds::run(100, 1, || World::new(Trouble::Death), World::run);
}

#[test]
fn d9_a_hostile_node_disturbs_nothing_between_others() {
    seeds::run(500, 100, || World::new(Trouble::Garbage), World::run);
}
