//! The engine's way in: packets from the adapter to reception FIFOs, to memory, or to the queue of answers.

use super::super::MessageUnit;
use super::super::fifo::{Arrived, Gist, Reception};
use super::super::muster::{Heard, Muster};
use super::super::network::Network;
use super::super::outstanding::Taken;
use super::super::responder::Rejected;
use super::super::statistics::Counter;
use super::{Early, Engine};
use crate::adapter::{APART, FABRIC, ReliableAdapter, RxBuffer};
use crate::platform::Platform;
use pami::device::Gone;
use pami::endpoint::Endpoint;
use pami::packet::{ENDED, Envelope, Header, Kind, Packet};
use pami::region::RegionFault;

/// Packets received in one call of `progress`: a quarter of a peer's window, so that it hears of them while it has some left to send.
const RECEIVE_BURST: usize = 16;

impl<A: ReliableAdapter> Engine<A> {
    /// Takes in what has arrived.
    #[inline]
    pub(crate) fn receive<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        let mut moved = false;
        for _ in 0..RECEIVE_BURST {
            let Some(buffer) = self.adapter.receive() else { break };
            moved = true;
            if let Err(buffer) = self.deliver(unit, buffer) {
                self.adapter.recycle(buffer);
            }
        }
        moved
    }

    /// Puts a packet into its reception FIFO, or gives its buffer back.
    #[inline(always)]
    fn deliver<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        buffer: RxBuffer,
    ) -> Result<(), RxBuffer> {
        // Most are messages of one packet, of which no more needs to be known.
        let Some(header) = Header::of_whole(buffer.packet()) else { return self.deliver_part(unit, buffer) };
        let (target, gist) = (header.target(), Gist::of_whole(header));
        match unit.find_port(buffer.source(), header.origin(), target) {
            Ok((_, port)) => self.hand_over(unit, port, target, gist, buffer),
            Err(stray) => {
                stray.add(1);
                Err(buffer)
            }
        }
    }

    /// The same, of any packet.
    #[inline(never)]
    fn deliver_part<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        buffer: RxBuffer,
    ) -> Result<(), RxBuffer> {
        let Ok(packet) = Packet::parse(buffer.packet()) else {
            unit.counters.malformed.add(1);
            return Err(buffer);
        };
        let Envelope { kind, origin, target, .. } = packet.envelope;
        if kind.is_control() {
            self.take_control(unit, buffer.source(), &packet.envelope);
            return Err(buffer);
        }
        let (node, port) = match unit.find_port(buffer.source(), origin, target) {
            Ok(found) => found,
            Err(stray) => {
                stray.add(1);
                return Err(buffer);
            }
        };
        match kind {
            Kind::Put | Kind::PutLast | Kind::Get | Kind::Rmw => {
                self.serve(unit, node, &packet);
                return Err(buffer);
            }
            Kind::PutSignal | Kind::PutSignalAcked => {
                return self.deliver_signal(unit, (node, port), target, buffer);
            }
            _ if kind.is_answer() => {
                self.take_answer(unit, node, port, &packet);
                return Err(buffer);
            }
            _ => {}
        }
        let gist = Gist::of(&packet);
        self.hand_over(unit, port, target, gist, buffer)
    }

    /// Puts a packet into the reception FIFO of port `port`.
    #[inline(always)]
    fn hand_over<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        port: u16,
        target: Endpoint,
        gist: Gist,
        buffer: RxBuffer,
    ) -> Result<(), RxBuffer> {
        let Some(buffer) = self.admit(port, target, buffer) else { return Ok(()) };
        self.put_in(unit, port, target, gist, buffer)
    }

    /// A packet for port `port`, if that is to have it now.
    #[inline(always)]
    fn admit(&mut self, port: u16, target: Endpoint, buffer: RxBuffer) -> Option<RxBuffer> {
        let patience = self.adapter.patience();
        if patience < u32::MAX { self.refuse(port, target, patience, buffer) } else { Some(buffer) }
    }

    /// Puts a packet that port `port` is to have into its reception FIFO.
    #[inline(always)]
    fn put_in<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        port: u16,
        target: Endpoint,
        gist: Gist,
        buffer: RxBuffer,
    ) -> Result<(), RxBuffer> {
        let counters = &unit.counters;
        let ends = &mut self.ports[usize::from(port)];
        let generation = target.client().generation();
        if generation != ends.generation {
            return self.set_aside(unit, Early { port, generation, arrived: Arrived { buffer, gist } });
        }
        if let Err(Arrived { buffer, .. }) = ends.arrived.push(Arrived { buffer, gist }) {
            counters.overflow.add(1);
            return Err(buffer);
        }
        ends.record.note_delivered();
        counters.received_packets.add(1);
        counters.received_bytes.add(gist.bytes());
        self.to_wake.insert(port);
        Ok(())
    }

    /// Places the last data of a put with signal, and has its packet tell the target's context so (SPEC D-5).
    #[inline(never)]
    fn deliver_signal<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        (node, port): (u32, u16),
        target: Endpoint,
        buffer: RxBuffer,
    ) -> Result<(), RxBuffer> {
        // First: what comes again later must not have been placed.
        let Some(mut buffer) = self.admit(port, target, buffer) else { return Ok(()) };
        let Ok(packet) = Packet::parse(buffer.packet()) else { return Err(buffer) };
        let gist = Gist::of(&packet);
        let served = match self.asker(node) {
            Some(index) => self.responder.place(index, &unit.regions, &packet),
            None => Err(Rejected::Beyond),
        };
        let Some(fault) = unit.count_served(served) else { return Err(buffer) };
        Header::note_placed(buffer.packet_mut(), fault);
        self.put_in(unit, port, target, gist, buffer)
    }

    /// Has a packet for port `port` sent again later, if that was given so many while buffers run out and has taken none.
    /// Returns the packet otherwise.
    #[cold]
    fn refuse(&mut self, port: u16, target: Endpoint, patience: u32, buffer: RxBuffer) -> Option<RxBuffer> {
        let ends = &mut self.ports[usize::from(port)];
        let taken = ends.arrived.ring().head();
        if target.client().generation() == ends.generation
            && (taken != ends.taken || ends.arrived.ring().is_empty())
        {
            (ends.taken, ends.given) = (taken, 0);
        }
        if ends.given < patience {
            ends.given += 1;
            return Some(buffer);
        }
        let refused = self.adapter.refuse(buffer);
        if refused.is_ok() {
            ends.refused = Some(target);
        }
        refused.err()
    }

    /// Keeps a packet for a client that is to come; one for a client that has ended is not taken.
    #[cold]
    fn set_aside<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        early: Early,
    ) -> Result<(), RxBuffer> {
        let late = early.generation < self.ports[usize::from(early.port)].generation;
        if late || self.early.len() == self.early.capacity() {
            let counters = &unit.counters;
            if late { &counters.late } else { &counters.overflow }.add(1);
            return Err(early.arrived.buffer);
        }
        unit.counters.received_packets.add(1);
        unit.counters.received_bytes.add(early.arrived.gist.bytes());
        self.early.push(early);
        Ok(())
    }

    /// Has port `port`, which is closed, wait for the client of this generation: takes back what nobody took, and delivers
    /// what came early.
    pub(crate) fn renew(&mut self, port: u16, generation: u16, reception: &mut Reception) {
        let ends = &mut self.ports[usize::from(port)];
        ends.generation = generation;
        while reception.completed.pop().is_some() {}
        while let Some(arrived) = reception.arrived.pop() {
            ends.record.note_consumed();
            self.adapter.recycle(arrived.buffer);
        }
        for early in self.early.extract_if(.., |early| (early.port, early.generation) == (port, generation)) {
            ends.record.note_delivered();
            // There is room: the ring is as long as there are buffers.
            let _ = ends.arrived.push(early.arrived);
        }
        if let Some(target) = ends.refused.take() {
            self.adapter.ready(target.to_bits());
        }
    }

    /// Takes in what the network itself sent, and gives the buffer back.
    #[cold]
    pub(crate) fn take_in_control<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        buffer: RxBuffer,
    ) {
        match Packet::parse(buffer.packet()) {
            Ok(packet) => match &unit.muster {
                Some(muster) if buffer.source() == APART => self.take_word(unit, muster, &packet),
                _ => self.take_control(unit, buffer.source(), &packet.envelope),
            },
            Err(_) => unit.counters.malformed.add(1),
        }
        self.adapter.recycle(buffer);
    }

    /// Takes in what nodes have said by themselves.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_said<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) {
        while let Some(buffer) = self.adapter.take_said() {
            self.take_in_control(unit, buffer);
        }
    }

    /// Does what the network itself says, or node 0 where it says nothing; nobody else's word is taken.
    #[cold]
    fn take_control<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        source: u32,
        envelope: &Envelope,
    ) {
        let is_fabric = source == FABRIC && unit.muster.is_none();
        match envelope.kind {
            Kind::Go if is_fabric => unit.note_go(),
            Kind::Gone if is_fabric => {
                let gone = if envelope.dispatch == ENDED { Gone::Ended } else { Gone::Died };
                self.note_gone(unit, envelope.origin.task(), gone);
            }
            _ => unit.counters.unexpected.add(1),
        }
    }

    /// Does what another node says by itself.
    #[cold]
    fn take_word<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        muster: &Muster,
        packet: &Packet<'_>,
    ) {
        let node = packet.envelope.origin.task();
        let Some(Heard { reply, go, died, news }) = muster.hear(&packet.envelope, packet.data) else {
            return unit.counters.unexpected.add(1);
        };
        // Without room it is as good as lost: the node says Hello again.
        let is_said = reply.is_none_or(|word| self.say(node, &unit.word(word), muster.words()));
        if let Some(news) = news {
            P::gathering(&news);
        }
        if go {
            self.adapter.admit();
            unit.note_go();
        }
        // A death may end this node, which is not to be before it has answered.
        if died && is_said {
            self.note_gone(unit, node, Gone::Died);
        }
        unit.wake_joiner();
    }

    /// Node `node` is gone. Who asks after it must find it forgotten already.
    #[cold]
    pub(crate) fn note_gone<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        node: u32,
        gone: Gone,
    ) {
        if node != unit.node {
            self.node_died(node);
            unit.note_gone(node, gone);
            self.ports.iter().for_each(|ends| ends.parked.note_gone(unit.deaths()));
        }
    }

    /// Carries a request of node `node` out.
    fn serve<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, node: u32, packet: &Packet<'_>) {
        let served = match self.asker(node) {
            Some(index) => self.responder.serve(index, &unit.regions, packet),
            None => Err(Rejected::Beyond),
        };
        unit.count_served(served);
    }

    /// Takes in what node `node` answers to port `port`.
    fn take_answer<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        node: u32,
        port: u16,
        packet: &Packet<'_>,
    ) {
        let counters = &unit.counters;
        let taken = match self.asked.find(node) {
            Some(index) if packet.header.is_empty() => {
                self.outstanding.take(index, port, &packet.envelope, packet.data, counters)
            }
            _ => Taken::Unsolicited,
        };
        match taken {
            Taken::Unsolicited => counters.unsolicited.add(1),
            Taken::Placed => {}
            Taken::Ended(completed) => {
                if self.ports[usize::from(port)].completed.push(completed).is_err() {
                    // The port has more requests under way than it may.
                    counters.overflow.add(1);
                }
                self.to_wake.insert(port);
            }
        }
    }
}

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// Counts what became of a request. Returns why it was refused, if it was, of one that made sense.
    #[inline(always)]
    fn count_served(&self, served: Result<Option<RegionFault>, Rejected>) -> Option<Option<RegionFault>> {
        let counters = &self.counters;
        match served {
            Ok(None) => counters.served.add(1),
            Ok(Some(_)) => counters.refused.add(1),
            Err(Rejected::Malformed) => counters.malformed.add(1),
            Err(Rejected::Beyond) => counters.beyond.add(1),
        }
        served.ok()
    }

    /// The node that a packet is from, and the port that it is for.
    ///
    /// # Errors
    /// What it counts as, if it is not for this node, or node `source` cannot speak for its origin.
    #[inline]
    fn find_port(&self, source: u32, origin: Endpoint, target: Endpoint) -> Result<(u32, u16), &Counter> {
        let counters = &self.counters;
        let place = self.map.place(target.task()).filter(|place| place.node == self.node);
        let place = place.ok_or(&counters.wrong_node)?;
        // A node speaks for its own contexts only; what the network itself sends, it vouches for.
        let vouched = |node| source == node || source == FABRIC;
        let from = self.map.place(origin.task()).filter(|from| vouched(from.node));
        let from = from.filter(|_| origin.context().0 < self.contexts).ok_or(&counters.unknown_origin)?;
        let port = self.port_number(target.client(), place.local, target.context().0);
        Ok((from.node, port.ok_or(&counters.no_fifo)?))
    }
}
