//! Nodes that die: what waits for them ends, the rest goes on (SPEC D-8).

use crate::context::Active;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Action, bits};

/// How often nodes that something waits for are looked after, in nanoseconds.
const WATCH_NS: u64 = 1_000_000_000;

impl<P: Port> Active<P> {
    /// A node that was declared dead, the one with the lowest rank: a job that waits for a message finds out by this that
    /// it will not come.
    pub fn dead_node(&self) -> Option<u32> {
        self.port.first_dead()
    }

    /// The node of `endpoint`, if it was declared dead: nothing comes from there any more.
    pub fn death_of(&self, endpoint: Endpoint) -> Option<u32> {
        self.dead_home(endpoint)
    }

    /// Has the network find out whether the node of `endpoint` lives. What waits for a message without having anything under
    /// way towards its sender asks this now and then.
    pub fn watch(&mut self, endpoint: Endpoint) {
        if let Some(node) = self.port.node_of(endpoint.task()) {
            self.port.watch(node);
        }
    }

    /// The node of `endpoint`, if it is dead.
    pub(crate) fn dead_home(&self, endpoint: Endpoint) -> Option<u32> {
        self.port.node_of(endpoint.task()).filter(|&node| self.port.is_dead(node))
    }

    /// Ends all that waits for nodes that died since the last call: operations to them, fences that they have not answered,
    /// and what is pulled from them. Messages of theirs that are half-way end once what they sent before has been taken in.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_deaths(&mut self) {
        // Before the looks: a death behind them makes for another round.
        self.deaths = self.port.deaths();
        self.mourning = true;
        self.port.look();
        for number in bits(self.operations.used()) {
            self.end_if_dead(number);
        }
        for number in bits(self.receptions.used()) {
            let Some(origin) = self.receptions.get(number).map(|reception| reception.origin) else {
                continue;
            };
            if let Some(node) = self.dead_home(origin) {
                self.abandon_reception(number, OperationError::NodeDead(node));
            }
        }
        let port = &self.port;
        let dead = |endpoint: Endpoint| port.node_of(endpoint.task()).is_some_and(|node| port.is_dead(node));
        self.acks.forget_dead(dead);
        self.end_collectives_of_dead();
    }

    /// Has the network find out now and then whether the nodes live that something here waits for.
    pub(crate) fn watch_awaited(&mut self) {
        if !self.busy {
            return;
        }
        let now = self.port.now_ns();
        if now >= self.watch_at {
            self.watch_at = now.saturating_add(WATCH_NS);
            self.watch_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn watch_all(&mut self) {
        let mut last = None;
        let port = &mut self.port;
        let mut watch = |endpoint: Endpoint| {
            let node = port.node_of(endpoint.task());
            if let Some(node) = node.filter(|_| node != last) {
                port.watch(node);
                last = Some(node);
            }
        };
        for operation in self.operations.iter() {
            match &operation.action {
                Action::Fence(state) => state.owed().iter().for_each(|&target| watch(target)),
                _ if operation.awaits => watch(operation.target),
                _ => {}
            }
        }
        self.receptions.iter().for_each(|reception| watch(reception.origin));
        self.incoming.iter().for_each(|partial| watch(partial.origin));
    }

    /// The FIFO is empty, so nothing more comes from those that died: ends their messages that are half-way.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_halves(&mut self) {
        // Of one that died since the last look more may have come just now.
        if self.port.deaths() != self.deaths {
            return;
        }
        self.mourning = false;
        while let Some(origin) = self.incoming.find_origin(|origin| self.dead_home(origin).is_some()) {
            let Some(node) = self.dead_home(origin) else { break };
            let Some(partial) = self.incoming.take(origin) else { break };
            self.deliver(partial, Err(OperationError::NodeDead(node)));
        }
    }

    fn end_if_dead(&mut self, number: u8) {
        let port = &self.port;
        let dead = |endpoint: Endpoint| port.node_of(endpoint.task()).filter(|&node| port.is_dead(node));
        let Some(operation) = self.operations.get(number) else { return };
        let waits = operation.awaits || !operation.queued || operation.lease.is_some();
        match &mut operation.action {
            // Those not asked yet are found dead when their turn comes; and it ends behind what was before it.
            Action::Fence(state) => {
                if let Some(node) = state.forget_dead(dead) {
                    operation.result = Err(OperationError::NodeDead(node));
                }
            }
            _ => {
                let (order, target) = (operation.order, operation.target);
                if let Some(node) = dead(target).filter(|_| waits) {
                    self.give_up(number, OperationError::NodeDead(node));
                    self.spoil_fences(order, target, OperationError::NodeDead(node));
                }
            }
        }
    }
}
