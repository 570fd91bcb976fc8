//! Puts: the origin writes into a region of another task (SPEC D-5, P-7).
//!
//! To another node, and to its own by the network's loop-back, a put is packets that the target's message unit carries
//! out as they arrive. Within a node it is done at once; its callbacks wait for the next advance all the same.
//!
//! A put with signal tells its target. The last packet of the data is the signal as well: once it is in place the target's message
//! unit puts that packet into the reception FIFO of the endpoint. It waits with the messages to that endpoint, as it may find no
//! buffer there; the packets before it go with the other puts, which messages never overtake.

use crate::device::{Path, Port};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::layout::{Cursor, Layout, Segment};
use crate::packet::{Envelope, HEADER_LIMIT, Kind, SIGNAL_BYTES};
use crate::payload::{Payload, PayloadIter};
use crate::region::{RegionFault, RegionHandle, RegionId};
use crate::transport::Queued;
use heapless::Vec;
use rings::buffer::Lease;
use zerocopy::{FromBytes, IntoBytes};

/// Data to be written into a region.
pub struct Put<A: 'static> {
    /// An endpoint of the task that the region belongs to: a fence to it is behind this put. Puts without signals to another
    /// node are carried out in the order of calls, whichever of its endpoints they name.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::WRITE`](crate::region::Rights::WRITE).
    pub region: RegionHandle,
    /// First byte in the region of what `layout` describes.
    pub offset: u32,
    /// Where the data goes, from `offset` on.
    pub layout: Layout,
    /// The data.
    pub payload: Payload,
    /// Which bytes of the payload the data is made of.
    pub payload_layout: Layout,
    /// Called when the payload is the caller's again. Without it a payload's buffer is not given back.
    pub local_done: Option<Done<A>>,
    /// Called when all data is in the region, or was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<A>>,
}

/// What the target of a [put with signal](crate::Active::put_signal) is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Id of the handler at the target, below [`DISPATCH_IDS`](crate::packet::DISPATCH_IDS): called once, with a message of no
    /// data, when all data of the put is in the region.
    pub dispatch: u8,
    /// The message's header.
    pub header: [u8; SIGNAL_BYTES],
}

impl<A: 'static> Put<A> {
    /// The word that it writes and who is told at its end, if its data can be read at once, nobody wants that back, and somebody is
    /// told.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<(u64, &Done<A>)> {
        match (self.word(), &self.local_done, &self.remote_done) {
            (Some(&word), None, Some(done)) => Some((word, done)),
            _ => None,
        }
    }

    /// The word that it writes, if its data is one that can be read at once.
    #[inline(always)]
    fn word(&self) -> Option<&u64> {
        match (&self.payload, &self.payload_layout, &self.layout) {
            (&Payload::Static(bytes), Layout::Contiguous, Layout::Contiguous) => {
                u64::ref_from_bytes(bytes).ok()
            }
            _ => None,
        }
    }
}

/// A put under way.
pub(crate) struct PutState {
    region: RegionId,
    offset: u32,
    layout: Layout,
    cursor: Cursor,
    data: PayloadIter,
}

/// The data of one packet.
pub(crate) struct PutPacket {
    /// The packet's header.
    pub(crate) header: PutHeader,
    /// First byte in the region that the runs are reckoned from.
    pub(crate) offset: u32,
    pub(crate) len: usize,
    /// Nothing is left behind it.
    pub(crate) last: bool,
    pub(crate) cursor: Cursor,
}

/// Bytes of a packet's header: the region's name, then the runs.
type PutHeader = Vec<u8, HEADER_LIMIT>;

