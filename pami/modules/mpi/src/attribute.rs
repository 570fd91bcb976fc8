//! Attributes of objects, as communicators: words under keys, with functions that copy and delete them (the standard's caching).

use crate::error::{Error, Result};
use crate::settings::Settings;
use base::fill;
use pami::client::Node;
use rings::slot_table::{Slot, SlotTable};
use rings::table;

/// A key. Plain data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Keyval(u32);

impl Keyval {
    /// `MPI_KEYVAL_INVALID`.
    pub const INVALID: Self = Self(u32::MAX);
    /// `MPI_TAG_UB`: the highest tag.
    pub const TAG_UB: Self = Self(1 << 31);
    /// `MPI_HOST`: no process is.
    pub const HOST: Self = Self((1 << 31) + 1);
    /// `MPI_IO`: any process can.
    pub const IO: Self = Self((1 << 31) + 2);
    /// `MPI_WTIME_IS_GLOBAL`: each node has its own clock.
    pub const WTIME_IS_GLOBAL: Self = Self((1 << 31) + 3);
    /// `MPI_UNIVERSE_SIZE`: the tasks of the job.
    pub const UNIVERSE_SIZE: Self = Self((1 << 31) + 4);

    /// As much of a generation as there is room for, and the place.
    fn of(key: table::Key) -> Self {
        Self((key.generation & 0x7fff) << 16 | key.index)
    }
}

/// Function of a key that is called when a communicator is duplicated: with the old one, the key, the key's extra
/// state and the value. Returns the new value, or `None` if the attribute is not copied; or an error code.
pub type Copy<T> =
    &'static (dyn Fn(T, Keyval, usize, usize) -> core::result::Result<Option<usize>, i32> + Sync);
/// Function of a key that is called when an attribute is deleted or replaced, or its communicator is freed.
pub type Delete<T> = &'static (dyn Fn(T, Keyval, usize, usize) -> core::result::Result<(), i32> + Sync);

/// What becomes of an attribute when its communicator is duplicated.
pub enum Copying<T: 'static> {
    /// `MPI_NULL_COPY_FN`: nothing.
    Never,
    /// `MPI_DUP_FN`: the new one has it as well.
    Same,
    /// What this says.
    With(Copy<T>),
}

impl<T: 'static> Clone for Copying<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: 'static> core::marker::Copy for Copying<T> {}

struct Key<T: 'static> {
    /// Attributes keep it from being taken anew.
    freed: bool,
    attributes: usize,
    copy: Copying<T>,
    delete: Option<Delete<T>>,
    extra: usize,
}

struct Attribute<T: 'static> {
    object: T,
    keyval: Keyval,
    value: usize,
    /// Later ones are deleted first.
    order: u64,
}

/// The keys and attributes of a library.
pub(crate) struct Attributes<T: 'static> {
    keys: SlotTable<Key<T>>,
    places: &'static mut [Option<Attribute<T>>],
    order: u64,
}

impl<T: PartialEq + core::marker::Copy + Send> Attributes<T> {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let keys = SlotTable::new(fill(node, "attributes", settings.keyvals.min(1 << 16), Slot::new)?);
        Ok(Self { keys, places: fill(node, "attributes", settings.attributes, || None)?, order: 0 })
    }

    fn key(&mut self, keyval: Keyval) -> Result<&mut Key<T>> {
        let key = self.keys.key(keyval.0 & 0xffff).filter(|&key| Keyval::of(key) == keyval);
        key.and_then(|key| self.keys.find(key)).ok_or(Error::Keyval)
    }

    fn find(&self, object: T, keyval: Keyval) -> Option<usize> {
        let is = |attribute: &Attribute<T>| attribute.object == object && attribute.keyval == keyval;
        self.places.iter().position(|place| place.as_ref().is_some_and(is))
    }

    /// Makes a key.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn create_key(
        &mut self,
        copy: Copying<T>,
        delete: Option<Delete<T>>,
        extra: usize,
    ) -> Result<Keyval> {
        let full = Error::NoMem { what: "keys of attributes", limit: self.keys.capacity() };
        let key = self.keys.insert(Key { freed: false, attributes: 0, copy, delete, extra });
        key.map(Keyval::of).map_err(|_| full)
    }

    /// No attribute can be set under it any more.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub(crate) fn free_key(&mut self, keyval: Keyval) -> Result<()> {
        self.usable(keyval)?.freed = true;
        self.retire(keyval);
        Ok(())
    }

    /// A key under which attributes can be set.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    fn usable(&mut self, keyval: Keyval) -> Result<&mut Key<T>> {
        self.key(keyval).and_then(|key| if key.freed { Err(Error::Keyval) } else { Ok(key) })
    }

    /// Whether attributes can be set under a key.
    pub(crate) fn is_usable(&mut self, keyval: Keyval) -> bool {
        self.usable(keyval).is_ok()
    }

    /// What copies attributes of a key, and the key's extra state.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub(crate) fn copying(&mut self, keyval: Keyval) -> Result<(Copying<T>, usize)> {
        self.key(keyval).map(|key| (key.copy, key.extra))
    }

    /// What deletes attributes of a key, and the key's extra state.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub(crate) fn deleting(&mut self, keyval: Keyval) -> Result<(Option<Delete<T>>, usize)> {
        self.key(keyval).map(|key| (key.delete, key.extra))
    }

    /// Sets an attribute that is not there.
    ///
    /// # Errors
    /// [`Error::NoMem`], [`Error::Keyval`].
    pub(crate) fn put(&mut self, object: T, keyval: Keyval, value: usize) -> Result<()> {
        let full = Error::NoMem { what: "attributes", limit: self.places.len() };
        let place = self.places.iter().position(Option::is_none).ok_or(full)?;
        self.key(keyval)?.attributes += 1;
        self.order += 1;
        self.places[place] = Some(Attribute { object, keyval, value, order: self.order });
        Ok(())
    }

    /// The value under a key, if there is one.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub(crate) fn get(&mut self, object: T, keyval: Keyval) -> Result<Option<usize>> {
        self.key(keyval)?;
        let place = self.find(object, keyval).and_then(|place| self.places[place].as_ref());
        Ok(place.map(|attribute| attribute.value))
    }

    /// Takes an attribute away.
    pub(crate) fn remove(&mut self, object: T, keyval: Keyval) {
        let Some(place) = self.find(object, keyval) else { return };
        self.places[place] = None;
        if let Ok(key) = self.key(keyval) {
            key.attributes -= 1;
            self.retire(keyval);
        }
    }

    /// Lets a key go that nobody has any more.
    fn retire(&mut self, keyval: Keyval) {
        if self.key(keyval).is_ok_and(|key| key.freed && key.attributes == 0) {
            self.keys.remove(keyval.0 & 0xffff);
        }
    }

    /// The latest attribute of an object that was set before: its key, its value, and when it was set.
    pub(crate) fn latest(&self, object: T, before: u64) -> Option<(Keyval, usize, u64)> {
        let own = self.places.iter().flatten().filter(|attribute| attribute.object == object);
        own.filter(|attribute| attribute.order < before)
            .max_by_key(|attribute| attribute.order)
            .map(|attribute| (attribute.keyval, attribute.value, attribute.order))
    }

    /// Gives all of one object to another.
    pub(crate) fn give(&mut self, from: T, to: T) {
        let own = self.places.iter_mut().flatten().filter(|attribute| attribute.object == from);
        own.for_each(|attribute| attribute.object = to);
    }
}
