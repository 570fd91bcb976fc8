//! The drivers on this node's hardware (SPEC N-8, D-3), and the collective network, if the node is on it: one adapter for all
//! tasks and harts.
//!
//! Whoever sleeps on a port sleeps on the tree as well: what arrives there ends the sleep, and the job, or whoever runs
//! its collectives, looks.

use crate::status::Exit;
use crate::{arch, board, clock, report, status, trace, wakeup};
use core::sync::atomic::{AtomicU32, AtomicU64};
use drivers::gathering::Gathering;
use drivers::platform::Breach;
use drivers::{Either, Platform};
use pami::addends::Addends;
use pami::endpoint::Endpoint;
use pami::trace::Event;
use spin::Once;

/// This node's hardware, for the drivers.
#[derive(Clone, Copy, Debug)]
pub struct Hardware;

/// A network card of this hardware.
pub(crate) type Card = board::Card<Hardware>;
/// The torus of this hardware: on a card of any kind, and a network that may lose frames, or does not. The first costs
/// least.
#[cfg(target_os = "none")]
pub type Torus = Either<
    drivers::Torus<Hardware, Virtio>,
    Either<
        Either<drivers::Torus<Hardware, Gem>, drivers::Torus<Hardware, E1000e>>,
        Either<
            drivers::LosslessTorus<Hardware, Virtio>,
            drivers::LosslessTorus<Hardware, Either<Gem, E1000e>>,
        >,
    >,
>;
#[cfg(target_os = "none")]
type Virtio = board::Virtio<Hardware>;
#[cfg(target_os = "none")]
type Gem = drivers::gem::Gem<Hardware>;
#[cfg(target_os = "none")]
type E1000e = drivers::e1000e::E1000e<Hardware>;
/// The torus of this hardware, whose cards are of one kind.
#[cfg(hosted)]
pub type Torus = Either<drivers::Torus<Hardware, Card>, drivers::LosslessTorus<Hardware, Card>>;
/// The message unit on this node's hardware.
pub type Unit = drivers::MessageUnit<Hardware, Torus>;
/// The network below the message unit, held by hand.
pub type Bare<'a> = drivers::unit::Bare<'a, Hardware, Torus>;
/// The collective network's adapter on this node's hardware.
pub type Tree = drivers::TreeUnit<Hardware>;
/// One context's port on this node's message unit.
pub type Port = drivers::NodePort<Hardware, Torus>;

static TREE: Once<Tree> = Once::new();

/// Puts the node on the tree.
pub(crate) fn start_tree(tree: Tree) -> &'static Tree {
    TREE.call_once(|| tree)
}

/// The tree, if the node is on it.
#[inline]
pub(crate) fn tree() -> Option<&'static Tree> {
    TREE.get()
}

impl Platform for Hardware {
    type Card = Card;

    const NEAR: bool = cfg!(hosted);

    fn hart() -> usize {
        arch::hart()
    }

    #[cfg(hosted)]
    fn shares(address: usize, len: usize) -> bool {
        arch::shares(address, len)
    }

    #[cfg(hosted)]
    #[inline(always)]
    fn light_fence() {
        drivers::linux::light_fence();
    }

    #[cfg(hosted)]
    fn heavy_fence() {
        drivers::linux::heavy_fence();
    }

    #[inline]
    fn now_ns() -> u64 {
        clock::now_ns()
    }

    #[cfg(hosted)]
    fn name() -> usize {
        arch::name()
    }

    fn wake(hart: usize) {
        #[cfg(hosted)]
        let Some(hart) = arch::call_afar(hart) else { return };
        board::interrupt_hart(hart);
    }

    fn wait(deadline_ns: Option<u64>, acknowledge: impl FnMut()) {
        if tree().is_some_and(Tree::fall_asleep) {
            return;
        }
        wakeup::wait(deadline_ns, acknowledge);
        if let Some(tree) = tree() {
            tree.wake_up();
        }
    }

    #[cfg(hosted)]
    fn owns_core() -> bool {
        arch::has_cores_for_all()
    }

    fn idle_share() -> u16 {
        wakeup::idle_share()
    }

    fn note_idle(from_ns: u64, to_ns: u64) {
        wakeup::note_idle(from_ns, to_ns);
        arch::make_way(from_ns, to_ns);
    }

    fn node_died(node: u32) {
        status::lose(node);
    }

    fn gathering(news: &Gathering) {
        match news {
            Gathering::Waits(missing) => {
                defmt::warn!("the job waits for nodes {}", defmt::Display2Format(missing));
            }
            Gathering::Differs { node, told, own } => defmt::error!(
                "node {=u32} is not taken: it is told {}, and node 0 {}",
                node,
                defmt::Display2Format(told),
                defmt::Display2Format(own)
            ),
            Gathering::Anew(node) => {
                defmt::warn!("node {=u32} has started anew, or two boards are told that they are it", node);
            }
            Gathering::Refused { told, own } => report::refused(
                Exit::Personality,
                format_args!("node 0 does not take it, which is told {told}, and this node {own}"),
            ),
            Gathering::NoWord => defmt::warn!("this node waits for node 0 to say that all nodes are there"),
            Gathering::Late => {
                report::refused(
                    Exit::Personality,
                    "the job has started without it: it was reset meanwhile, or another board is told that it is this node",
                );
            }
        }
    }

    fn network_failed(node: u32, breach: Breach) {
        report::broken(
            Exit::Machine,
            format_args!("the torus is said to lose nothing, and of node {node} {breach}"),
        );
    }

    fn note(at: Endpoint, event: Event) {
        trace::note_at(at, event);
    }

    #[inline]
    fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        arch::crc32c(state, bytes)
    }

    fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
        arch::add_numbers(words, addends);
    }

    fn io_barrier() {
        arch::io_barrier();
    }

    fn cache_line() -> usize {
        arch::cache_line()
    }

    fn uncached_memory(words: usize) -> Option<&'static [AtomicU32]> {
        arch::uncached(words)
    }

    fn clean_cache(bytes: &[u8]) {
        arch::clean_cache(bytes);
    }

    fn invalidate_cache(bytes: &mut [u8]) {
        arch::invalidate_cache(bytes);
    }
}
