//! What peers tell each other of credit besides what goes along with messages ([`super::credit`]).

use super::At;
use crate::envelope::{ANSWER, ASK, RECALL, RETURN};
use crate::lags::Lag;
use crate::request::NONE;
use pami::device::Port;
use pami::{Endpoint, SendError};

impl<P: Port> At<'_, P> {
    /// A peer says or asks something about credit.
    pub(super) fn account(&mut self, origin: Endpoint, kind: u8, units: u32) {
        let task = origin.task();
        match kind {
            ANSWER => {
                if let Some(peer) = self.messages.peer(origin) {
                    peer.credit.answered();
                }
            }
            ASK => {
                self.messages.credit_short(origin);
                // There may be none.
                self.messages.say(task, ANSWER);
            }
            RECALL => self.messages.say(task, RETURN),
            _ => {
                let units = u16::try_from(units).unwrap_or(u16::MAX);
                let (pool, peers) = (&mut self.messages.pool, &mut self.messages.peers);
                if let Some(peer) = peers.get_mut(task as usize) {
                    pool.take_back(&mut peer.credit, units);
                }
            }
        }
        if self.messages.waits() {
            self.lags.set(Lag::Messages);
        }
    }

    /// Says to a peer what it is still to hear of credit. Returns whether there was room for that.
    pub(super) fn go_on_accounting(&mut self, task: usize) -> bool {
        let me = self.active.endpoint();
        let to = Endpoint::from_parts(me.client(), task as u32, me.context());
        for kind in [ANSWER, RECALL, RETURN, ASK] {
            let Some(peer) = self.messages.peers.get(task).filter(|peer| peer.unsaid & 1 << kind != 0) else {
                continue;
            };
            let units = if kind == RETURN { self.messages.pool.unused(&peer.credit) } else { 0 };
            let sent = self.send_control(to, kind, NONE, NONE, units.into());
            if sent == Err(SendError::Again) {
                return false;
            }
            let Some(peer) = self.messages.peers.get_mut(task) else { continue };
            peer.unsaid &= !(1 << kind);
            match kind {
                RETURN => self.messages.pool.gave_back(&mut peer.credit, units),
                // Of whom nothing can be asked, nothing is waited for: sends there end with the reason.
                ASK if sent.is_err() => peer.credit.answered(),
                _ => {}
            }
        }
        true
    }
}
