//! Making and freeing windows.

use super::Window;
use crate::collective::IN_PLACE;
use crate::data::Data;
use crate::datatype::Basic;
use crate::error::{Error, Result};
use crate::library::Communicator;
use crate::vci::State;
use crate::window::epoch::Epoch;
use crate::window::table::{Win, register};
use crate::window::wire::{EXCHANGED, Info, LOCK_BYTES};
use core::ops::Range;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint, Shared};
use zerocopy::IntoBytes;

/// What a window is made of.
enum Source {
    /// These bytes of the application's memory.
    Given(Shared, Range<usize>),
    /// So many bytes of the library's.
    Allocated(usize),
}

/// Part of a window that was prepared here: its slot, its generation, and its first byte and size.
#[derive(Clone, Copy)]
struct Prepared {
    slot: u8,
    generation: u32,
    size: usize,
}

impl<N: Node> Communicator<N> {
    /// `MPI_Win_create`: a window of these bytes of memory, whose displacements are in steps of `disp_unit` bytes. The memory
    /// goes on being the process's, too; a range without bytes is no window to others. Collective; each process gives memory
    /// and a unit of its own.
    ///
    /// # Errors
    /// [`Error::Arg`] of a range outside the memory, of a unit of 0; [`Error::NoMem`] if there is no room for one more at some
    /// process; [`Error::Comm`], [`Error::Finalized`].
    pub fn win_create(&self, memory: &Shared, range: Range<usize>, disp_unit: u32) -> Result<Window<N>> {
        self.make_window(Source::Given(memory.clone(), range), disp_unit)
    }

    /// `MPI_Win_allocate`: as [`win_create`](Self::win_create), with memory of the library's:
    /// [`Settings::window_memory`](crate::Settings::window_memory) bytes for all windows of a context.
    ///
    /// # Errors
    /// As [`win_create`](Self::win_create).
    pub fn win_allocate(&self, bytes: usize, disp_unit: u32) -> Result<Window<N>> {
        self.make_window(Source::Allocated(bytes), disp_unit)
    }

    /// A window has a communicator of its own: its collective calls do not meet the application's.
    fn make_window(&self, source: Source, unit: u32) -> Result<Window<N>> {
        self.enter(|_, state| state.windows.check_ranks(self.size() as usize))
            .inspect_err(|error| self.refuse(*error))?;
        let own = self.create(&self.group()?)?.ok_or(Error::Group)?;
        let made = own.make_own_window(source, unit);
        if made.is_err() {
            own.free()?;
        }
        made
    }

    /// Makes this communicator a window's.
    fn make_own_window(&self, source: Source, unit: u32) -> Result<Window<N>> {
        let prepared = self.enter(|active, state| Ok(self.prepare(active, state, source, unit)))?;
        let (info, slot) = match &prepared {
            Ok((prepared, info)) => (*info, Some(prepared.slot)),
            // The others have to be told.
            Err(error) => {
                self.take_spare().inspect_err(|error| self.refuse(*error))?;
                (Info::failed(error.class()), None)
            }
        };
        let exchanged = self.exchange(slot, info);
        let all_have = exchanged.and_then(|()| self.learn(slot));
        if slot.is_none() {
            self.enter(|_, state| {
                state.windows.spare_used = false;
                Ok(())
            })?;
        }
        let (prepared, _) = prepared?;
        let Prepared { slot, generation, size } = prepared;
        if let Err(error) = all_have {
            self.enter(|active, state| {
                release(active, state, slot);
                Ok(())
            })?;
            return Err(error);
        }
        Ok(Window { library: self.library, communicator: *self, slot, generation, size, unit })
    }

