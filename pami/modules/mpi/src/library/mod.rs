//! An instance of the library, as all of its handles know it, and what it can be asked.

mod communicator;
mod progress;

use crate::attribute::Attributes;
use crate::callbacks::Callbacks;
use crate::context_id::Ids;
use crate::datatype::Types;
use crate::division::Division;
use crate::error::{Error, Result};
use crate::group::Lists;
use crate::protocols::Declared;
use crate::settings::{SEEKERS, Setting, Settings};
use crate::vci::{State, Vci};
use base::{Completions, shared};
pub use communicator::Communicator;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use heapless::Vec;
use pami::client::{Client, Node};
use pami::{Active, Shared};
use spin::{Mutex, Once};

/// Memories for copies that are kept.
const SPARES: usize = 32;

/// Levels of support for threads, in the standard's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
pub enum Threads {
    /// One thread only.
    Single,
    /// Only the thread that called init calls.
    Funneled,
    /// Any thread calls, one at a time.
    Serialized,
    /// Any thread calls at any time.
    Multiple,
}

/// An instance, as all of its handles know it.
pub(crate) struct Library<N: Node> {
    pub(crate) node: &'static N,
    pub(crate) vcis: &'static [Vci<N::Port>],
    /// The one that there is, if there are no others.
    pub(crate) only: Option<&'static Vci<N::Port>>,
    /// The first of them.
    pub(crate) first: &'static Vci<N::Port>,
    pub(crate) settings: Mutex<Settings>,
    pub(crate) eager_limit: AtomicUsize,
    pub(crate) sleeps: AtomicBool,
    pub(crate) finalized: AtomicBool,
    pub(crate) threads: Threads,
    pub(crate) declared: Mutex<Option<Declared<N::Port>>>,
    pub(crate) client: Mutex<Option<Client<N>>>,
    pub(crate) ids: Mutex<Ids>,
    /// Memory of threads that make communicators.
    pub(crate) proposals: Mutex<Vec<Shared, SEEKERS>>,
    /// Counts communicators that were to be made, from 1: 0 is of what has no place.
    pub(crate) shades: AtomicU32,
    pub(crate) lists: Mutex<Lists>,
    pub(crate) attributes: Mutex<Attributes<Communicator<N>>>,
    /// Memory of buffered sends.
    pub(crate) attached: Mutex<Option<Shared>>,
    /// Memories for copies that nobody has now.
    pub(crate) spare: Mutex<Vec<Shared, SPARES>>,
    pub(crate) callbacks: Once<Callbacks<N::Port>>,
    /// Of windows.
    pub(crate) accesses: Once<Completions<N::Port>>,
    pub(crate) types: Types,
}

/// A library instance (the standard has one for each process; this can have several). `Copy`, and usable by all
/// threads.
pub struct Mpi<N: Node> {
    pub(crate) library: &'static Library<N>,
}

impl<N: Node> Clone for Mpi<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Mpi<N> {}

impl<N: Node> Mpi<N> {
    /// `MPI_Finalized`.
    pub fn finalized(&self) -> bool {
        self.library.finalized.load(Ordering::Acquire)
    }

    /// `MPI_Query_thread`: what init asked for, which is there.
    pub fn query_thread(&self) -> Threads {
        self.library.threads
    }

    /// Messages of peers that kept to no protocol, and were dropped: in all contexts.
    pub fn protocol_errors(&self) -> u64 {
        let of = |vci: &'static Vci<N::Port>| {
            vci.lane.with(|| self.library.node.rest(), |context| context.counters().protocol_errors)
        };
        self.library.vcis.iter().filter_map(of).sum()
    }

    /// Bytes of collectives' data that a context has sent, and those that it has got; `None` if there is no such context.
    pub fn collective_bytes(&self, context: u8) -> Option<[u64; 2]> {
        let vci = self.library.vcis.get(usize::from(context))?;
        let bytes = |context: &mut pami::Context<N::Port>| {
            let counters = context.counters();
            [counters.collective_sent, counters.collective_received]
        };
        vci.lane.with(|| self.library.node.rest(), bytes)
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Settings {
        *self.library.settings.lock()
    }

    /// Changes a setting, of this instance only.
    pub fn set(&self, setting: Setting) {
        let mut settings = self.library.settings.lock();
        match setting {
            Setting::EagerLimit(bytes) => {
                settings.eager_limit = bytes;
                self.library.eager_limit.store(bytes, Ordering::Relaxed);
            }
            Setting::Sleeps(sleeps) => {
                settings.sleeps = sleeps;
                self.library.sleeps.store(sleeps, Ordering::Relaxed);
            }
        }
    }

    /// Where derived datatypes are made.
    pub fn types(&self) -> &'static Types {
        &self.library.types
    }

    /// The node that it was made for.
    pub fn node(&self) -> &'static N {
        self.library.node
    }
}

impl<N: Node> Library<N> {
    /// The VCI with this number.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub(crate) fn vci(&self, number: usize) -> Result<&'static Vci<N::Port>> {
        self.vcis.get(number).ok_or(Error::Request)
    }

    /// Calls `work` with the context of a VCI, to begin something.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn enter<T>(
        &self,
        number: usize,
        work: impl FnOnce(&mut Active<N::Port>, &mut State) -> Result<T>,
    ) -> Result<T> {
        self.enter_at(self.vci(number)?, work)
    }

    /// The same with a VCI at hand.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    #[inline]
    pub(crate) fn enter_at<T>(
        &self,
        vci: &'static Vci<N::Port>,
        work: impl FnOnce(&mut Active<N::Port>, &mut State) -> Result<T>,
    ) -> Result<T> {
        let mut guard = vci.lane.enter(|| self.node.rest());
        let context = guard.as_mut().ok_or(Error::Finalized)?;
        vci.note_begun();
        let mut state = vci.state.lock();
        work(context, &mut state)
    }

    /// What contexts share, if there are several.
    pub(crate) fn division(&self) -> Option<&'static Division<N::Port>> {
        self.callbacks.get()?.division
    }

    /// What completes requests.
    ///
    /// # Errors
    /// [`Error::Finalized`].
    pub(crate) fn callbacks(&self) -> Result<&Callbacks<N::Port>> {
        self.callbacks.get().ok_or(Error::Finalized)
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
        Ok(shared(self.node, "copies of messages", len.next_power_of_two().max(4096))?)
    }

    /// Gives it back, for the next copy.
    pub(crate) fn give_spare(&self, memory: Shared) {
        // One for each thread and size.
        let _ = self.spare.lock().push(memory);
    }
}
