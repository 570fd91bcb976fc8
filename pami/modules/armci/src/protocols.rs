//! The library's protocols: every call of the messaging layer that moves data goes through here.
//!
//! | protocol | carried by |
//! |---|---|
//! | `armci-put`, `armci-get` | put, get |
//! | `armci-rmw` | fetch |
//! | `armci-acc`, `armci-mutex` | active messages of one packet |
//! | `armci-fence` | fence |
//! | `armci-group` | collectives: the exchange of addresses, barriers |

use crate::shape::Piece;
use pami::device::Port;
use pami::dispatch::Handler;
use pami::{
    Active, Client, ClientBuilder, ClientError, Collect, CollectError, Completion, Done, Endpoint, Fetch,
    Fetched, Get, Layout, Node, OnFetched, Payload, Put, RegionHandle, Rmw, SendError, Shared,
};

/// Dispatch ids of the library's client.
const ACCUMULATE: u8 = 0;
const MUTEX: u8 = 1;

/// A message of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    Accumulate,
    Mutex,
}

/// The functions that the library uses, with whom to tell when what they began has ended.
pub(crate) struct Protocols<P: Port> {
    completed: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
    fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
}

/// Where a piece of a transfer lies.
pub(crate) struct Ends<'a> {
    /// An endpoint of the task that the region belongs to.
    pub target: Endpoint,
    pub region: RegionHandle,
    /// Where in the region the transfer starts.
    pub offset: u32,
    pub memory: &'a Shared,
    /// Where in the memory it starts.
    pub at: usize,
}

/// Makes the client, with its handlers of messages.
pub(crate) fn register<N: Node>(
    builder: ClientBuilder<N>,
    accumulate: Handler<N::Port>,
    mutex: Handler<N::Port>,
) -> Result<Client<N>, ClientError> {
    builder.dispatch(ACCUMULATE, accumulate).dispatch(MUTEX, mutex).create()
}

/// Sends a message of one packet, from wherever.
pub(crate) fn send<P: Port>(
    active: &mut Active<P>,
    target: Endpoint,
    message: Message,
    header: &[u8],
    data: &[u8],
) -> Result<(), SendError> {
    let dispatch = if message == Message::Accumulate { ACCUMULATE } else { MUTEX };
    active.send_immediate(target, dispatch, header, data)
}

impl<P: Port> Protocols<P> {
    pub(crate) fn new(
        completed: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
        fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
    ) -> Self {
        Self { completed, fetched }
    }

    fn done(&self, request: usize) -> Done<P> {
        Done { call: self.completed, cookie: request }
    }

    /// Ends when the local memory may change.
    pub(crate) fn put(
        &self,
        active: &mut Active<P>,
        ends: &Ends,
        piece: &Piece,
        request: usize,
    ) -> Result<(), SendError> {
        let start = ends.at + piece.local as usize;
        let reach = reach(piece.local_layout, piece.len);
        let put = Put {
            target: ends.target,
            region: ends.region,
            offset: ends.offset + piece.remote,
            layout: piece.remote_layout,
            payload: Payload::Shared(ends.memory.clone(), start..start + reach),
            payload_layout: piece.local_layout,
            local_done: Some(self.done(request)),
            remote_done: None,
        };
        active.put(put).map_err(|(error, _)| error)
    }

    /// Ends when the data is there.
    pub(crate) fn get(
        &self,
        active: &mut Active<P>,
        ends: &Ends,
        piece: &Piece,
        request: usize,
    ) -> Result<(), SendError> {
        active.get(Get {
            target: ends.target,
            region: ends.region,
            offset: ends.offset + piece.remote,
            layout: piece.remote_layout,
            into: ends.memory.clone(),
            at: (ends.at + piece.local as usize) as u32,
            into_layout: piece.local_layout,
            len: piece.len,
            done: Some(self.done(request)),
        })
    }

    /// Ends with what the word was.
    pub(crate) fn update(
        &self,
        active: &mut Active<P>,
        (target, region, offset): (Endpoint, RegionHandle, u32),
        rmw: Rmw,
        request: usize,
    ) -> Result<(), SendError> {
        let done = Some(OnFetched { call: self.fetched, cookie: request });
        active.fetch(Fetch { target, region, offset, rmw, done })
    }

    /// Ends when all operations that this context began towards `target` before have been carried out.
    pub(crate) fn fence(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        request: usize,
    ) -> Result<(), SendError> {
        active.fence(target, self.done(request))
    }

    /// Starts what `make` makes of a callback.
    pub(crate) fn collect(
        &self,
        active: &mut Active<P>,
        request: usize,
        make: impl FnOnce(Done<P>) -> Collect<P>,
    ) -> Result<(), CollectError> {
        let collect = make(self.done(request));
        active.collect(collect)
    }

    /// A callback that ends `request`.
    pub(crate) fn callback(&self, request: usize) -> Done<P> {
        self.done(request)
    }
}

/// Bytes of memory that `len` bytes of data reach over.
fn reach(layout: Layout, len: u32) -> usize {
    layout.reach(len).unwrap_or(len) as usize
}