impl PutState {
    /// What the packets of `put` are made from, `total` bytes of `payload`, and the loan of that.
    #[inline(always)]
    pub(crate) fn new<A: 'static>(put: &Put<A>, payload: Payload, total: u32) -> (Self, Option<Lease>) {
        let (data, lease) = PayloadIter::new(payload, put.payload_layout, total);
        let (region, offset, layout) = (put.region.id, put.offset, put.layout);
        (Self { region, offset, layout, cursor: Cursor::default(), data }, lease)
    }

    /// Bytes of all packets together.
    pub(crate) fn total(&self) -> u32 {
        self.data.total()
    }

    /// The next packet of at most `mtu` bytes; `None` if there is none.
    #[inline]
    pub(crate) fn next_packet(&self, mtu: usize) -> Option<PutPacket> {
        self.packet_with::<0>(mtu)
    }

    /// The same with the signal in the last one.
    pub(crate) fn next_before(&self, signal: &Signal, mtu: usize) -> Option<PutPacket> {
        let mut packet = self.packet_with::<SIGNAL_BYTES>(mtu)?;
        if packet.last {
            // There is room: it was left.
            let _ = packet.header.extend_from_slice(&signal.header);
        }
        Some(packet)
    }

    /// The next packet, with room for so many bytes at the end of its header.
    #[inline(always)]
    fn packet_with<const ROOM: usize>(&self, mtu: usize) -> Option<PutPacket> {
        let (header, offset, len, cursor) = self.cut::<ROOM>(mtu.saturating_sub(ROOM));
        let last = len as u32 == self.data.left();
        // The layout was seen to reach far enough.
        (len > 0 || last).then_some(PutPacket { header, offset, len, last, cursor })
    }

    /// Queues packets as `next` makes them until the path is full. `of` says, by whether it is the last, of what kind and with what
    /// dispatch id each is.
    #[inline(always)]
    pub(crate) fn push_all<P: Port>(
        &mut self,
        port: &mut P,
        path: Path,
        mut envelope: Envelope,
        next: impl Fn(&Self, usize) -> Option<PutPacket>,
        of: impl Fn(bool) -> (Kind, u8),
    ) -> Queued {
        let mtu = port.mtu();
        let mut some = false;
        while let Some(packet) = next(self, mtu) {
            envelope.offset = packet.offset;
            (envelope.kind, envelope.dispatch) = of(packet.last);
            if self.data.push(port, path, &envelope, &packet.header, packet.len).is_err() {
                return Queued::stopped(some);
            }
            self.cursor = packet.cursor;
            some = true;
            if packet.last {
                break;
            }
        }
        Queued::All
    }

    /// Header, offset and length of the next packet of at most `mtu` bytes, and the cursor behind it.
    fn cut<const ROOM: usize>(&self, mtu: usize) -> (PutHeader, u32, usize, Cursor) {
        let mut header: PutHeader = Vec::new();
        let (mut cursor, mut len) = (self.cursor, 0);
        // Eight bytes of header are there for the name.
        let _ = header.extend_from_slice(self.region.as_bytes());
        if self.layout == Layout::Contiguous {
            let len = (self.data.left() as usize).min(mtu.saturating_sub(header.len()));
            return (header, self.offset + self.data.taken(), len, cursor);
        }
        while self.data.left() > len && header.len() + size_of::<Segment>() + ROOM <= HEADER_LIMIT {
            let used = header.len() + size_of::<Segment>() + len as usize;
            let most = (mtu.saturating_sub(used) as u32).min(self.data.left() - len);
            let Some((place, run)) = self.layout.next_run(&mut cursor, most).filter(|_| most > 0) else {
                break;
            };
            let segment = Segment { offset: (self.offset + place).into(), len: run.into() };
            let _ = header.extend_from_slice(segment.as_bytes());
            len += run;
        }
        (header, self.offset, len as usize, cursor)
    }

    /// Writes all of it into a region of this node.
    pub(crate) fn carry_out<P: Port>(&mut self, port: &mut P, target: Endpoint) -> Result<(), RegionFault> {
        while self.data.left() > 0 {
            let mut ahead = self.cursor;
            let Some((place, most)) = self.layout.next_run(&mut ahead, self.data.left()) else { break };
            let mut outcome = Ok(());
            let len = self.data.next_run(most, |bytes| {
                outcome = port.put_local(target, self.region, self.offset + place, bytes);
            });
            outcome?;
            if len == 0 || self.layout.next_run(&mut self.cursor, len).is_none() {
                break;
            }
        }
        Ok(())
    }
}
