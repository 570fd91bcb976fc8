//! A table of slots for whoever has it alone (SPEC Q-2). What several harts look at while it changes is a
//! [`Table`](crate::table::Table).
//!
//! An entry is named by its slot's number, and where the name may outlive it by a [`Key`] besides: that has a
//! generation which no other entry of the slot has, until it wraps after 2^31 entries. What has become free last is
//! taken first, and then what never was in use, by rising number. A slot that is in use has a link for a [`List`].

use crate::list::{Link, Links, List};
use crate::table::Key;

/// Generation of the first entry of a slot.
pub const FIRST: u32 = 1;

/// Room for one entry.
pub struct Slot<T> {
    /// Odd while there is an entry.
    generation: u32,
    /// Of the list of free slots, or that its user puts it into.
    link: Link,
    entry: Option<T>,
}

impl<T> Slot<T> {
    /// Empty room.
    pub const fn new() -> Self {
        Self { generation: 0, link: Link::NONE, entry: None }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What an entry leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// Its list alone.
    List,
    /// The table as well: it has nothing left to be dropped, which is what it would leak.
    ListAndTable,
}

/// The table.
pub struct SlotTable<T: 'static> {
    slots: &'static mut [Slot<T>],
    free: List,
    used: usize,
}

impl<T> Default for SlotTable<T> {
    fn default() -> Self {
        Self::new(&mut [])
    }
}

impl<T> Links for [Slot<T>] {
    #[inline]
    fn link(&self, number: u32) -> Option<&Link> {
        self.get(number as usize).map(|slot| &slot.link)
    }

    #[inline]
    fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        self.get_mut(number as usize).map(|slot| &mut slot.link)
    }
}

impl<T> Links for SlotTable<T> {
    #[inline]
    fn link(&self, number: u32) -> Option<&Link> {
        self.slots.link(number)
    }

    #[inline]
    fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        self.slots.link_mut(number)
    }
}

impl<T> SlotTable<T> {
    /// An empty table of so many slots, less than 2^32.
    pub fn new(slots: &'static mut [Slot<T>]) -> Self {
        let mut free = List::EMPTY;
        (0..slots.len() as u32).for_each(|number| free.push(slots, number));
        Self { slots, free, used: 0 }
    }

    /// Entries that there can be.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Entries that there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What the next entry will be named.
    pub fn vacant(&self) -> Option<Key> {
        let index = self.free.first()?;
        Some(Key { index, generation: self.slots.get(index as usize)?.generation.wrapping_add(1) })
    }

    /// Puts an entry into a free slot.
    ///
    /// # Errors
    /// The entry, when there is none.
    #[inline]
    pub fn insert(&mut self, entry: T) -> Result<Key, T> {
        let Some(index) = self.free.pop(self.slots) else { return Err(entry) };
        Ok(self.fill(index, || entry))
    }

    /// Puts an entry into a free slot that is made there. Without one it is not made.
    #[inline]
    pub fn insert_with(&mut self, entry: impl FnOnce() -> T) -> Option<Key> {
        let index = self.free.first()?;
        self.free.shift(self.slots.get(index as usize)?.link);
        Some(self.fill(index, entry))
    }

    /// A slot that was free has an entry.
    #[inline(always)]
    fn fill(&mut self, index: u32, entry: impl FnOnce() -> T) -> Key {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.link = Link::NONE;
        self.used += 1;
        let key = Key { index, generation: slot.generation };
        let entry = Some(entry());
        // SAFETY: the place is borrowed as a whole. It is empty, so nothing is lost that was to be dropped; an assignment would look.
        unsafe { core::ptr::write(&raw mut slot.entry, entry) };
        key
    }

    /// The name of the entry in a slot.
    #[inline]
    pub fn key(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(index as usize).filter(|slot| slot.entry.is_some())?;
        Some(Key { index, generation: slot.generation })
    }

    /// The entry in a slot.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.entry.as_ref()
    }

    /// The same.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.entry.as_mut()
    }

    /// The entry of this name.
    #[inline]
    pub fn find(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.entry.as_mut().filter(|_| slot.generation == key.generation)
    }

    /// The first entry of a list and its number, which leaves the list, if `takes` is true of it.
    #[inline]
    pub fn shift(&mut self, list: &mut List, takes: impl FnOnce(&mut T) -> bool) -> Option<(u32, &mut T)> {
        let number = list.first()?;
        let slot = self.slots.get_mut(number as usize)?;
        let entry = slot.entry.as_mut()?;
        if !takes(entry) {
            return None;
        }
        list.shift(slot.link);
        Some((number, entry))
    }

    /// Has `decide` say what becomes of the first entry of a list, which returns something of it besides if it leaves that.
    #[inline(always)]
    pub fn decide_first<R>(
        &mut self,
        list: &mut List,
        decide: impl FnOnce(Key, &mut T) -> Option<(Leaves, R)>,
    ) -> Option<R> {
        let index = list.first()?;
        let slot = self.slots.get_mut(index as usize)?;
        match decide(Key { index, generation: slot.generation }, slot.entry.as_mut()?)? {
            (Leaves::List, said) => {
                list.shift(slot.link);
                Some(said)
            }
            (Leaves::ListAndTable, said) => {
                list.shift(slot.link);
                core::mem::forget(slot.entry.take());
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push_front_of(&mut slot.link, index);
                self.used -= 1;
                Some(said)
            }
        }
    }

    /// All entries, by number. What follows the last one is not looked at.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> + Clone {
        let slots = (0..).zip(self.slots.iter());
        slots.filter_map(|(number, slot)| Some((number, slot.entry.as_ref()?))).take(self.used)
    }

    /// The same, to be changed, without their numbers.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut()).take(self.used)
    }

    /// The same, to be looked at.
    pub fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref()).take(self.used)
    }

    /// Its slots, empty, to make another table of.
    pub fn into_slots(self) -> &'static mut [Slot<T>] {
        self.slots.iter_mut().for_each(|slot| slot.entry = None);
        self.slots
    }

    /// Takes an entry out, which is in no list.
    #[inline]
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let entry = self.slots.get_mut(number as usize)?.entry.take()?;
        self.close(number);
        Some(entry)
    }

    /// Drops an entry where it is, which is in no list. Returns whether there was one.
    #[inline(always)]
    pub fn discard(&mut self, number: u32) -> bool {
        let Some(Slot { entry: entry @ Some(_), .. }) = self.slots.get_mut(number as usize) else {
            return false;
        };
        *entry = None;
        self.close(number);
        true
    }

    /// As [`discard`](Self::discard), of an entry that has nothing left to be dropped, which is what it would leak.
    #[inline(always)]
    pub fn vacate(&mut self, number: u32) -> bool {
        let entry = self.slots.get_mut(number as usize).and_then(|slot| slot.entry.take());
        let was = entry.is_some();
        core::mem::forget(entry);
        if was {
            self.close(number);
        }
        was
    }

    /// A slot whose entry is gone is free.
    #[inline(always)]
    fn close(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push_front_of(&mut slot.link, number);
        self.used -= 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
