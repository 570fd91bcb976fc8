//! The non-blocking collectives that move data.

use crate::collective::Side;
use crate::collective::{Blocks, Operand};
use crate::collective::{Caller, Plan, Sizes};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::lags::Lag;
use crate::library::Communicator;
use crate::request::Request;
use crate::vci::State;
use pami::client::Node;
use pami::collective::Collective;

/// What is wrong if a root does not say where its blocks are.
const NO_BUFFER: Error = Error::Arg("the root's buffer is missing");
/// What is wrong if a process that is not the root works in place.
const NOT_IN_PLACE: Error = Error::Arg("only the root of a collective with a root works in place");

/// Two blocks that must have the same bytes.
fn same(sent: usize, received: usize) -> Result<()> {
    if sent == received { Ok(()) } else { Err(Error::Truncate { len: sent, room: received }) }
}

impl<N: Node> Communicator<N> {
    /// Whether this process is the root.
    ///
    /// # Errors
    /// [`Error::Root`].
    pub(super) fn is_root(&self, root: u32) -> Result<bool> {
        if root < self.size() { Ok(root == self.rank()) } else { Err(Error::Root(root)) }
    }

    fn as_called(&self) -> Caller {
        Caller { geometry: self.geometry(), size: self.size(), divides: self.divides }
    }

    /// Makes a call; if it cannot be, no process waits for it in vain (SPEC R-4).
    pub(super) fn whole(&self, call: impl FnOnce() -> Result<Request>) -> Result<Request> {
        call().inspect_err(|error| self.refuse(*error))
    }

    /// This process cannot take its part in the next collective, for this reason: all processes hear its class.
    pub(crate) fn refuse(&self, error: Error) {
        let note = || {
            self.enter(|active, state| {
                let callbacks = self.library.callbacks()?;
                let State { collectives, protocols, .. } = &mut *state;
                let means = (callbacks, protocols.as_ref().ok_or(Error::Finalized)?);
                let noted = collectives.refuse(active, self.as_called(), error.class(), means);
                if collectives.are_waiting() {
                    self.library.vci(self.context().into())?.lags.set(Lag::Collectives);
                }
                Ok(noted)
            })
        };
        // Of a communicator that is none nobody waits.
        while note() == Ok(false) && self.library.rest(self.context().into()).is_ok() {}
    }

    /// Calls a collective of the layer below.
    ///
    /// # Errors
    /// Of `plan`; [`Error::NoMem`]; [`Error::Comm`], [`Error::Finalized`].
    pub(super) fn launch(&self, plan: impl FnOnce(&mut State) -> Result<Plan>) -> Result<Request> {
        self.enter(|active, state| {
            let library = self.library;
            let callbacks = library.callbacks()?;
            let plan = plan(state)?;
            let slot = match state.requests.open(None) {
                Ok(slot) => slot,
                Err(error) => {
                    state.collectives.drop_plan(&plan);
                    return Err(error);
                }
            };
            let request = (slot, state.requests.cookie(slot));
            let State { collectives, protocols, .. } = &mut *state;
            let means = (callbacks, protocols.as_ref().ok_or(Error::Finalized)?);
            if let Err(error) = collectives.call(active, self.as_called(), plan, request, means) {
                state.requests.free(slot);
                return Err(error);
            }
            if state.collectives.are_waiting() {
                library.vci(self.context().into())?.lags.set(Lag::Collectives);
            }
            Ok(state.requests.name(slot))
        })
    }

    /// `MPI_Ibarrier`.
    ///
    /// # Errors
    /// [`Error::Comm`], [`Error::NoMem`].
    pub fn ibarrier(&self) -> Result<Request> {
        self.whole(|| self.launch(|_| Ok(Plan::new(Collective::Barrier))))
    }

    /// `MPI_Ibcast`: the root's data, to all.
    ///
    /// # Errors
    /// [`Error::Root`], [`Error::Type`], [`Error::Comm`], [`Error::NoMem`].
    pub fn ibcast(&self, data: &Data, root: u32) -> Result<Request> {
        self.whole(|| {
            let is_root = self.is_root(root)?;
            let side = Side::new(data, is_root, !is_root)?;
            self.launch(|_| {
                Ok(Plan {
                    root,
                    in_place: true,
                    blocks: Sizes::Equal(data.bytes()),
                    receive: Some(side),
                    ..Plan::new(Collective::Broadcast)
                })
            })
        })
    }

