//! Attributes of communicators: words under keys, with functions that copy and delete them (the standard's caching).

use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::library::{Mpi, fill};
use crate::message::{ANY_SOURCE, PROC_NULL, TAG_UB};
use crate::settings::Settings;
use pami::client::Node;

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

    /// Whether the library gave it its value, which cannot be changed.
    pub fn is_predefined(&self) -> bool {
        self.0 >> 31 != 0
    }
}

/// Function of a key that is called when a communicator is duplicated: with the old one, the key, the key's extra
/// state and the value. Returns the new value, or `None` if the attribute is not copied; or an error code.
pub type Copy<N> = &'static (
             dyn Fn(Communicator<N>, Keyval, usize, usize) -> core::result::Result<Option<usize>, i32> + Sync
         );
/// Function of a key that is called when an attribute is deleted or replaced, or its communicator is freed.
pub type Delete<N> =
    &'static (dyn Fn(Communicator<N>, Keyval, usize, usize) -> core::result::Result<(), i32> + Sync);

/// What becomes of an attribute when its communicator is duplicated.
pub enum Copying<N: Node> {
    /// `MPI_NULL_COPY_FN`: nothing.
    Never,
    /// `MPI_DUP_FN`: the new one has it as well.
    Same,
    /// What this says.
    With(Copy<N>),
}

impl<N: Node> Clone for Copying<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> core::marker::Copy for Copying<N> {}

struct Key<N: Node> {
    generation: u8,
    used: bool,
    /// Attributes keep it from being taken anew.
    freed: bool,
    attributes: usize,
    copy: Copying<N>,
    delete: Option<Delete<N>>,
    extra: usize,
}

struct Attribute<N: Node> {
    communicator: Communicator<N>,
    keyval: Keyval,
    value: usize,
    /// Later ones are deleted first.
    order: u64,
}

/// The keys and attributes of a library.
pub(crate) struct Attributes<N: Node> {
    keys: &'static mut [Key<N>],
    places: &'static mut [Option<Attribute<N>>],
    order: u64,
}

impl<N: Node> Attributes<N> {
    pub(crate) fn new(node: &N, settings: &Settings) -> Result<Self> {
        let key = || Key {
            generation: 0,
            used: false,
            freed: false,
            attributes: 0,
            copy: Copying::Never,
            delete: None,
            extra: 0,
        };
        let keys = fill(node, settings.keyvals.min(1 << 16), key)?;
        Ok(Self { keys, places: fill(node, settings.attributes, || None)?, order: 0 })
    }

    fn key(&mut self, keyval: Keyval) -> Option<&mut Key<N>> {
        let key = self.keys.get_mut((keyval.0 & 0xffff) as usize)?;
        (key.used && u32::from(key.generation) == keyval.0 >> 16).then_some(key)
    }

    fn find(&mut self, communicator: &Communicator<N>, keyval: Keyval) -> Option<usize> {
        let is =
            |attribute: &Attribute<N>| attribute.communicator == *communicator && attribute.keyval == keyval;
        self.places.iter().position(|place| place.as_ref().is_some_and(is))
    }

    fn release(&mut self, keyval: Keyval) {
        let Some(key) = self.key(keyval) else { return };
        key.attributes -= 1;
        key.retire();
    }
}

