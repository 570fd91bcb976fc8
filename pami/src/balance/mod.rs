//! Processing of messages, balanced between origin and target (SPEC L-1 to L-5, seed 004).
//!
//! ```text
//! origin                            target
//!   ASK-ADVICE  ------------------->  (if the split wants advice, and that at hand is too old)
//!          <-----------------------  ADVICE: sub-operations available, its task's idle share
//!   CHUNK: sub-operations left ---->  does them with the chunk's elements, into the region
//!   ...                               ...
//!   last CHUNK  ------------------->
//!          <-----------------------  Ack, or REFUSED
//! ```
//!
//! A [`Process`] adds the elements of a message to those in a region of another task, as its [`Recipe`] says: combined with an
//! operand before, by a built-in or a registered function, scaled, rounded to half their length, with their bytes swapped. The
//! origin cuts the message into chunks and decides for each which sub-operations it does itself; the
//! [`ChunkHeader`] names those that are left. Within a node it reaches the region's memory, and can do the addition too; and a
//! chunk of which it does nothing need not be copied: the target reads it where it lies. How the decision is made is the
//! [`Split`]'s matter; by advice, `limit` computes it.
//!
//! Of messages that wait to be added to the same elements in the same way, the next becomes the operand of the first, and both go as
//! one: those of integers always, as that is exact, others if their [recipe](Recipe::merged) lets it be. It ends as the first does.
//!
//! The answer to the last chunk is true of all: each names what the message as a whole wants of its target, so one that lacks a
//! sub-operation refuses every chunk, and the last is sent when the origin has done its own part. What the origin added itself
//! of a message that is refused stays added.
//!
//! Results are the same bit for bit however a message was split (SPEC L-5), but for which NaN a NaN is. Elements are updated
//! atomically, so several tasks may add to the same ones at once. What one context adds to an element by several operations to
//! one endpoint is added in their order; puts and gets do not wait for that, but behind a completion or a fence.
//!
//! **No circle.** Chunks and answers share a context's injection FIFO, so while its first packet waits for a peer to take
//! something in, no answer leaves either. If contexts then took nothing in because answers are owed, they could wait for each
//! other in a circle. They do not: nothing that processing sends ever waits in a reception FIFO for room in an injection FIFO.
//!
//! - An `ADVICE` or an `Ack` ends something and owes nothing; nor does a chunk that is not its message's last.
//! - A last `CHUNK` owes one answer, an `Ack` or `REFUSED`. It is noted with the acknowledgements, where each origin has a
//!   bit for each operation that it can have under way (`acks`).
//! - An `ASK-ADVICE` that finds no place among a fixed number of askers is dropped. Its origin waits for a bounded time, then
//!   leaves all to the target; it asks once for a message, and few targets at a time.
//!
//! So a context that is advanced always takes chunks, questions and answers in. Then every peer's credit comes back, every
//! injection FIFO's first packet leaves, and what is owed gets its turn, in front of further chunks.

pub(crate) mod advice;
pub(crate) mod arithmetic;
pub(crate) mod chunk;
pub(crate) mod cost;
pub(crate) mod functions;
pub(crate) mod limit;
mod passes;
mod recent_share;
pub(crate) mod recipe;
pub(crate) mod state;

pub use advice::{ADVICE_NS, Advice, Rule};
pub use chunk::{CHUNK_BYTES, ChunkHeader};
pub use functions::ElementFunction;
pub use recent_share::{RecentShare, WINDOW_NS};
pub use recipe::{Combination, Factor, Foreign, OWN_FUNCTIONS, Recipe, RecipeElement, SubOperations};
pub(crate) use state::ProcessState;

use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::region::RegionHandle;
use advice::{Advices, Askers};
use core::ops::Range;
use cost::StepCosts;
use functions::Functions;
use rings::shared::Shared;

/// Who does which sub-operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Split {
    /// The target does all.
    TargetOnly,
    /// The origin does all that it can: everything within a node; all but the addition over the torus.
    OriginOnly,
    /// The first rule that fits says; if none does, the target does all.
    Rules(&'static [Rule]),
    /// The target is asked, and who has less to do does more.
    #[default]
    Advice,
}

/// The second operand of a message that is combined: as many bytes, of the same elements, read until the local completion.
#[derive(Clone)]
pub struct Operand {
    /// Where it is.
    pub memory: Shared,
    /// Its first byte there.
    pub start: usize,
}

/// A message to be processed into a region.
pub struct Process<A: 'static> {
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
    /// Who does it.
    pub split: Split,
    /// Called when the message's memory is no longer read.
    pub local_done: Option<Done<A>>,
    /// Called when the region has all of it, or it was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<A>>,
}

/// What a context knows of processing.
#[repr(C)]
pub(crate) struct Processing {
    /// Who waits for this context's advice. Every advance that finds something to do looks at it: it lies in front.
    pub(crate) askers: Askers,
    /// What its client does for others.
    pub(crate) available: SubOperations,
    pub(crate) advices: Advices,
    pub(crate) functions: Functions,
    /// What sub-operations cost here, once somebody wanted to know.
    pub(crate) costs: Option<StepCosts>,
}

impl Processing {
    /// Of a client that does these for others, its functions among them.
    pub(crate) fn new(available: SubOperations, functions: Functions) -> Self {
        let registered = SubOperations::OWN.complement().union(functions.bits());
        let available = available.intersection(registered);
        Self { available, advices: Advices::new(), askers: Askers::new(), functions, costs: None }
    }

    /// Whether nobody waits for advice.
    #[inline]
    pub(crate) fn has_told_all(&self) -> bool {
        self.askers.is_empty()
    }
}