    /// Makes this process's part of a window.
    fn prepare(
        &self,
        active: &mut Active<N::Port>,
        state: &mut State,
        source: Source,
        unit: u32,
    ) -> Result<(Prepared, Info)> {
        let (node, size) = (self.library.node, self.size());
        // It is wanted for the exchange, whatever comes.
        let home = state.windows.home(node, active)?;
        let (locks, shared) = (home.handle(), home.memory().clone());
        if unit == 0 {
            return Err(Error::Arg("a window's displacement unit must not be 0"));
        }
        let members = self.entry(state)?.members;
        let endpoint = |rank: u32| -> Option<Endpoint> { members.endpoint(rank) };
        let (slot, generation) = state.windows.free_place()?;
        let peers = state.windows.seat(size, endpoint)?;
        let lock = usize::from(slot) * LOCK_BYTES;
        shared.write(lock, &[0; LOCK_BYTES]).map_err(|_| Error::Win)?;
        let (memory, range, region) = match source {
            Source::Given(memory, range) => {
                if range.start > range.end || range.end > memory.len() {
                    return Err(Error::Arg("a window must lie inside its memory"));
                }
                let region = register(active, memory.clone())?;
                (memory, range, Some(region))
            }
            Source::Allocated(bytes) => {
                let start = state.windows.piece(bytes)?.start;
                (shared, start..start + bytes, None)
            }
        };
        let piece = if region.is_some() { 0..0 } else { state.windows.piece(range.len())? };
        let handle = region.as_ref().map_or(locks, |region| region.handle());
        let info = Info {
            region: zerocopy::transmute!(handle),
            home: zerocopy::transmute!(locks),
            base: (range.start as u64).into(),
            size: (range.len() as u64).into(),
            unit: unit.into(),
            slot: u32::from(slot).into(),
            generation: generation.into(),
        };
        let (rank, bytes) = (self.rank(), range.len());
        let win = Win {
            memory,
            base: range.start,
            size: bytes,
            rank,
            region,
            piece,
            peers,
            epoch: Epoch::None,
            local: 0,
            remote: 0,
            error: None,
        };
        state.windows.place(win);
        Ok((Prepared { slot, generation, size: bytes }, info))
    }

    /// Takes the memory for an exchange of who has no window.
    fn take_spare(&self) -> Result<()> {
        self.library.retry(self.context().into(), |active, state| {
            state.windows.home(self.library.node, active)?;
            let taken = core::mem::replace(&mut state.windows.spare_used, true);
            Ok((!taken).then_some(()))
        })
    }

    /// Tells all processes of a window of this one's part.
    fn exchange(&self, slot: Option<u8>, info: Info) -> Result<()> {
        let (memory, start) = self.enter(|_, state| state.windows.exchange(slot).ok_or(Error::Win))?;
        let own = start + self.rank() as usize * EXCHANGED;
        memory.write(own, info.as_bytes()).map_err(|_| Error::Win)?;
        let blocks = Data::new(memory, start, EXCHANGED, Basic::Byte)?;
        self.allgather(IN_PLACE, &blocks)
    }

    /// Takes in what all processes told.
    ///
    /// # Errors
    /// [`Error::Elsewhere`] if one has no part.
    fn learn(&self, slot: Option<u8>) -> Result<()> {
        self.enter(|_, state| {
            let (memory, start) = state.windows.exchange(slot).ok_or(Error::Win)?;
            let mut all = Ok(());
            for rank in 0..self.size() {
                let mut info = Info::NONE;
                let at = start + rank as usize * EXCHANGED;
                memory.read(at, info.as_mut_bytes()).map_err(|_| Error::Win)?;
                all = all.and(info.check());
                if let Some(peer) = slot.and_then(|slot| state.windows.peer(slot, rank)) {
                    peer.info = info;
                }
            }
            all
        })
    }
}

/// Gives a window's place back, and its memory.
fn release<P: Port>(active: &mut Active<P>, state: &mut State, slot: u8) {
    if let Some(region) = state.windows.remove(slot).and_then(|win| win.region) {
        // The application has handles of the memory, or has let it go.
        let _ = active.deregister(region);
    }
}

impl<N: Node> Window<N> {
    /// `MPI_Win_free`: ends the window once all processes have called it. Collective.
    ///
    /// # Errors
    /// [`Error::RmaSync`] in an epoch, [`Error::Win`]; what went wrong with operations.
    pub fn free(self) -> Result<()> {
        self.enter(|at| {
            let exposed = at.state.windows.peers(self.slot).iter().any(|peer| peer.exposed);
            if exposed { Err(Error::RmaSync) } else { at.win()?.epoch.end() }
        })
        .inspect_err(|error| self.communicator.refuse(*error))?;
        let finished = self.finish_all().and_then(|()| self.finish_locally());
        // Nobody begins anything any more, whatever became of what was.
        self.communicator.barrier()?;
        self.enter(|at| {
            release(at.active, at.state, self.slot);
            Ok(())
        })?;
        finished.and(self.communicator.free())
    }
}
