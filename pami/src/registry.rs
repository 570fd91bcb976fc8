//! Where factory objects lie, what each holds, and what a client knows of its own (SPEC M-1, M-3).
//!
//! A client's memory for them is no [`SlotTable`](rings::slot_table::SlotTable): such a table has its entries to itself, while
//! a factory is its holder's, wherever it lies, so that executing it looks at nothing of the client.

use crate::balance::Split;
use crate::collective::{Algorithm, CallError, Collective, Tuning};
use crate::endpoint::ClientId;
use crate::packet::DISPATCH_IDS;
use core::fmt;
use heapless::Vec;

/// Protocols that a client can have at a time.
pub const PROTOCOLS: usize = 32;

/// Numbers of clients are lower.
pub(crate) const NOBODY: ClientId = ClientId(u16::MAX);

/// What a factory knows: all that can be settled when it is registered is.
#[derive(Clone, Copy)]
pub struct Settings {
    pub(crate) client: ClientId,
    /// The client again, unless one-sided operations take another path than its own: then nobody.
    pub(crate) usual_for: ClientId,
    pub(crate) dispatch: u8,
    /// Takes another path than the client's other operations.
    pub(crate) own_path: bool,
    pub(crate) local_paths: bool,
    pub(crate) rendezvous_from: usize,
    pub(crate) collective: Collective,
    pub(crate) algorithm: Option<(Algorithm, Tuning)>,
    pub(crate) split: Split,
}

impl Settings {
    /// Nobody's.
    pub(crate) const NONE: Self = Self {
        client: NOBODY,
        usual_for: NOBODY,
        dispatch: 0,
        own_path: false,
        local_paths: true,
        rendezvous_from: usize::MAX,
        collective: Collective::Barrier,
        algorithm: None,
        split: Split::TargetOnly,
    };
}

/// Memory for one factory object, of whatever function; what is in it is nobody else's matter (SPEC M-3). 88 bytes,
/// of alignment 8, on machines of 64 bits.
///
/// Its size and alignment are those of the type, so no smaller or misaligned memory can be passed as one:
///
/// ```compile_fail,E0308
/// let memory: &'static mut pami::factory::FactoryMemory = Box::leak(Box::new([0u8; 8]));
/// ```
pub struct FactoryMemory {
    settings: Settings,
    protocol: &'static str,
    /// Whether it is the client's, and to be given to others.
    pooled: bool,
}

impl FactoryMemory {
    /// Its size in bytes.
    pub const SIZE: usize = size_of::<Self>();
    /// Its alignment in bytes.
    pub const ALIGN: usize = align_of::<Self>();

    /// Memory that holds no factory.
    pub const fn new() -> Self {
        Self { settings: Settings::NONE, protocol: "", pooled: false }
    }

    /// The same, of a client's own.
    pub(crate) const fn pooled() -> Self {
        Self { pooled: true, ..Self::new() }
    }

    /// Holds a factory of a protocol from now on.
    pub(crate) fn hold(&mut self, settings: Settings, protocol: &'static str) {
        (self.settings, self.protocol) = (settings, protocol);
    }

    /// What its factory knows.
    #[inline]
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The protocol that its factory is of.
    pub(crate) fn protocol(&self) -> &'static str {
        self.protocol
    }
}

impl Default for FactoryMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a protocol or a factory could not be had, or not be given up. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FactoryError {
    /// The client has a protocol of that name.
    NameTaken(&'static str),
    /// The client has no protocol of that name: it is another client's.
    ForeignProtocol(&'static str),
    /// The factory, of a protocol of this name, was registered by another client.
    ForeignFactory(&'static str),
    /// No more of `what` is left; the client has `limit`.
    Exhausted {
        /// What ran out, in words.
        what: &'static str,
        /// How many there are.
        limit: usize,
    },
    /// The protocol still has this many factories.
    FactoriesAlive(usize),
    /// The id is not below [`DISPATCH_IDS`], or has a handler.
    DispatchId(u8),
    /// Handlers come before contexts, but for late ones, and go after them; the client has this many.
    ContextsAlive(u8),
    /// The client was set up without collectives.
    NoCollectives,
    /// The collective has no such algorithm, or its tuning is none.
    Call(CallError),
}

impl fmt::Display for FactoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => {
                write!(f, "the client has a protocol \"{name}\": take another name, or register in that one")
            }
            Self::ForeignProtocol(name) => {
                write!(f, "protocol \"{name}\" is another client's: declare one with this client")
            }
            Self::ForeignFactory(name) => {
                write!(
                    f,
                    "the factory of protocol \"{name}\" is another client's: that one must deregister it"
                )
            }
            Self::Exhausted { what, limit } => {
                write!(f, "out of {what}: the client has {limit}; see ClientBuilder, or bring memory")
            }
            Self::FactoriesAlive(count) => {
                write!(f, "the protocol still has {count} factories: deregister them first")
            }
            Self::DispatchId(id) => {
                write!(f, "dispatch id {id} has a handler, or is not below {DISPATCH_IDS}")
            }
            Self::ContextsAlive(count) => {
                write!(
                    f,
                    "the client has {count} contexts: handlers are registered before, or with \
                     ClientBuilder::late_receives, and deregistered after"
                )
            }
            Self::NoCollectives => {
                f.write_str("the client has no collectives: see ClientBuilder::collectives")
            }
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FactoryError {}

/// What a client knows of its protocols and factories.
pub(crate) struct Registry {
    /// Their names, and how many factories each has.
    protocols: Vec<(&'static str, usize), PROTOCOLS>,
    /// Memory for factories; `None` where one is.
    pool: &'static mut [Option<&'static mut FactoryMemory>],
}

impl Registry {
    /// With these places for factories.
    pub(crate) fn new(pool: &'static mut [Option<&'static mut FactoryMemory>]) -> Self {
        Self { protocols: Vec::new(), pool }
    }

    /// Factories that there are.
    pub(crate) fn registered(&self) -> usize {
        self.protocols.iter().map(|(_, factories)| factories).sum()
    }

    /// One more protocol; `None` if there are as many as can be.
    pub(crate) fn declare(&mut self, name: &'static str) -> Option<()> {
        self.protocols.push((name, 0)).ok()
    }

    /// A protocol has ended.
    pub(crate) fn end(&mut self, name: &str) {
        self.protocols.retain(|protocol| protocol.0 != name);
    }

    /// The names of protocols, and how many factories each has.
    pub(crate) fn protocols(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.protocols.iter().copied()
    }

    pub(crate) fn factories_of(&mut self, name: &str) -> Option<&mut usize> {
        self.protocols.iter_mut().find(|protocol| protocol.0 == name).map(|(_, factories)| factories)
    }

    pub(crate) fn take(&mut self) -> Result<&'static mut FactoryMemory, FactoryError> {
        let limit = self.pool.len();
        let free = self.pool.iter_mut().find_map(Option::take);
        free.ok_or(FactoryError::Exhausted { what: "memory for factories", limit })
    }

    /// Takes memory back if it is the client's; else the caller has it.
    pub(crate) fn give_back(
        &mut self,
        memory: &'static mut FactoryMemory,
    ) -> Option<&'static mut FactoryMemory> {
        match self.pool.iter_mut().find(|place| place.is_none()) {
            Some(place) if memory.pooled => {
                *place = Some(memory);
                None
            }
            _ => Some(memory),
        }
    }
}
