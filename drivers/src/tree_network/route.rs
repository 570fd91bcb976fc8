//! One class route at this node.

use crate::adapter::RxBuffer;
use pami::combine::{ClassRoute, Role, WINDOW, Window};

/// What the node knows of a class route that it is on.
pub(super) struct Route {
    /// Its full name.
    pub route: ClassRoute,
    /// What this node does.
    pub role: Role,
    /// The node that asked for it.
    pub owner: u32,
    /// The owner's tag.
    pub tag: u32,
    /// Credits.
    pub window: Window,
    /// What has arrived and was not taken; the oldest at `first`.
    arrivals: [Option<RxBuffer>; WINDOW as usize],
    first: usize,
    count: usize,
}

impl Route {
    /// A route on which nothing has come or gone.
    pub fn new(route: ClassRoute, role: Role, owner: u32, tag: u32) -> Self {
        let arrivals = [const { None }; WINDOW as usize];
        Self { route, role, owner, tag, window: Window::new(), arrivals, first: 0, count: 0 }
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
