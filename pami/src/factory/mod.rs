//! Several messaging libraries over one: each registers what it needs, as it needs it (SPEC M-1 to M-6).
//!
//! A high-level library declares *protocols* and registers *functions* in them, with settings. Each registration makes a
//! *factory object*. An instruction to execute a function names a factory; that creates the *communication object* which
//! carries the function out, calls back when it is done, and is free then.

mod execute;
mod function;
pub(crate) mod memory;
pub(crate) mod object;
pub(crate) mod registry;
pub(crate) mod terms;

pub use execute::Outgoing;
pub use function::{
    CollectFunction, FenceFunction, FetchFunction, Function, GetFunction, ImmediateFunction, PutFunction,
    ReceiveFunction, SendFunction,
};
pub use memory::FactoryMemory;
pub use object::ObjectMemory;
pub use registry::{FactoryError, PROTOCOLS, Protocol, Unregistered};

use core::fmt;
use core::marker::PhantomData;
use memory::Settings;

/// Refers to a factory object for functions of kind `F`. It cannot be copied: who deregisters it has it no more.
#[must_use = "a factory is used by instructions, and given up by `Client::deregister`"]
pub struct Factory<F> {
    memory: &'static mut FactoryMemory,
    kind: PhantomData<fn() -> F>,
}

impl<F> Factory<F> {
    fn new(memory: &'static mut FactoryMemory) -> Self {
        Self { memory, kind: PhantomData }
    }

    fn into_memory(self) -> &'static mut FactoryMemory {
        self.memory
    }

    #[inline(always)]
    fn settings(&self) -> &Settings {
        &self.memory.settings
    }

    /// The name of its protocol.
    pub fn protocol(&self) -> &'static str {
        self.memory.protocol
    }
}

impl<F> fmt::Debug for Factory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("protocol", &self.memory.protocol).finish_non_exhaustive()
    }
}
