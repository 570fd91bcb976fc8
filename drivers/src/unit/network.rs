//! What a message unit stands on: one kind of adapter, or one of two, chosen when the node starts (SPEC B-5).
//!
//! The engine is compiled for each kind. A unit that may have several has one engine of them, and looks which once in a
//! round; from there on all code is that kind's own. A third kind makes it `Either<A, Either<B, C>>`: the first costs one look.

use super::MessageUnit;
use super::fifo::{PortState, Reception};
use crate::adapter::{AdapterFaults, Watch};
use crate::bits::BitSet as PortSet;
use crate::either::{Either, each};
use crate::nic::Acknowledge;
use crate::platform::Platform;
use pami::device::Gone;
use pami::packet::Envelope;

/// An adapter, or one of two kinds.
pub trait Network: Send + Sized + 'static {
    /// Acknowledges the adapter's interrupts.
    type Interrupt: Acknowledge;
    /// The engine on it, behind the token.
    type Engine: Token;

    /// As `Adapter::mtu`.
    fn mtu(&self) -> usize;

    /// As `Adapter::watch`.
    fn watch(&self) -> Option<Watch>;

    /// As `Adapter::interrupt`.
    fn interrupt(&self) -> Self::Interrupt;

    /// As `ReliableAdapter::most_peers`.
    fn most_peers(&self) -> usize;

    /// The engine of one of `nodes` nodes with the ends of as many ports; the other ends go to their states. Allocates.
    fn engine(self, port_states: &[PortState], mtu: usize, nodes: u32) -> Self::Engine;
}

impl<A: Network, B: Network> Network for Either<A, B> {
    type Interrupt = Either<A::Interrupt, B::Interrupt>;
    type Engine = Either<A::Engine, B::Engine>;

    fn mtu(&self) -> usize {
        each!(self, network => network.mtu())
    }

    fn watch(&self) -> Option<Watch> {
        each!(self, network => network.watch())
    }

    fn interrupt(&self) -> Self::Interrupt {
        match self {
            Self::First(network) => Either::First(network.interrupt()),
            Self::Second(network) => Either::Second(network.interrupt()),
        }
    }

    fn most_peers(&self) -> usize {
        each!(self, network => network.most_peers())
    }

    fn engine(self, port_states: &[PortState], mtu: usize, nodes: u32) -> Self::Engine {
        match self {
            Self::First(network) => Either::First(network.engine(port_states, mtu, nodes)),
            Self::Second(network) => Either::Second(network.engine(port_states, mtu, nodes)),
        }
    }
}

/// What came of running the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// Something moved.
    Moved,
    /// There is nothing to do until the device has news, a doorbell rings, or the engine is due.
    Quiet,
    /// Nothing moved now; or another hart is at it, and may have looked before there was something.
    NotAllDone,
}

/// What guards an engine. Whoever holds it runs the engine.
pub trait Token: Send + Sync + 'static {
    /// The engine, held.
    type Held<'a>: Held;

    /// Waits for it.
    fn hold(&self) -> Self::Held<'_>;

    /// As `MessageUnit::progress_of`.
    fn progress<P: Platform, N: Network>(&self, unit: &MessageUnit<P, N>, rests: bool) -> (Ran, u64);
}

impl<A: Token, B: Token> Token for Either<A, B> {
    type Held<'a> = Either<A::Held<'a>, B::Held<'a>>;

    fn hold(&self) -> Self::Held<'_> {
        match self {
            Self::First(token) => Either::First(token.hold()),
            Self::Second(token) => Either::Second(token.hold()),
        }
    }

    #[inline(always)]
    fn progress<P: Platform, N: Network>(&self, unit: &MessageUnit<P, N>, rests: bool) -> (Ran, u64) {
        each!(self, token => token.progress(unit, rests))
    }
}

/// An engine whose token is held: what is asked of it now and then.
pub trait Held {
    /// As `Engine::take_to_wake`.
    fn take_to_wake(&mut self) -> PortSet;
    /// As `Engine::renew`.
    fn renew(&mut self, port: u16, generation: u16, reception: &mut Reception);
    /// As `Engine::say`.
    fn say(&mut self, to: u32, envelope: &Envelope, data: &[u8]) -> bool;
    /// As `Engine::may_rest`.
    fn may_rest(&mut self, now: u64) -> bool;
    /// As `Engine::send_raw`.
    fn send_raw(&mut self, node: u32, bytes: &[u8]) -> bool;
    /// As `Engine::faults`.
    fn faults(&self) -> AdapterFaults;
    /// As `Engine::note_gone`.
    fn note_gone<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, node: u32, gone: Gone);
}

impl<A: Held, B: Held> Held for Either<A, B> {
    fn take_to_wake(&mut self) -> PortSet {
        each!(self, engine => engine.take_to_wake())
    }

    fn renew(&mut self, port: u16, generation: u16, reception: &mut Reception) {
        each!(self, engine => engine.renew(port, generation, reception));
    }

    fn say(&mut self, to: u32, envelope: &Envelope, data: &[u8]) -> bool {
        each!(self, engine => engine.say(to, envelope, data))
    }

    fn may_rest(&mut self, now: u64) -> bool {
        each!(self, engine => engine.may_rest(now))
    }

    fn send_raw(&mut self, node: u32, bytes: &[u8]) -> bool {
        each!(self, engine => engine.send_raw(node, bytes))
    }

    fn faults(&self) -> AdapterFaults {
        each!(self, engine => engine.faults())
    }

    fn note_gone<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, node: u32, gone: Gone) {
        each!(self, engine => engine.note_gone(unit, node, gone));
    }
}

/// The same, of an engine whose adapter sends bare `Frames`.
pub trait HeldFrames: Held {
    /// As `Frames::send_frame`.
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool;
    /// As `Frames::receive_frame`, of other nodes' frames; what the network itself says is done.
    fn receive_frame<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
    ) -> Option<(u32, u64, usize)>;
    /// As `Frames::arm_frames`.
    fn arm_frames(&mut self, sent: bool) -> bool;
}

impl<A: HeldFrames, B: HeldFrames> HeldFrames for Either<A, B> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        each!(self, engine => engine.send_frame(node, word, data))
    }

    fn receive_frame<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
    ) -> Option<(u32, u64, usize)> {
        each!(self, engine => engine.receive_frame(unit))
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        each!(self, engine => engine.arm_frames(sent))
    }
}