    /// `MPI_Igather`: a block of each process, at the root. Others name no receive buffer.
    ///
    /// # Errors
    /// [`Error::Root`], [`Error::Arg`] if a buffer is missing, [`Error::Buffer`], [`Error::Truncate`], [`Error::Type`],
    /// [`Error::Comm`], [`Error::NoMem`].
    pub fn igather<'a>(
        &self,
        send: impl Into<Operand<'a>>,
        receive: Option<&Data>,
        root: u32,
    ) -> Result<Request> {
        self.whole(|| {
            let (is_root, send) = (self.is_root(root)?, send.into().data());
            let receive = if is_root { Some(receive.ok_or(NO_BUFFER)?) } else { None };
            let block = send.or(receive).ok_or(NOT_IN_PLACE)?.bytes();
            same(block, receive.map_or(block, Data::bytes))?;
            let into = receive.map(|block| Side::blocks(block, self.size(), send.is_none(), true));
            let (from, into) =
                (send.map(|data| Side::new(data, true, false)).transpose()?, into.transpose()?);
            self.launch(|_| {
                Ok(Plan {
                    root,
                    in_place: send.is_none(),
                    blocks: Sizes::Equal(block),
                    send: from,
                    receive: into,
                    ..Plan::new(Collective::Gather)
                })
            })
        })
    }

    /// `MPI_Igatherv`: a block of any length of each process, at the root. Others name no receive buffer.
    ///
    /// # Errors
    /// As [`igather`](Self::igather).
    pub fn igatherv<'a>(
        &self,
        send: impl Into<Operand<'a>>,
        receive: Option<Blocks>,
        root: u32,
    ) -> Result<Request> {
        self.whole(|| {
            let (is_root, send) = (self.is_root(root)?, send.into().data());
            let from = send.map(|data| Side::new(data, true, false)).transpose()?;
            let plan = Plan {
                root,
                in_place: send.is_none(),
                known_blocks: false,
                send: from,
                ..Plan::new(Collective::Gather)
            };
            if !is_root {
                let own = send.ok_or(NOT_IN_PLACE)?.bytes();
                return self.launch(|_| Ok(Plan { blocks: Sizes::Own(own, root), ..plan }));
            }
            let (receive, size) = (receive.ok_or(NO_BUFFER)?, self.size());
            self.check_own(send, receive)?;
            self.launch(|state| {
                let (list, into) = keep(state, size, receive, send.is_none(), true)?;
                Ok(Plan { blocks: Sizes::Listed(list), receive: Some(into), ..plan })
            })
        })
    }

    /// `MPI_Iscatter`: a block of the root's to each process. Others name no send buffer.
    ///
    /// # Errors
    /// As [`igather`](Self::igather).
    pub fn iscatter<'a>(
        &self,
        send: Option<&Data>,
        receive: impl Into<Operand<'a>>,
        root: u32,
    ) -> Result<Request> {
        self.whole(|| {
            let (is_root, receive) = (self.is_root(root)?, receive.into().data());
            let send = if is_root { Some(send.ok_or(NO_BUFFER)?) } else { None };
            let block = receive.or(send).ok_or(NOT_IN_PLACE)?.bytes();
            same(send.map_or(block, Data::bytes), block)?;
            let from = send.map(|block| Side::blocks(block, self.size(), true, false)).transpose()?;
            let into = receive.map(|data| Side::new(data, false, true)).transpose()?;
            self.launch(|_| {
                Ok(Plan {
                    root,
                    in_place: receive.is_none(),
                    blocks: Sizes::Equal(block),
                    send: from,
                    receive: into,
                    ..Plan::new(Collective::Scatter)
                })
            })
        })
    }

    /// `MPI_Iscatterv`: a block of any length of the root's to each process. Others name no send buffer.
    ///
    /// # Errors
    /// As [`igather`](Self::igather).
    pub fn iscatterv<'a>(
        &self,
        send: Option<Blocks>,
        receive: impl Into<Operand<'a>>,
        root: u32,
    ) -> Result<Request> {
        self.whole(|| {
            let (is_root, receive) = (self.is_root(root)?, receive.into().data());
            let into = receive.map(|data| Side::new(data, false, true)).transpose()?;
            let plan = Plan {
                root,
                in_place: receive.is_none(),
                known_blocks: false,
                receive: into,
                ..Plan::new(Collective::Scatter)
            };
            if !is_root {
                let own = receive.ok_or(NOT_IN_PLACE)?.bytes();
                return self.launch(|_| Ok(Plan { blocks: Sizes::Own(own, root), ..plan }));
            }
            let (send, size) = (send.ok_or(NO_BUFFER)?, self.size());
            self.check_own(receive, send)?;
            self.launch(|state| {
                let (list, from) = keep(state, size, send, true, false)?;
                Ok(Plan { blocks: Sizes::Listed(list), send: Some(from), ..plan })
            })
        })
    }

    /// `MPI_Iallgather`: a block of each process, at all.
    ///
    /// # Errors
    /// [`Error::Buffer`], [`Error::Truncate`], [`Error::Type`], [`Error::Comm`], [`Error::NoMem`].
    pub fn iallgather<'a>(&self, send: impl Into<Operand<'a>>, receive: &Data) -> Result<Request> {
        self.whole(|| {
            let send = send.into().data();
            let block = receive.bytes();
            same(send.map_or(block, Data::bytes), block)?;
            let into = Side::blocks(receive, self.size(), send.is_none(), true)?;
            let from = send.map(|data| Side::new(data, true, false)).transpose()?;
            self.launch(|_| {
                Ok(Plan {
                    in_place: send.is_none(),
                    blocks: Sizes::Equal(block),
                    send: from,
                    receive: Some(into),
                    ..Plan::new(Collective::Allgather)
                })
            })
        })
    }

    /// `MPI_Iallgatherv`: a block of any length of each process, at all.
    ///
    /// # Errors
    /// As [`iallgather`](Self::iallgather).
    pub fn iallgatherv<'a>(&self, send: impl Into<Operand<'a>>, receive: Blocks) -> Result<Request> {
        self.whole(|| {
            let (send, size) = (send.into().data(), self.size());
            let from = send.map(|data| Side::new(data, true, false)).transpose()?;
            self.check_own(send, receive)?;
            self.launch(|state| {
                let (list, into) = keep(state, size, receive, send.is_none(), true)?;
                Ok(Plan {
                    in_place: send.is_none(),
                    blocks: Sizes::Listed(list),
                    send: from,
                    receive: Some(into),
                    ..Plan::new(Collective::Allgather)
                })
            })
        })
    }

    /// `MPI_Ialltoall`: a block of every process to every process.
    ///
    /// # Errors
    /// As [`iallgather`](Self::iallgather).
    pub fn ialltoall<'a>(&self, send: impl Into<Operand<'a>>, receive: &Data) -> Result<Request> {
        self.whole(|| {
            let (send, size) = (send.into().data(), self.size());
            let block = receive.bytes();
            same(send.map_or(block, Data::bytes), block)?;
            let into = Side::blocks(receive, size, send.is_none(), true)?;
            let from = send.map(|data| Side::blocks(data, size, true, false)).transpose()?;
            self.launch(|_| {
                Ok(Plan {
                    in_place: send.is_none(),
                    blocks: Sizes::Equal(block),
                    sources: Sizes::Equal(block),
                    send: from,
                    receive: Some(into),
                    ..Plan::new(Collective::Alltoall)
                })
            })
        })
    }

    /// `MPI_Ialltoallv`: a block of any length of every process to every process. `None` is `MPI_IN_PLACE`: what is sent is
    /// what is in the receive buffer.
    ///
    /// # Errors
    /// As [`iallgather`](Self::iallgather).
    pub fn ialltoallv(&self, send: Option<Blocks>, receive: Blocks) -> Result<Request> {
        self.whole(|| {
            let size = self.size();
            self.launch(|state| {
                let (sources, into) = keep(state, size, receive, send.is_none(), true)?;
                let plan = Plan {
                    known_blocks: false,
                    blocks: Sizes::Listed(sources),
                    sources: Sizes::Listed(sources),
                    receive: Some(into),
                    ..Plan::new(Collective::Alltoall)
                };
                let Some(send) = send else { return Ok(Plan { in_place: true, ..plan }) };
                match keep(state, size, send, true, false) {
                    Ok((list, from)) => Ok(Plan { blocks: Sizes::Listed(list), send: Some(from), ..plan }),
                    Err(error) => {
                        state.collectives.drop_plan(&plan);
                        Err(error)
                    }
                }
            })
        })
    }

    /// This process's own block among those of a list.
    fn check_own(&self, own: Option<&Data>, blocks: Blocks) -> Result<()> {
        let count = blocks.counts.get(self.rank() as usize);
        let count = *count.ok_or(Error::Arg("there must be a count for each process"))?;
        let there = blocks.data.datatype().pack_size(count).ok_or(Error::Count(count))?;
        same(own.map_or(there, Data::bytes), there)
    }
}

/// Keeps a list of blocks: its number, and the buffer.
fn keep(state: &mut State, size: u32, blocks: Blocks, loads: bool, stores: bool) -> Result<(usize, Side)> {
    let lists = &mut state.collectives.lists;
    let list = lists.keep_blocks(size, blocks)?;
    match Side::listed(blocks.data, lists, list, size, loads, stores) {
        Ok(side) => Ok((list, side)),
        Err(error) => {
            lists.release(list);
            Err(error)
        }
    }
}
