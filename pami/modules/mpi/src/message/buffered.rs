//! Buffered sends, and the library's own memory for copies.

use super::Mode;
use super::calls::check_data;
use crate::communicator::Communicator;
use crate::data::Data;
use crate::error::{Error, Result};
use crate::library::{Library, Mpi, shared};
use crate::request::Request;
use pami::Shared;
use pami::client::Node;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that a buffered message takes besides its data, at most (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD: usize = 24;
/// Memories for copies that are kept.
pub(crate) const SPARES: usize = 32;

/// In front of each piece of the attached buffer: a message that is being sent, or free bytes. Pieces follow each other from
/// the buffer's front to its end.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Piece {
    /// Bytes of it, this included.
    len: u64,
    /// The request that sends it; the null request of free bytes.
    request: u64,
}

const HEADER: usize = size_of::<Piece>();

/// The attached buffer. The application may not change it, and hurts itself only if it does.
#[derive(Default)]
pub(crate) struct Attached(Option<Shared>);

impl Attached {
    /// Bytes that pieces lie in.
    fn len(memory: &Shared) -> usize {
        memory.len() & !7
    }

    fn get(memory: &Shared, at: usize) -> Result<Piece> {
        let mut piece = Piece { len: 0, request: 0 };
        memory.read(at, piece.as_mut_bytes()).map_err(|_| Error::Buffer)?;
        let good = piece.len >= HEADER as u64
            && piece.len.is_multiple_of(8)
            && piece.len <= (Self::len(memory) - at) as u64;
        if good { Ok(piece) } else { Err(Error::Buffer) }
    }

    fn set(memory: &Shared, at: usize, len: usize, request: Request) -> Result<()> {
        let piece = Piece { len: len as u64, request: request.bits() };
        memory.write(at, piece.as_bytes()).map_err(|_| Error::Buffer)
    }

    /// Calls `each` with the pieces' places, lengths and requests until it returns something. What has been sent becomes free
    /// before, and one with the free bytes in front of it.
    fn pieces<N: Node, T>(
        memory: &Shared,
        library: &Library<N>,
        mut each: impl FnMut(usize, usize, Request) -> Option<T>,
    ) -> Result<Option<T>> {
        let end = Self::len(memory);
        let mut at = 0;
        while end - at >= HEADER {
            let piece = Self::get(memory, at)?;
            let (mut len, mut request) = (piece.len as usize, Request::of_bits(piece.request));
            if !library.is_known(&request) {
                request = Request::NULL;
                while end - (at + len) >= HEADER {
                    let next = Self::get(memory, at + len)?;
                    if library.is_known(&Request::of_bits(next.request)) {
                        break;
                    }
                    len += next.len as usize;
                }
                Self::set(memory, at, len, request)?;
            }
            if let Some(found) = each(at, len, request) {
                return Ok(Some(found));
            }
            at += len;
        }
        Ok(None)
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_Buffer_attach`: the memory that buffered sends of all communicators copy to, with [`BSEND_OVERHEAD`] for
    /// each.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is one.
    pub fn buffer_attach(&self, memory: Shared) -> Result<()> {
        let mut attached = self.library.attached.lock();
        if attached.0.is_some() {
            return Err(Error::Buffer);
        }
        let len = Attached::len(&memory);
        if len >= HEADER {
            Attached::set(&memory, 0, len, Request::NULL)?;
        }
        attached.0 = Some(memory);
        Ok(())
    }

    /// `MPI_Buffer_detach`: waits until all buffered messages are sent, and gives the memory back.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is none.
    pub fn buffer_detach(&self) -> Result<Shared> {
        loop {
            let mut attached = self.library.attached.lock();
            let memory = attached.0.clone().ok_or(Error::Buffer)?;
            let sends = |_, _, request: Request| (!request.is_null()).then_some(request);
            let Ok(Some(request)) = Attached::pieces(&memory, self.library, sends) else {
                return attached.0.take().ok_or(Error::Buffer);
            };
            drop(attached);
            self.library.wait_until(request.lane(), || !self.library.is_known(&request))?;
        }
    }
}

impl<N: Node> Library<N> {
    /// Whether a request is in its table.
    pub(super) fn is_known(&self, request: &Request) -> bool {
        if request.is_null() {
            return false;
        }
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
        let needed = (data.bytes() + HEADER).next_multiple_of(8);
        let attached = self.library.attached.lock();
        let memory = attached.0.as_ref().ok_or(Error::Buffer)?;
        let fits = |at, len, request: Request| (request.is_null() && len >= needed).then_some((at, len));
        let (at, room) = Attached::pieces(memory, self.library, fits)?.ok_or(Error::Buffer)?;
        data.pack(memory, at + HEADER)?;
        let copy = Data::of::<u8>(memory, at + HEADER, data.bytes())?;
        let mut request = self.begin_send(&copy, dest, tag, Mode::Standard, false)?;
        // What is too short for a piece stays with this one.
        let len = if room - needed >= HEADER { needed } else { room };
        Attached::set(memory, at, len, request)?;
        if len < room {
            Attached::set(memory, at + len, room - len, Request::NULL)?;
        }
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