impl<N: Node> Key<N> {
    fn retire(&mut self) {
        if self.freed && self.attributes == 0 {
            self.used = false;
            self.generation = self.generation.wrapping_add(1) & 0x7f;
        }
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Comm_create_keyval`: a key, with its functions; both are handed `extra`.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub fn create_keyval(&self, copy: Copying<N>, delete: Option<Delete<N>>, extra: usize) -> Result<Keyval> {
        let mut attributes = self.library.attributes.lock();
        let limit = attributes.keys.len();
        let full = Error::NoMem { what: "keys of attributes", limit };
        let place = attributes.keys.iter().position(|key| !key.used).ok_or(full)?;
        let key = &mut attributes.keys[place];
        *key =
            Key { generation: key.generation, used: true, freed: false, attributes: 0, copy, delete, extra };
        Ok(Keyval(u32::from(key.generation) << 16 | place as u32))
    }

    /// `MPI_Comm_free_keyval`: no attribute can be set under it any more; those that are there stay until they are
    /// deleted.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub fn free_keyval(&self, keyval: &mut Keyval) -> Result<()> {
        let mut attributes = self.library.attributes.lock();
        let key = attributes.key(*keyval).filter(|key| !key.freed).ok_or(Error::Keyval)?;
        key.freed = true;
        key.retire();
        *keyval = Keyval::INVALID;
        Ok(())
    }
}

impl<N: Node> Communicator<N> {
    /// `MPI_Comm_set_attr`. A value that was there is deleted first.
    ///
    /// # Errors
    /// [`Error::Keyval`], [`Error::NoMem`]; [`Error::Callback`] of the delete function, and the old value stays.
    pub fn set_attr(&self, keyval: Keyval, value: usize) -> Result<()> {
        self.group()?;
        if self.library.attributes.lock().key(keyval).is_none_or(|key| key.freed) {
            return Err(Error::Keyval);
        }
        match self.delete_attr(keyval) {
            Ok(()) | Err(Error::Keyval) => {}
            Err(error) => return Err(error),
        }
        self.put_attribute(keyval, value)
    }

    fn put_attribute(&self, keyval: Keyval, value: usize) -> Result<()> {
        let mut attributes = self.library.attributes.lock();
        let limit = attributes.places.len();
        let full = Error::NoMem { what: "attributes", limit };
        let place = attributes.places.iter().position(Option::is_none).ok_or(full)?;
        attributes.key(keyval).ok_or(Error::Keyval)?.attributes += 1;
        attributes.order += 1;
        let order = attributes.order;
        attributes.places[place] = Some(Attribute { communicator: *self, keyval, value, order });
        Ok(())
    }

    /// `MPI_Comm_get_attr`: the value, or `None` if there is none under that key.
    ///
    /// # Errors
    /// [`Error::Keyval`], [`Error::Comm`].
    pub fn get_attr(&self, keyval: Keyval) -> Result<Option<usize>> {
        self.group()?;
        match keyval {
            Keyval::TAG_UB => return Ok(Some(TAG_UB as usize)),
            Keyval::HOST => return Ok(Some(PROC_NULL as usize)),
            Keyval::IO => return Ok(Some(ANY_SOURCE as usize)),
            Keyval::WTIME_IS_GLOBAL => return Ok(Some(0)),
            Keyval::UNIVERSE_SIZE => return Ok(Some(self.library.node.tasks() as usize)),
            _ => {}
        }
        let mut attributes = self.library.attributes.lock();
        attributes.key(keyval).ok_or(Error::Keyval)?;
        let place = attributes.find(self, keyval);
        Ok(place.and_then(|place| attributes.places[place].as_ref()).map(|attribute| attribute.value))
    }

    /// `MPI_Comm_delete_attr`.
    ///
    /// # Errors
    /// [`Error::Keyval`] without one; [`Error::Callback`] of the delete function, and the attribute stays.
    pub fn delete_attr(&self, keyval: Keyval) -> Result<()> {
        let mut attributes = self.library.attributes.lock();
        let place = attributes.find(self, keyval).ok_or(Error::Keyval)?;
        let value = attributes.places[place].as_ref().map_or(0, |attribute| attribute.value);
        let key = attributes.key(keyval).ok_or(Error::Keyval)?;
        let (delete, extra) = (key.delete, key.extra);
        // The function may ask for attributes itself.
        drop(attributes);
        if let Some(delete) = delete {
            delete(*self, keyval, extra, value).map_err(Error::Callback)?;
        }
        let mut attributes = self.library.attributes.lock();
        attributes.places[place] = None;
        attributes.release(keyval);
        Ok(())
    }

    fn latest(&self, before: u64) -> Option<(Keyval, usize, u64)> {
        let attributes = self.library.attributes.lock();
        let own = attributes.places.iter().flatten().filter(|attribute| attribute.communicator == *self);
        own.filter(|attribute| attribute.order < before)
            .max_by_key(|attribute| attribute.order)
            .map(|attribute| (attribute.keyval, attribute.value, attribute.order))
    }

    /// Deletes all, the latest first.
    pub(crate) fn delete_attributes(&self) -> Result<()> {
        while let Some((keyval, ..)) = self.latest(u64::MAX) {
            self.delete_attr(keyval)?;
        }
        Ok(())
    }

    /// Gives all to another communicator.
    pub(crate) fn move_attributes(&self, to: &Self) {
        let mut attributes = self.library.attributes.lock();
        let own = attributes.places.iter_mut().flatten().filter(|attribute| attribute.communicator == *self);
        own.for_each(|attribute| attribute.communicator = *to);
    }

    /// Copies those whose keys say so to another communicator. Those that were copied before one failed stay there.
    pub(crate) fn copy_attributes(&self, to: &Self) -> Result<()> {
        let mut before = u64::MAX;
        while let Some((keyval, value, order)) = self.latest(before) {
            before = order;
            let mut attributes = self.library.attributes.lock();
            let Some(key) = attributes.key(keyval) else { continue };
            let (copy, extra) = (key.copy, key.extra);
            drop(attributes);
            let copied = match copy {
                Copying::Never => None,
                Copying::Same => Some(value),
                Copying::With(copy) => copy(*self, keyval, extra, value).map_err(Error::Callback)?,
            };
            if let Some(value) = copied {
                to.put_attribute(keyval, value)?;
            }
        }
        Ok(())
    }
}
