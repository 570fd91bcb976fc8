//! Advice that a context asks for and gives (SPEC L-2).

use crate::balance::advice::Advice;
use crate::balance::limit;
use crate::balance::recipe::SubOperations;
use crate::context::Active;
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};

impl<P: Port> Active<P> {
    /// What this context says when it is asked: its sub-operations and the idle share of its task's harts. Sleep and rounds of
    /// a [`wait`](crate::Context::wait) that find nothing are idle time, and so is what was spent on messages that are
    /// processed: it would be theirs again. A loop of the caller's own around `advance` counts as work.
    pub fn advice(&self) -> Advice {
        let idle = self.port.idle_share().min(limit::ALL_TIME);
        Advice { available: self.processing.available, idle }
    }

    /// Notes that the time since `started` was spent on a message that is processed.
    pub(super) fn note_processing(&mut self, started: u64) {
        let now = self.port.now_ns();
        self.port.note_idle(started, now);
    }

    /// Asks `target` for advice.
    pub(super) fn ask_advice(&mut self, path: Path, target: Endpoint) -> bool {
        let origin = self.transport.me();
        let envelope =
            Envelope { kind: Kind::AskAdvice, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 };
        let asked = self.port.push_bcopy(path, &envelope, &[], &[]).is_ok();
        if asked {
            let now = self.port.now_ns();
            self.processing.advices.asked(target, now);
        }
        asked
    }

    /// Somebody asks.
    pub(crate) fn advice_asked(&mut self, envelope: &Envelope) {
        if self.port.node_of(envelope.origin.task()).is_none() {
            self.transport.protocol_error();
            return;
        }
        self.processing.askers.note(envelope.origin);
        self.note_work();
    }

    /// Once round those that asked, with what is true now. Returns the number of answers that went out.
    pub(crate) fn send_advices(&mut self, blocked: &mut Blocked) -> usize {
        if self.processing.askers.is_empty() {
            return 0;
        }
        let Advice { available, idle } = self.advice();
        let Self { processing, port, transport, .. } = self;
        processing.askers.tell(|target| {
            // Nobody waits any more where it died.
            let Ok(path) = transport.locate(port, target) else { return true };
            if blocked.contains(&path) {
                return false;
            }
            let [functions, dispatch] = available.bits().to_be_bytes();
            let (offset, origin) = (u32::from(functions) << 16 | u32::from(idle), transport.me());
            let envelope =
                Envelope { kind: Kind::Advice, dispatch, origin, target, message: 0, offset, total: 0 };
            let sent = port.push_bcopy(path, &envelope, &[], &[]).is_ok();
            if !sent {
                let _ = blocked.push(path);
            }
            sent
        })
    }

    /// A target's answer.
    pub(crate) fn advice_arrived(&mut self, envelope: &Envelope) {
        let functions = (envelope.offset >> 16) as u8;
        let available = SubOperations::from_bits_truncate(u16::from_be_bytes([functions, envelope.dispatch]));
        let idle = (envelope.offset as u16).min(limit::ALL_TIME);
        let now = self.port.now_ns();
        let known = self.processing.advices.answered(envelope.origin, now, Advice { available, idle });
        if !known {
            self.transport.protocol_error();
        }
    }
}
