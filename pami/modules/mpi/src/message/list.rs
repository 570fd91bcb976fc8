//! Lists of requests: each is in one at most, linked through its slot.

use crate::request::{NONE, Requests};

/// A list, in the order of pushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u16,
    tail: u16,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn first(&self) -> Option<u16> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn push(&mut self, requests: &mut Requests, slot: u16) {
        if let Some(new) = requests.get_mut(slot) {
            new.next = NONE;
        }
        match requests.get_mut(self.tail) {
            Some(last) => last.next = slot,
            None => self.head = slot,
        }
        self.tail = slot;
    }

    pub(crate) fn push_front(&mut self, requests: &mut Requests, slot: u16) {
        if let Some(new) = requests.get_mut(slot) {
            new.next = self.head;
        }
        if self.is_empty() {
            self.tail = slot;
        }
        self.head = slot;
    }

    pub(crate) fn pop(&mut self, requests: &mut Requests) -> Option<u16> {
        let slot = self.first()?;
        self.unlink(requests, NONE, slot);
        Some(slot)
    }

    /// Takes the first out for which `holds` holds.
    pub(crate) fn take(
        &mut self,
        requests: &mut Requests,
        holds: impl Fn(u16, &Requests) -> bool,
    ) -> Option<u16> {
        let (mut before, mut slot) = (NONE, self.head);
        while let Some(next) = requests.get(slot).map(|slot| slot.next) {
            if holds(slot, requests) {
                self.unlink(requests, before, slot);
                return Some(slot);
            }
            (before, slot) = (slot, next);
        }
        None
    }

    /// Takes one out. Returns whether it was in.
    pub(crate) fn remove(&mut self, requests: &mut Requests, slot: u16) -> bool {
        self.take(requests, |other, _| other == slot).is_some()
    }

    fn unlink(&mut self, requests: &mut Requests, before: u16, slot: u16) {
        let next = requests.get(slot).map_or(NONE, |slot| slot.next);
        match requests.get_mut(before) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        if self.tail == slot {
            self.tail = before;
        }
    }
}
