//! Nodes that are gone: what waits for them ends, the rest goes on (SPEC D-8, R-2).
//!
//! The network tells that a node is gone, and how it went. With one that *died* all ends that needs it. One whose job *ended*
//! has sent all that it had to, so collectives go on; but what still wants something of it ends, and new operations to it are
//! refused.

use super::{Active, OnDeaths};
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Action, bits};

impl<P: Port> Active<P> {
    /// The first node that died: a job that lives on finds out by this that a message will not come.
    pub fn dead_node(&self) -> Option<u32> {
        self.port.first_dead()
    }

    /// The node of `endpoint`, if it is dead and all that came from there has been taken in: nothing comes from there any more.
    pub fn death_of(&self, endpoint: Endpoint) -> Option<u32> {
        if self.dead_packets_left || self.port.deaths() != self.deaths {
            return None;
        }
        self.port.node_of(endpoint.task()).filter(|&node| self.port.is_dead(node))
    }

    /// What an advance calls when nodes are gone, and all that came from there has been taken in. It may be called when none is.
    pub fn on_deaths(&mut self, on: Option<OnDeaths<P>>) {
        self.on_deaths = on;
    }

    /// Notes, until the wait ends, that the context waits for `endpoint` without having anything under way towards it: who
    /// looks at the node from outside sees for whom it waits.
    pub fn watch(&mut self, endpoint: Endpoint) {
        if let Some(node) = self.port.node_of(endpoint.task()) {
            self.told_awaited = true;
            self.port.note_awaited(Some(node));
        }
    }

    /// What ends that has to do with the node of `endpoint`, if it is gone.
    pub(crate) fn gone_home(&self, endpoint: Endpoint) -> Option<OperationError> {
        gone_home(&self.port, endpoint)
    }

    /// Ends all that waits for nodes that died since the last call: operations to them, fences that they have not answered,
    /// and what is pulled from them. Messages of theirs that are half-way end once what they sent before has been taken in.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_deaths(&mut self) {
        // Before the looks: a death behind them makes for another round.
        self.deaths = self.port.deaths();
        self.dead_packets_left = true;
        self.transport.forget_paths();
        self.writable.forget();
        self.updatable.forget();
        self.port.take_back_from_gone();
        self.port.look();
        for number in bits(self.operations.used()) {
            self.end_if_dead(number);
        }
        for number in bits(self.receive_requests.used()) {
            let Some(origin) = self.receive_requests.get(number).map(|request| request.origin) else {
                continue;
            };
            if let Some(error) = self.gone_home(origin) {
                self.abandon_reception(number, error);
            }
        }
        self.collectives.end_those_of_dead(&self.port);
    }

    /// Notes for whom the context waits, before it sleeps.
    pub(crate) fn note_awaited(&mut self) {
        if self.due.is_some() {
            self.note_all_awaited();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_all_awaited(&mut self) {
        let mut last = None;
        let port = &mut self.port;
        let mut note = |endpoint: Endpoint| {
            let node = port.node_of(endpoint.task());
            if node != last {
                port.note_awaited(node);
                last = node;
            }
        };
        for operation in self.operations.iter() {
            match &operation.action {
                Action::Fence(state) => state.owed().iter().for_each(|&target| note(target)),
                _ if operation.awaits.is_some() => note(operation.target),
                _ => {}
            }
        }
        self.receive_requests.iter().for_each(|request| note(request.origin));
        self.incoming.iter().for_each(|partial| note(partial.origin));
        self.collectives.for_awaited(note);
        self.told_awaited = true;
    }

    /// The wait is over.
    #[inline]
    pub(crate) fn forget_awaited(&mut self) {
        if core::mem::take(&mut self.told_awaited) {
            self.port.note_awaited(None);
        }
    }

    /// The FIFO is empty, so nothing more comes from those that died: ends their messages that are half-way.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_halves(&mut self) {
        // Of one that died since the last look more may have come just now.
        if self.port.deaths() != self.deaths {
            return;
        }
        self.dead_packets_left = false;
        while let Some(origin) = self.incoming.find_origin(|origin| self.gone_home(origin).is_some()) {
            let Some(error) = self.gone_home(origin) else { break };
            let Some(partial) = self.incoming.take(origin) else { break };
            self.deliver(partial, Err(error));
        }
        if let Some(on_deaths) = self.on_deaths {
            on_deaths(self);
        }
    }

    fn end_if_dead(&mut self, number: u8) {
        let port = &self.port;
        let gone = |endpoint: Endpoint| gone_home(port, endpoint);
        let Some(operation) = self.operations.get(number) else { return };
        // One that is over in the line has ended with another that had taken it.
        let in_line = !operation.queued && !matches!(operation.action, Action::Over);
        let waits = operation.awaits.is_some() || in_line || operation.lease.is_some();
        match &mut operation.action {
            // Those not asked yet are found dead when their turn comes; and it ends behind what was before it.
            Action::Fence(state) => {
                if let Some(error) = state.forget_gone(gone) {
                    operation.result = Err(error);
                }
            }
            _ => {
                let (order, target) = (operation.order, operation.target);
                if let Some(error) = gone(target).filter(|_| waits) {
                    self.give_up(number, error);
                    self.spoil_fences(order, target, error);
                }
            }
        }
    }
}

/// What ends that has to do with the node of `endpoint`, if it is gone.
fn gone_home<P: Port>(port: &P, endpoint: Endpoint) -> Option<OperationError> {
    let node = port.node_of(endpoint.task())?;
    port.gone(node).map(|gone| OperationError::gone(node, gone))
}
