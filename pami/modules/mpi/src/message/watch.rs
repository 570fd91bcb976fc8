//! Nodes that die: what waits for them ends.

use super::{At, Messages};
use crate::envelope::INTERNAL;
use crate::error::Error;
use crate::request::{Arrived, Awaits, PointToPoint, Progress, Receiving};
use crate::status::Status;
use pami::device::Port;
use pami::{Endpoint, GeometryId};

/// Who a request waits for.
enum Other {
    Endpoint(Endpoint),
    /// Anybody of a communicator.
    Anybody(GeometryId),
}

fn other(operation: &PointToPoint) -> Option<Other> {
    match operation {
        // The layer below ends what it has, and refuses what it has not.
        PointToPoint::Send(sending) => match sending.awaits {
            // The first to a peer may wait for its answer.
            Awaits::Turn | Awaits::Match | Awaits::Cts { .. } => Some(Other::Endpoint(sending.target)),
            _ => None,
        },
        // The layer below ends this.
        PointToPoint::Receive(Receiving {
            message: Some(Arrived { progress: Progress::Pulling, .. }),
            ..
        }) => None,
        PointToPoint::Receive(receiving) => {
            let origin = receiving.message.map(|message| message.origin).or(receiving.from);
            let communicator = GeometryId(receiving.communicator & !INTERNAL);
            Some(origin.map_or(Other::Anybody(communicator), Other::Endpoint))
        }
    }
}

impl<P: Port> At<'_, P> {
    /// The node that a request waits for in vain.
    fn death(&self, other: &Other) -> Option<u32> {
        match *other {
            Other::Endpoint(endpoint) => self.active.death_of(endpoint),
            Other::Anybody(communicator) => self.active.geometry(communicator)?.dead,
        }
    }

    fn watch(&mut self, other: &Other) {
        let looks = self.messages.looks;
        let endpoint = match *other {
            Other::Endpoint(endpoint) => Some(endpoint),
            // One after the other.
            Other::Anybody(communicator) => self
                .active
                .geometry(communicator)
                .and_then(|geometry| geometry.members.endpoint(looks % geometry.size.max(1))),
        };
        if let Some(endpoint) = endpoint {
            self.active.watch(endpoint);
        }
    }

    /// Takes back what those were granted whose nodes died.
    #[cold]
    pub(crate) fn reclaim_from_dead(&mut self) {
        let me = self.active.endpoint();
        let Messages { peers, pool, .. } = &mut *self.messages;
        for (task, peer) in (0..).zip(peers.iter_mut()) {
            let endpoint = Endpoint::from_parts(me.client(), task, me.context());
            if self.active.death_of(endpoint).is_some() {
                pool.peer_died(&mut peer.credit);
            }
        }
    }

    /// Ends what waits for nodes that died, and has the network look after the rest.
    pub(crate) fn look_after(&mut self) {
        self.messages.looks = self.messages.looks.wrapping_add(1);
        for slot in 0..self.requests.len() {
            let operation = self.requests.get_mut(slot).and_then(|slot| slot.active());
            let Some(other) = operation.and_then(|operation| other(operation)) else { continue };
            match self.death(&other) {
                Some(node) => {
                    self.messages.posted.remove(self.requests, slot.into());
                    if let Other::Endpoint(peer) = other
                        && let Some(peer) = self.messages.peer(peer)
                    {
                        peer.replies_due.remove(self.requests, slot.into());
                        peer.pending.remove(self.requests, slot.into());
                    }
                    self.give_up_region(slot);
                    self.requests.complete(slot, Status::failed(Error::NodeDead(node)));
                }
                None => self.watch(&other),
            }
        }
    }
}
