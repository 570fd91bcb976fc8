//! The instruction to process a message.

use super::Factory;
use super::function::{ProcessFunction, SubOperationFunction};
use crate::balance::{Operand, Recipe, Split};
use crate::context::terms::InMemory;
use crate::context::{Active, Done, ObjectMemory, Process};
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::region::RegionHandle;
use core::ops::Range;
use rings::shared::Shared;

/// What one message that is added to a region brings; who does what its factory knows. As in [`Process`].
pub struct Contribution<P: Port> {
    /// The endpoint whose context does the target's part; it is one of the task that the region belongs to.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::UPDATE`](crate::Rights::UPDATE).
    pub region: RegionHandle,
    /// Where in the region the first element belongs, in bytes; a multiple of an element's size.
    pub offset: u32,
    /// Where the message is. It is read until the local completion, as it is then.
    pub memory: Shared,
    /// The message's bytes in it: whole elements.
    pub range: Range<usize>,
    /// What the message is combined with, if the recipe says so.
    pub operand: Option<Operand>,
    /// What is done.
    pub recipe: Recipe,
    /// Called when the message's memory is no longer read.
    pub local_done: Option<Done<P>>,
    /// Called when the region has all of it, or it was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<P>>,
}

impl<P: Port> Contribution<P> {
    fn by(self, split: Split) -> Process<P> {
        let Self { target, region, offset, memory, range, operand, recipe, local_done, remote_done } = self;
        Process { target, region, offset, memory, range, operand, recipe, split, local_done, remote_done }
    }
}

impl Factory<SubOperationFunction> {
    /// What recipes call the function by.
    pub fn number(&self) -> u8 {
        self.settings().dispatch
    }
}

impl Factory<ProcessFunction> {
    /// Processes a message into a region, as [`Active::process`]; its object lies in the context's memory.
    ///
    /// # Errors
    /// Those, and [`SendError::ForeignFactory`].
    pub fn execute<P: Port>(
        &self,
        active: &mut Active<P>,
        contribution: Contribution<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.process(contribution.by(self.split()))
    }

    /// The same with the object in the caller's memory.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), with [`SendError::MemoryInUse`] instead of [`SendError::Again`].
    pub fn execute_in<P: Port>(
        &self,
        memory: &'static ObjectMemory<P>,
        active: &mut Active<P>,
        contribution: Contribution<P>,
    ) -> Result<(), SendError> {
        self.check(active)?;
        active.process_on(contribution.by(self.split()), InMemory(self.settings(), memory))
    }

    /// Who does which sub-operations.
    pub fn split(&self) -> Split {
        self.settings().split
    }
}
