//! Protocols of a client, and the factories that are registered in them (SPEC M-1, M-3).

use super::Factory;
use super::function::Function;
use crate::client::{Client, Node};
use crate::endpoint::ClientId;
use crate::registry::{FactoryError, FactoryMemory, PROTOCOLS};

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

/// A factory that was not registered: why, and the memory that was to hold it.
pub type Unregistered = (FactoryError, &'static mut FactoryMemory);

impl<N: Node> Client<N> {
    /// Declares a protocol, for functions to be registered in (SPEC M-1).
    ///
    /// # Errors
    /// [`FactoryError::NameTaken`], or [`FactoryError::Exhausted`] with [`PROTOCOLS`].
    pub fn protocol(&mut self, name: &'static str) -> Result<Protocol, FactoryError> {
        if self.registry().factories_of(name).is_some() {
            return Err(FactoryError::NameTaken(name));
        }
        let exhausted = FactoryError::Exhausted { what: "protocols", limit: PROTOCOLS };
        self.registry().declare(name).ok_or(exhausted)?;
        Ok(Protocol { name, client: self.id() })
    }

    /// Ends a protocol that has no factories; its name is free again.
    ///
    /// # Errors
    /// It comes back with [`FactoryError::FactoriesAlive`] or [`FactoryError::ForeignProtocol`].
    pub fn end_protocol(&mut self, protocol: Protocol) -> Result<(), (FactoryError, Protocol)> {
        match self.factories_in(&protocol).map(|factories| *factories) {
            Err(error) => Err((error, protocol)),
            Ok(0) => {
                self.registry().end(protocol.name);
                Ok(())
            }
            Ok(factories) => Err((FactoryError::FactoriesAlive(factories), protocol)),
        }
    }

    fn factories_in(&mut self, protocol: &Protocol) -> Result<&mut usize, FactoryError> {
        let foreign = FactoryError::ForeignProtocol(protocol.name);
        if protocol.client != self.id() {
            return Err(foreign);
        }
        self.registry().factories_of(protocol.name).ok_or(foreign)
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
        let memory = self.registry().take()?;
        self.register_in(memory, protocol, function).map_err(|(error, memory)| {
            self.registry().give_back(memory);
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
        let usual = self.usual_settings();
        let known = self.factories_in(protocol).map(drop);
        let settings = match known.and_then(|()| function.settle(self, usual)) {
            Ok(settings) => settings,
            Err(error) => return Err((error, memory)),
        };
        if let Ok(factories) = self.factories_in(protocol) {
            *factories += 1;
        }
        memory.hold(settings, protocol.name);
        Ok(Factory::new(memory))
    }

    /// Ends a factory. Objects that it has created go on. If its memory was the caller's, it is so again.
    ///
    /// # Errors
    /// It comes back with [`FactoryError::ForeignFactory`], or [`FactoryError::ContextsAlive`] if it is one for
    /// receives.
    pub fn deregister<F: Function<N>>(
        &mut self,
        factory: Factory<F>,
    ) -> Result<Option<&'static mut FactoryMemory>, (FactoryError, Factory<F>)> {
        let (settings, protocol) = (*factory.settings(), factory.protocol());
        if settings.client != self.id() {
            return Err((FactoryError::ForeignFactory(protocol), factory));
        }
        if let Err(error) = F::undo(self, &settings) {
            return Err((error, factory));
        }
        if let Some(factories) = self.registry().factories_of(protocol) {
            *factories -= 1;
        }
        Ok(self.registry().give_back(factory.into_memory()))
    }
}
