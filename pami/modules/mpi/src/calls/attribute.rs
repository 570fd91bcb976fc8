//! Keys and attributes of communicators (the standard's caching).

use crate::attribute::{Copying, Delete, Keyval};
use crate::envelope::{ANY_SOURCE, PROC_NULL, TAG_UB};
use crate::error::{Error, Result};
use crate::library::{Communicator, Mpi};
use pami::client::Node;

impl<N: Node> Mpi<N> {
    /// `MPI_Comm_create_keyval`: a key, with its functions; both are handed `extra`.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub fn create_keyval(
        &self,
        copy: Copying<Communicator<N>>,
        delete: Option<Delete<Communicator<N>>>,
        extra: usize,
    ) -> Result<Keyval> {
        self.library.attributes.lock().create_key(copy, delete, extra)
    }

    /// `MPI_Comm_free_keyval`: no attribute can be set under it any more; those that are there stay until they are
    /// deleted.
    ///
    /// # Errors
    /// [`Error::Keyval`].
    pub fn free_keyval(&self, keyval: &mut Keyval) -> Result<()> {
        self.library.attributes.lock().free_key(*keyval)?;
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
        self.enter(|_, _| Ok(()))?;
        if !self.library.attributes.lock().is_usable(keyval) {
            return Err(Error::Keyval);
        }
        match self.delete_attr(keyval) {
            Ok(()) | Err(Error::Keyval) => {}
            Err(error) => return Err(error),
        }
        self.library.attributes.lock().put(*self, keyval, value)
    }

    /// `MPI_Comm_get_attr`: the value, or `None` if there is none under that key.
    ///
    /// # Errors
    /// [`Error::Keyval`], [`Error::Comm`].
    pub fn get_attr(&self, keyval: Keyval) -> Result<Option<usize>> {
        self.enter(|_, _| Ok(()))?;
        match keyval {
            Keyval::TAG_UB => return Ok(Some(TAG_UB as usize)),
            Keyval::HOST => return Ok(Some(PROC_NULL as usize)),
            Keyval::IO => return Ok(Some(ANY_SOURCE as usize)),
            Keyval::WTIME_IS_GLOBAL => return Ok(Some(0)),
            Keyval::UNIVERSE_SIZE => return Ok(Some(self.library.node.tasks() as usize)),
            _ => {}
        }
        self.library.attributes.lock().get(*self, keyval)
    }

    /// `MPI_Comm_delete_attr`.
    ///
    /// # Errors
    /// [`Error::Keyval`] without one; [`Error::Callback`] of the delete function, and the attribute stays.
    pub fn delete_attr(&self, keyval: Keyval) -> Result<()> {
        let mut attributes = self.library.attributes.lock();
        let value = attributes.get(*self, keyval)?.ok_or(Error::Keyval)?;
        let (delete, extra) = attributes.deleting(keyval)?;
        // The function may ask for attributes itself.
        drop(attributes);
        if let Some(delete) = delete {
            delete(*self, keyval, extra, value).map_err(Error::Callback)?;
        }
        self.library.attributes.lock().remove(*self, keyval);
        Ok(())
    }

    fn latest(&self, before: u64) -> Option<(Keyval, usize, u64)> {
        self.library.attributes.lock().latest(*self, before)
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
        self.library.attributes.lock().give(*self, *to);
    }

    /// Copies those whose keys say so to another communicator. Those that were copied before one failed stay there.
    pub(crate) fn copy_attributes(&self, to: &Self) -> Result<()> {
        let mut before = u64::MAX;
        while let Some((keyval, value, order)) = self.latest(before) {
            before = order;
            let Ok((copy, extra)) = self.library.attributes.lock().copying(keyval) else { continue };
            let copied = match copy {
                Copying::Never => None,
                Copying::Same => Some(value),
                Copying::With(copy) => copy(*self, keyval, extra, value).map_err(Error::Callback)?,
            };
            if let Some(value) = copied {
                self.library.attributes.lock().put(*to, keyval, value)?;
            }
        }
        Ok(())
    }
}
