//! Accumulates: `to += scale * from`, element by element, balanced between this task and the target (SPEC L-1 to L-5).
//!
//! Each contiguous run of the shape is one message that the messaging layer processes, as the setting
//! [`accumulate`](crate::Settings::accumulate) says. The results are the same bit for bit whatever that is; integers wrap,
//! and of floating-point numbers product and sum are rounded one after the other.

use crate::address::{GlobalAddress, Local};
use crate::error::Error;
use crate::library::Library;
use crate::protocols::Ends;
use crate::shape::Shape;
use pami::{Factor, Node, Recipe, Split};

impl<N: Node> Library<N> {
    /// Begins the operations of an accumulate.
    pub(crate) fn begin_accumulate(
        &self,
        scale: Factor,
        from: Local,
        to: GlobalAddress,
        shape: Shape,
        slot: usize,
    ) -> Result<(), Error> {
        let (plan, size) = (self.plan(shape, slot)?, scale.element().bytes() as u32);
        let region = self.check(from, to, &plan)?;
        if !to.offset.is_multiple_of(size) || !shape.is_multiple_of(size) {
            return Err(Error::Unaligned { size });
        }
        let target = self.endpoint(to.task)?;
        let ends = Ends { target, region, offset: to.offset, memory: from.memory, at: from.offset };
        let (protocols, recipe) = (&self.inner.protocols, Recipe::accumulate(scale));
        let begun = plan.runs(|local, remote, len| {
            self.operate(slot, |active| {
                protocols.accumulate(active, &ends, (local, remote, len), recipe, slot)
            })
        });
        // Not before they are begun: a fence of another thread in between would not cover them.
        self.accumulated()?.note(to.task);
        begun
    }

    /// Changes who does the work of accumulates that are begun from now on, on all contexts.
    ///
    /// # Errors
    /// [`Error::Finalized`]
    pub fn set_accumulate(&self, split: Split) -> Result<(), Error> {
        let mut client = self.inner.instance.client();
        let client = client.as_mut().ok_or(Error::Finalized)?;
        self.inner.registered.split_accumulates(client, split)?;
        self.inner.settings.lock().accumulate = split;
        Ok(())
    }
}
