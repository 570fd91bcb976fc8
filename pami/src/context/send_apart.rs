//! Sends over another path than the client's (SPEC M-5): a factory may have its own way to endpoints of the node, through memory or
//! over the network's loop-back.
//!
//! Messages of one endpoint to another are told apart, refused and let in by their order, which two paths do not keep. So what
//! goes over the factory's path is what no order matters to:
//!
//! | message | the factory's path | the client's path |
//! |---|---|---|
//! | of one packet, or that is lent; wanted at once | all of it, to be acknowledged: a fence knows by that | |
//! | longer, from the switch-over size on, or one that may be kept for later | its data, which the target pulls over that path | RTS |
//! | that lies in several pieces, or that no region is left for | | all of it, in packets |
//!
//! Whole messages, which need nothing to be remembered at the target, do not end one that is half-way in from the same origin.

use super::terms::Terms;
use super::{Active, Operation, Send};
use crate::device::Port;
use crate::error::SendError;
use crate::operation::{Action, Awaits};
use crate::packet::{DEFERRING, HEADER_LIMIT, pulled_over};
use crate::payload::{Payload, PayloadIter, measure};
use crate::region::{RegionId, Rights};
use crate::send::SendState;
use heapless::Vec;

impl<P: Port> Active<P> {
    /// Sends a message through memory of the node, if `local`, or over the network: to endpoints of other nodes over that
    /// anyhow. Takes the payload if the send is taken.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_apart<T: Terms<P>>(
        &mut self,
        send: &mut Send<'_, P>,
        local: bool,
        terms: T,
    ) -> Result<(), SendError> {
        let apart = terms.path(self, send.target)?;
        let usual = self.transport.path_to(&self.port, send.target)?;
        if apart == usual {
            return self.send_from(send, terms);
        }
        if send.header.len() + size_of::<RegionId>() > self.port.mtu() {
            return Err(SendError::TooLong);
        }
        let header: Vec<u8, HEADER_LIMIT> = Vec::from_slice(send.header).map_err(|_| SendError::TooLong)?;
        let total = measure(&send.payload, &send.layout)?;
        let from = terms.rendezvous_from(self).max(1);
        let room = terms.room(&self.operations)?;
        let payload = core::mem::replace(&mut send.payload, Payload::Static(&[]));
        let (data, lease) = PayloadIter::new(payload, send.layout, total);
        let lent = data.whole().is_some_and(|whole| self.port.lends(apart, whole));
        let (short, fits) = ((total as usize) < from, header.len() + total as usize <= self.port.mtu());
        let deferred = send.dispatch >= DEFERRING;
        let in_one = lent || short && fits;
        let pulled = total > 0 && (!in_one || deferred && self.unexpected.leaves(total as usize));
        let region = data.memory().filter(|_| pulled);
        let region = region.and_then(|memory| self.port.register(memory, Rights::READ).ok());
        let dispatch = if region.is_some() { pulled_over(send.dispatch, local) } else { send.dispatch };
        let operation = Operation {
            path: Some(if in_one && !deferred { apart } else { usual }),
            target: send.target,
            order: self.transport.next_order(),
            queued: false,
            awaits: Awaits::Context,
            result: Ok(()),
            lease,
            local_done: send.local_done,
            remote_done: send.remote_done.into(),
            action: Action::Send(SendState::new(dispatch, header, data, region)),
        };
        self.transport.note_sent();
        T::begin(self, room, operation);
        Ok(())
    }
}
