//! Buffered sends, and the library's own memory for copies.

use super::Mode;
use super::calls::check_data;
use crate::communicator::Communicator;
use crate::data::Data;
use crate::error::{Error, Result};
use crate::library::{Library, Mpi, shared};
use crate::request::Request;
use heapless::Vec;
use pami::Shared;
use pami::client::Node;

/// Bytes that a buffered message takes besides its data (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD: usize = 8;
/// Memories for copies that are kept.
pub(crate) const SPARES: usize = 32;
/// Most buffered messages at a time.
const PIECES: usize = 256;

/// The attached buffer: parts of it hold messages until they are sent.
#[derive(Default)]
pub(crate) struct Attached {
    memory: Option<Shared>,
    /// First byte and length of each message, with the request that sends it.
    pieces: Vec<(usize, usize, Request), PIECES>,
}

impl Attached {
    /// The first place with room for `len` bytes.
    fn room(&self, len: usize) -> Option<usize> {
        let memory = self.memory.as_ref()?.len();
        let mut at = 0usize;
        loop {
            let end = at.checked_add(len).filter(|&end| end <= memory)?;
            let meets = |&&(start, len, _): &&(usize, usize, Request)| start < end && at < start + len;
            match self.pieces.iter().find(meets) {
                Some(&(start, len, _)) => at = start + len,
                None => return Some(at),
            }
        }
    }

    fn forget_sent<N: Node>(&mut self, library: &Library<N>) {
        self.pieces.retain(|(_, _, request)| library.is_known(request));
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Buffer_attach`: the memory that buffered sends of all communicators copy to, with [`BSEND_OVERHEAD`] for each.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is one.
    pub fn buffer_attach(&self, memory: Shared) -> Result<()> {
        let mut attached = self.library.attached.lock();
        if attached.memory.is_some() {
            return Err(Error::Buffer);
        }
        attached.memory = Some(memory);
        Ok(())
    }

    /// `MPI_Buffer_detach`: waits until all buffered messages are sent, and gives the memory back.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is none.
    pub fn buffer_detach(&self) -> Result<Shared> {
        loop {
            let mut attached = self.library.attached.lock();
            attached.forget_sent(self.library);
            let Some((_, _, request)) = attached.pieces.last() else {
                return attached.memory.take().ok_or(Error::Buffer);
            };
            let request = *request;
            drop(attached);
            self.library.wait_until(request.lane(), || !self.library.is_known(&request))?;
        }
    }
}

impl<N: Node> Library<N> {
    /// Whether a request is in its table.
    pub(super) fn is_known(&self, request: &Request) -> bool {
        self.lane(request.lane()).is_ok_and(|lane| lane.state.lock().requests.find(*request).is_ok())
    }

    /// Memory for a copy of `len` bytes.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn take_spare(&self, len: usize) -> Result<Shared> {
        let mut spare = self.spare.lock();
        if let Some(place) = spare.iter().position(|memory| memory.len() >= len) {
            return Ok(spare.swap_remove(place));
        }
        drop(spare);
        // The node never has it back: powers of two keep the number of sizes low.
        shared(self.node, len.next_power_of_two().max(4096))
    }

    /// Gives it back, for the next copy.
    pub(crate) fn give_spare(&self, memory: Shared) {
        // One for each thread and size.
        let _ = self.spare.lock().push(memory);
    }
}

impl<N: Node> Communicator<N> {
    /// `MPI_Bsend`: returns when the data is in the attached buffer.
    ///
    /// # Errors
    /// [`Error::Buffer`] without room there; others as [`send`](Self::send).
    pub fn bsend(&self, data: &Data, dest: i32, tag: i32) -> Result<()> {
        check_data(data)?;
        let len = (data.bytes() + BSEND_OVERHEAD).next_multiple_of(8);
        let mut attached = self.library.attached.lock();
        attached.forget_sent(self.library);
        let at = attached.room(len).filter(|_| !attached.pieces.is_full()).ok_or(Error::Buffer)?;
        let memory = attached.memory.clone().ok_or(Error::Buffer)?;
        data.pack(&memory, at)?;
        let copy = Data::of::<u8>(&memory, at, data.bytes())?;
        let mut request = self.begin_send(&copy, dest, tag, Mode::Standard, false)?;
        let _ = attached.pieces.push((at, len, request));
        self.library().request_free(&mut request)
    }

    /// `MPI_Ibsend`: as [`bsend`](Self::bsend), which never waits; the request is complete.
    ///
    /// # Errors
    /// As [`bsend`](Self::bsend).
    pub fn ibsend(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.bsend(data, dest, tag)?;
        self.begin_send(data, super::PROC_NULL, tag, Mode::Standard, false)
    }
}
