//! An engine as a unit's [`Network`] has it: made for its adapter, run, and asked while its token is held.

use super::super::MessageUnit;
use super::super::fifo::{self, PortState, Reception};
use super::super::network::{Held, HeldFrames, Network};
use super::super::responder::ANSWER_SLOTS;
use super::super::slots::CopySlots;
use super::super::{COPY_SLOTS, SHORT_SLOTS};
use super::{Engine, EnginePort};
use crate::adapter::{Adapter, AdapterFaults, Frame, Frames, RX_BUFFERS, ReliableAdapter, Watch};
use crate::bits::BitSet as PortSet;
use crate::platform::Platform;
use crate::ranks::MOST_NODES;
use alloc::vec::Vec;
use pami::device::Gone;
use pami::packet::Envelope;
use spin::{Mutex, MutexGuard};

impl<A: ReliableAdapter> Network for A {
    type Interrupt = A::Interrupt;
    type Engine = Mutex<Engine<A>>;

    fn mtu(&self) -> usize {
        Adapter::mtu(self)
    }

    fn watch(&self) -> Option<Watch> {
        Adapter::watch(self)
    }

    fn interrupt(&self) -> A::Interrupt {
        Adapter::interrupt(self)
    }

    fn most_peers(&self) -> usize {
        ReliableAdapter::most_peers(self)
    }

    fn engine(self, port_states: &[PortState], mtu: usize, nodes: u32) -> Self::Engine {
        let ports = port_states.len();
        let (slots, mut long, mut short) =
            CopySlots::new((ports * COPY_SLOTS + ANSWER_SLOTS, mtu), ports * SHORT_SLOTS);
        let ports: Vec<_> = port_states
            .iter()
            .map(|port_state| {
                let (injector, reception, ends) =
                    fifo::fifos(slots, &mut long, &mut short, RX_BUFFERS, port_state.record);
                port_state.injection.lock().injector = Some(injector);
                *port_state.reception.lock() = Some(reception);
                EnginePort::new(ends)
            })
            .collect();
        let nodes = (nodes as usize).min(MOST_NODES);
        Mutex::new(Engine::new(self, ports.into_boxed_slice(), slots, long, nodes))
    }
}

impl<A: ReliableAdapter> Held for MutexGuard<'_, Engine<A>> {
    #[inline]
    fn take_to_wake(&mut self) -> PortSet {
        (**self).take_to_wake()
    }

    fn renew(&mut self, port: u16, generation: u16, reception: &mut Reception) {
        (**self).renew(port, generation, reception);
    }

    fn say(&mut self, to: u32, envelope: &Envelope, data: &[u8]) -> bool {
        (**self).say(to, envelope, data)
    }

    fn may_rest(&mut self, now: u64) -> bool {
        (**self).may_rest(now)
    }

    fn send_raw(&mut self, node: u32, bytes: &[u8]) -> bool {
        (**self).send_raw(node, bytes)
    }

    fn faults(&self) -> AdapterFaults {
        (**self).faults()
    }

    fn note_gone<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, node: u32, gone: Gone) {
        (**self).note_gone(unit, node, gone);
    }
}

impl<A: Frames> HeldFrames for MutexGuard<'_, Engine<A>> {
    fn send_frame(&mut self, node: u32, word: u64, data: &'static [u8]) -> bool {
        self.adapter.send_frame(node, word, data)
    }

    fn receive_frame<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
    ) -> Option<(u32, u64, usize)> {
        loop {
            match self.adapter.receive_frame()? {
                Frame::From { node, word, len } => return Some((node, word, len)),
                Frame::Control(buffer) => self.take_in_control(unit, buffer),
            }
        }
    }

    fn arm_frames(&mut self, sent: bool) -> bool {
        self.adapter.arm_frames(sent)
    }
}
