//! Protocols of a client, and the factories that are registered in them (SPEC M-1, M-3).

use super::Factory;
use super::function::Function;
use super::memory::{FactoryMemory, Settings};
use crate::client::{Client, Node};
use crate::collective::CallError;
use crate::endpoint::ClientId;
use crate::packet::DISPATCH_IDS;
use core::fmt;
use heapless::Vec;

/// Protocols that a client can have at a time.
pub const PROTOCOLS: usize = 32;

/// A protocol of a client: a name that functions are registered under.
#[must_use = "functions are registered in it"]
#[derive(PartialEq, Eq, Debug)]
pub struct Protocol {
    name: &'static str,
    client: ClientId,
}

impl Protocol {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
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
    /// Handlers come before contexts and go after them; the client has this many.
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
                    "the client has {count} contexts: handlers are registered before, deregistered after"
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
    /// With memory for so many factories; `None` if the node has less.
    pub(crate) fn new<N: Node>(node: &N, places: usize) -> Option<Self> {
        let mut pool: &'static mut [Option<&'static mut FactoryMemory>] = &mut [];
        if places > 0 {
            let memory = || FactoryMemory { pooled: true, ..FactoryMemory::new() };
            let mut memory = node.memory(places, memory)?.iter_mut();
            pool = node.memory(places, || memory.next())?;
        }
        Some(Self { protocols: Vec::new(), pool })
    }

    /// Factories that there are.
    pub(crate) fn registered(&self) -> usize {
        self.protocols.iter().map(|(_, factories)| factories).sum()
    }

    fn factories_of(&mut self, name: &str) -> Option<&mut usize> {
        self.protocols.iter_mut().find(|protocol| protocol.0 == name).map(|(_, factories)| factories)
    }

    fn take(&mut self) -> Result<&'static mut FactoryMemory, FactoryError> {
        let limit = self.pool.len();
        let free = self.pool.iter_mut().find_map(Option::take);
        free.ok_or(FactoryError::Exhausted { what: "memory for factories", limit })
    }

    /// Takes memory back if it is the client's; else the caller has it.
    fn give_back(&mut self, memory: &'static mut FactoryMemory) -> Option<&'static mut FactoryMemory> {
        match self.pool.iter_mut().find(|place| place.is_none()) {
            Some(place) if memory.pooled => {
                *place = Some(memory);
                None
            }
            _ => Some(memory),
        }
    }
}

/// A factory that was not registered: why, and the memory that was to hold it.
pub type Unregistered = (FactoryError, &'static mut FactoryMemory);

impl<N: Node> Client<N> {
    /// Declares a protocol, for functions to be registered in (SPEC M-1).
    ///
    /// # Errors
    /// [`FactoryError::NameTaken`], or [`FactoryError::Exhausted`] with [`PROTOCOLS`].
    pub fn protocol(&mut self, name: &'static str) -> Result<Protocol, FactoryError> {
        if self.factories.factories_of(name).is_some() {
            return Err(FactoryError::NameTaken(name));
        }
        let exhausted = FactoryError::Exhausted { what: "protocols", limit: PROTOCOLS };
        self.factories.protocols.push((name, 0)).map_err(|_| exhausted)?;
        Ok(Protocol { name, client: self.id })
    }

    /// Ends a protocol that has no factories; its name is free again.
    ///
    /// # Errors
    /// It comes back with [`FactoryError::FactoriesAlive`] or [`FactoryError::ForeignProtocol`].
    pub fn end_protocol(&mut self, protocol: Protocol) -> Result<(), (FactoryError, Protocol)> {
        match self.factories_in(&protocol).map(|factories| *factories) {
            Err(error) => Err((error, protocol)),
            Ok(0) => {
                self.factories.protocols.retain(|(name, _)| *name != protocol.name);
                Ok(())
            }
            Ok(factories) => Err((FactoryError::FactoriesAlive(factories), protocol)),
        }
    }

    fn factories_in(&mut self, protocol: &Protocol) -> Result<&mut usize, FactoryError> {
        let foreign = FactoryError::ForeignProtocol(protocol.name);
        if protocol.client != self.id {
            return Err(foreign);
        }
        self.factories.factories_of(protocol.name).ok_or(foreign)
    }

    /// Registers a function in a protocol. Its factory lies in the client's memory
    /// ([`ClientBuilder::factories`](crate::ClientBuilder::factories)); what is returned refers to it.
    ///
    /// # Errors
    /// [`FactoryError::Exhausted`] if no such memory is left, or what is wrong with the settings.
    pub fn register<F: Function<N>>(
        &mut self,
        protocol: &Protocol,
        function: F,
    ) -> Result<Factory<F>, FactoryError> {
        let memory = self.factories.take()?;
        self.register_in(memory, protocol, function).map_err(|(error, memory)| {
            self.factories.give_back(memory);
            error
        })
    }

    /// As [`register`](Self::register), with the factory in the caller's memory.
    ///
    /// # Errors
    /// The memory comes back with what is wrong.
    pub fn register_in<F: Function<N>>(
        &mut self,
        memory: &'static mut FactoryMemory,
        protocol: &Protocol,
        function: F,
    ) -> Result<Factory<F>, Unregistered> {
        let mut settings = Settings {
            client: self.id,
            usual_for: self.id,
            local_paths: self.local_paths,
            rendezvous_from: self.rendezvous_from,
            ..FactoryMemory::new().settings
        };
        let known = self.factories_in(protocol).map(drop);
        if let Err(error) = known.and_then(|()| function.settle(self, &mut settings)) {
            return Err((error, memory));
        }
        if let Ok(factories) = self.factories_in(protocol) {
            *factories += 1;
        }
        (memory.settings, memory.protocol) = (settings, protocol.name);
        Ok(Factory::new(memory))
    }

    /// Ends a factory. Objects that it has created go on. If its memory was the caller's, it is so again.
    ///
    /// # Errors
    /// It comes back with [`FactoryError::ForeignFactory`], or [`FactoryError::ContextsAlive`] if it is one for
    /// receptions.
    pub fn deregister<F: Function<N>>(
        &mut self,
        factory: Factory<F>,
    ) -> Result<Option<&'static mut FactoryMemory>, (FactoryError, Factory<F>)> {
        let (settings, protocol) = (*factory.settings(), factory.protocol());
        if settings.client != self.id {
            return Err((FactoryError::ForeignFactory(protocol), factory));
        }
        if let Err(error) = F::undo(self, &settings) {
            return Err((error, factory));
        }
        if let Some(factories) = self.factories.factories_of(protocol) {
            *factories -= 1;
        }
        Ok(self.factories.give_back(factory.into_memory()))
    }

    /// The names of the client's protocols, and how many factories each has.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.factories.protocols.iter().copied()
    }
}
