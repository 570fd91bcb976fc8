//! Collectives that do not move: those that are to clear data are asked what they mean.

use super::PATIENCE_NS;
use super::transfer::SendStage;
use super::wire::{Wire, Word};
use crate::context::Active;
use crate::device::Port;

impl<P: Port> Active<P> {
    /// Asks those that are to clear data of a collective which has not moved for long: they may mean another one.
    pub(super) fn ask_the_awaited(&mut self) {
        let now = self.transport.port.now_ns();
        let Self { collectives: engine, transport, .. } = self;
        if now < engine.looked_ns.saturating_add(PATIENCE_NS) {
            return;
        }
        engine.looked_ns = now;
        let mut wire = Wire::new(transport);
        for slot in engine.slots.iter_mut() {
            if !core::mem::take(&mut slot.moved) {
                // One question is enough: nothing is lost if it finds no room.
                for send in slot.sends.iter().filter(|send| send.stage == SendStage::Waits) {
                    let label = slot.label(send.tag);
                    let _ = wire.push(send.to, Word::Request, &label, (0, 0, send.piece.len), |_| {});
                }
            }
        }
    }
}
