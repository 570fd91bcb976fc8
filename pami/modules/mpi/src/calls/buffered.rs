//! Buffered sends.

use super::point_to_point::check_data;
use crate::data::Data;
use crate::envelope::PROC_NULL;
use crate::error::{Error, Result};
use crate::library::{Communicator, Library, Mpi};
use crate::request::{Mode, Request};
use pami::Shared;
use pami::client::Node;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that a buffered message takes besides its data, at most (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD: usize = 24;

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

/// Bytes of the attached buffer that pieces lie in. The application may not change them, and hurts itself only if it
/// does.
fn bytes_of(memory: &Shared) -> usize {
    memory.len() & !7
}

fn get(memory: &Shared, at: usize) -> Result<Piece> {
    let mut piece = Piece { len: 0, request: 0 };
    memory.read(at, piece.as_mut_bytes()).map_err(|_| Error::Buffer)?;
    let good = piece.len >= HEADER as u64
        && piece.len.is_multiple_of(8)
        && piece.len <= (bytes_of(memory) - at) as u64;
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
    let end = bytes_of(memory);
    let mut at = 0;
    while end - at >= HEADER {
        let piece = get(memory, at)?;
        let (mut len, mut request) = (piece.len as usize, Request::of_bits(piece.request));
        if !library.is_known(&request) {
            request = Request::NULL;
            while end - (at + len) >= HEADER {
                let next = get(memory, at + len)?;
                if library.is_known(&Request::of_bits(next.request)) {
                    break;
                }
                len += next.len as usize;
            }
            set(memory, at, len, request)?;
        }
        if let Some(found) = each(at, len, request) {
            return Ok(Some(found));
        }
        at += len;
    }
    Ok(None)
}

impl<N: Node> Mpi<N> {
    /// `MPI_Buffer_attach`: the memory that buffered sends of all communicators copy to, with [`BSEND_OVERHEAD`] for
    /// each.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is one.
    pub fn buffer_attach(&self, memory: Shared) -> Result<()> {
        let mut attached = self.library.attached.lock();
        if attached.is_some() {
            return Err(Error::Buffer);
        }
        let len = bytes_of(&memory);
        if len >= HEADER {
            set(&memory, 0, len, Request::NULL)?;
        }
        *attached = Some(memory);
        Ok(())
    }

    /// `MPI_Buffer_detach`: waits until all buffered messages are sent, and gives the memory back.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there is none.
    pub fn buffer_detach(&self) -> Result<Shared> {
        loop {
            let mut attached = self.library.attached.lock();
            let memory = attached.clone().ok_or(Error::Buffer)?;
            let sends = |_, _, request: Request| (!request.is_nowhere()).then_some(request);
            let Ok(Some(request)) = pieces(&memory, self.library, sends) else {
                return attached.take().ok_or(Error::Buffer);
            };
            drop(attached);
            self.library.wait_until(request.vci(), || !self.library.is_known(&request))?;
        }
    }
}

impl<N: Node> Library<N> {
    /// Whether a request is in its table.
    pub(super) fn is_known(&self, request: &Request) -> bool {
        if request.is_nowhere() {
            return false;
        }
        self.vci(request.vci()).is_ok_and(|vci| vci.state.lock().requests.find(*request).is_ok())
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
        let memory = attached.as_ref().ok_or(Error::Buffer)?;
        let fits = |at, len, request: Request| (request.is_null() && len >= needed).then_some((at, len));
        let (at, room) = pieces(memory, self.library, fits)?.ok_or(Error::Buffer)?;
        data.pack(memory, at + HEADER)?;
        let copy = Data::of::<u8>(memory, at + HEADER, data.bytes())?;
        let mut request = self.begin_send(&copy, dest, tag, Mode::Standard, false)?;
        // What is too short for a piece stays with this one.
        let len = if room - needed >= HEADER { needed } else { room };
        set(memory, at, len, request)?;
        if len < room {
            set(memory, at + len, room - len, Request::NULL)?;
        }
        self.library().request_free(&mut request)
    }

    /// `MPI_Ibsend`: as [`bsend`](Self::bsend), which never waits; the request is complete.
    ///
    /// # Errors
    /// As [`bsend`](Self::bsend).
    pub fn ibsend(&self, data: &Data, dest: i32, tag: i32) -> Result<Request> {
        self.bsend(data, dest, tag)?;
        self.begin_send(data, PROC_NULL, tag, Mode::Standard, false)
    }
}
