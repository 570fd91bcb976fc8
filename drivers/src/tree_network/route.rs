//! One class route at this node.

use crate::adapter::RxBuffer;
use pami::combine::{ClassRoute, CreditWindow, Role, WINDOW};

/// What the node knows of a class route that it is on.
pub(super) struct Route {
    /// Its full name.
    route: ClassRoute,
    /// What this node does.
    role: Role,
    /// The node that asked for it.
    owner: u32,
    /// The owner's tag.
    tag: u32,
    /// Credits.
    window: CreditWindow,
    /// What has arrived and was not taken; the oldest at `first`.
    arrivals: [Option<RxBuffer>; WINDOW as usize],
    first: usize,
    count: usize,
}

impl Route {
    /// A route on which nothing has come or gone.
    pub fn new(route: ClassRoute, role: Role, owner: u32, tag: u32) -> Self {
        let arrivals = [const { None }; WINDOW as usize];
        Self { route, role, owner, tag, window: CreditWindow::new(), arrivals, first: 0, count: 0 }
    }

    /// Its full name.
    pub fn route(&self) -> ClassRoute {
        self.route
    }

    /// What this node does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether node `node` asked for it.
    pub fn is_of(&self, node: u32) -> bool {
        self.owner == node
    }

    /// Whether node `node` asked for it under `tag`.
    pub fn is_named(&self, node: u32, tag: u32) -> bool {
        (self.owner, self.tag) == (node, tag)
    }

    /// Whether there is credit for a packet.
    pub fn may_send(&self) -> bool {
        self.window.may_send()
    }

    /// Whether the network may wait to be told what was taken.
    pub fn owes(&self) -> bool {
        self.window.owes()
    }

    /// What to tell the network: how many arrivals were taken.
    pub fn taken(&self) -> u16 {
        let mut window = self.window;
        window.tell()
    }

    /// The network was told.
    pub fn told(&mut self) {
        self.window.tell();
    }

    /// The network was told with a packet that took credit.
    pub fn sent(&mut self) {
        self.window.tell();
        self.window.send();
    }

    /// Takes in what the network has taken. False if that cannot be.
    pub fn hear(&mut self, taken: u16) -> bool {
        self.window.hear(taken)
    }

    /// Arrivals that nobody took yet.
    #[cfg(test)]
    pub fn untaken(&self) -> u16 {
        self.window.untaken()
    }

    /// Keeps what has arrived, if it had credit; else gives it back.
    pub fn push(&mut self, buffer: RxBuffer) -> Result<(), RxBuffer> {
        if !self.window.arrive() {
            return Err(buffer);
        }
        // There are as many places as credits.
        let place = (self.first + self.count) % self.arrivals.len();
        self.arrivals[place] = Some(buffer);
        self.count += 1;
        Ok(())
    }

    /// The oldest arrival.
    pub fn front(&self) -> Option<&RxBuffer> {
        self.arrivals[self.first].as_ref()
    }

    /// Takes the oldest arrival out.
    pub fn pop(&mut self) -> Option<RxBuffer> {
        let buffer = self.arrivals[self.first].take()?;
        self.first = (self.first + 1) % self.arrivals.len();
        self.count -= 1;
        self.window.take_all_but(self.count as u16);
        Some(buffer)
    }
}
