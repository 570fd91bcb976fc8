//! Contexts: a share of a client's resources, a work queue and the functions that run it (SPEC P-2).
//!
//! A [`Context`] is `Send` and not `Sync`, and [`Context::advance`] takes `&mut self`: whoever can call it has
//! the context alone, and no lock is needed (docs/design.md decision 2). Other threads reach it through a [`Poster`].
//! Handlers and callbacks are handed an [`Active`], which has everything but `advance`.
//!
//! ```compile_fail,E0277
//! fn shared<P: pami::device::Port>(context: &pami::context::Context<P>) -> &(dyn Sync + '_) {
//!     context
//! }
//! ```
//! ```compile_fail,E0599
//! fn nested<P: pami::device::Port>(active: &mut pami::context::Active<P>) {
//!     active.advance();
//! }
//! ```

mod acks;
mod admission;
mod advance;
mod collectives;
mod deaths;
mod due;
mod fence;
mod fence_rma;
mod get;
mod late;
#[cfg(feature = "trace")]
mod notes;
mod operations;
mod posts;
mod processing;
mod put;
mod questions;
mod receive;
mod receive_request;
pub mod registration;
mod rendezvous;
mod rmw;
mod send;
mod send_apart;
mod sleep;
pub(crate) mod terms;
mod unexpected;

use crate::acks::Acks;
use crate::adaptive_spin::AdaptiveSpin;
use crate::balance::Processing;
use crate::collective::engine;
use crate::device::Port;
use crate::dispatch;
use crate::endpoint::Endpoint;
use crate::last_region::LastRegion;
use crate::operation::{Operations, Questions};
use crate::packet::{DEFERRING_IDS, DISPATCH_IDS};
use crate::receive::Incoming;
use crate::receive_request::ReceiveRequests;
use crate::region::Rights;
use crate::transport::{Counters, Transport};
use crate::unexpected::UnexpectedQueue;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use due::Due;
pub(crate) use late::LateHandlers;
pub(crate) use posts::Posts;
pub use posts::{Busy, Poster, Progress, Work, WorkSlot};

/// Most packets that one call of [`Context::advance`] takes in: a busy peer cannot keep the caller.
pub const ARRIVALS_PER_ADVANCE: usize = 16;
/// Most posts that one call of [`Context::advance`] runs.
pub const POSTS_PER_ADVANCE: usize = 64;
/// Looks at a quiet port that a context which only waits in collectives takes before it looks at everything again.
const QUIET_LOOKS: i16 = 256;

/// A [dispatch handler](dispatch::Handler).
pub type Handler<P> = dispatch::Handler<Active<P>>;
/// A [handler that may want messages later](dispatch::DeferringHandler).
pub type DeferringHandler<P> = dispatch::DeferringHandler<Active<P>>;
/// [What becomes of a message's data](dispatch::Receive).
pub type Receive<P> = dispatch::Receive<Active<P>>;
/// [What is called when data has come](dispatch::OnReceived).
pub type OnReceived<P> = dispatch::OnReceived<Active<P>>;
/// [What is called with each packet's data](dispatch::OnPart).
pub type OnPart<P> = dispatch::OnPart<Active<P>>;
/// [What is called when an operation is over](dispatch::Done).
pub type Done<P> = dispatch::Done<Active<P>>;
/// [What is called with what was fetched](dispatch::OnFetched).
pub type OnFetched<P> = dispatch::OnFetched<Active<P>>;

/// [A message](crate::send::Send) of any length.
pub type Send<'a, P> = crate::send::Send<'a, Active<P>>;
/// [Data to be written](crate::put::Put) into a region.
pub type Put<P> = crate::put::Put<Active<P>>;
/// [Data to be read](crate::get::Get) from a region.
pub type Get<P> = crate::get::Get<Active<P>>;
/// [An update](crate::rmw::Rmw) of a word of a region.
pub type Rmw<P> = crate::rmw::Rmw<Active<P>>;
/// [A message to be processed](crate::balance::Process) into a region.
pub type Process<P> = crate::balance::Process<Active<P>>;
/// [Memory for a communication object](crate::operation::ObjectMemory), the caller's.
pub type ObjectMemory<P> = crate::operation::ObjectMemory<Active<P>>;

/// [Memory for the object of a collective](engine::CollectMemory), the caller's.
pub type CollectMemory<P> = engine::CollectMemory<Active<P>>;
/// [Memory for the object of a reception](crate::unexpected::AcceptMemory), the caller's.
pub type AcceptMemory<P> = crate::unexpected::AcceptMemory<Active<P>>;

type Operation<P> = crate::operation::Operation<Active<P>>;
type RemoteDone<P> = crate::operation::RemoteDone<Active<P>>;
type Sent<P> = crate::operation::Sent<Active<P>>;
type Loan<P> = crate::object::Loan<Operation<P>>;
type Stage<P> = crate::receive_request::Stage<Active<P>>;
type ReceiveRequest<P> = crate::receive_request::ReceiveRequest<Active<P>>;
type Partial<P> = crate::receive::Partial<Active<P>>;
type Sink<P> = crate::receive::Sink<Active<P>>;
type Wish<P> = crate::receive::Wish<Active<P>>;

/// [What a member brings to a collective](engine::Collect).
pub type Collect<P> = engine::Collect<Active<P>>;
/// [A geometry to be created](engine::NewGeometry).
pub type NewGeometry<P> = engine::NewGeometry<Active<P>>;
/// [What is called when a collective is announced](engine::OnAnnounced).
pub type OnAnnounced<P> = engine::OnAnnounced<Active<P>>;
/// What is called when nodes are gone.
pub type OnDeaths<P> = &'static (dyn Fn(&mut Active<P>) + Sync);

/// A context without its `advance`: what handlers, callbacks and posted work are handed.
#[repr(C)]
pub struct Active<P: Port> {
    // What every call looks at lies in front, in reach of short instructions.
    due: Due,
    writable: LastRegion<P>,
    updatable: LastRegion<P>,
    port: P,
    transport: Transport<P>,
    posts: Posts<P>,
    operations: Operations<Active<P>>,
    handlers: [Option<Handler<P>>; DISPATCH_IDS],
    /// Deaths that this context has taken note of.
    deaths: u32,
    /// Whether packets of a node that died may still be in the FIFO.
    dead_packets_left: bool,
    /// Whether the port was told whom this context waits for.
    told_awaited: bool,
    spin: AdaptiveSpin,
    /// Contexts that the client has in each task.
    contexts: u8,
    rendezvous_from: usize,
    incoming: Incoming<Active<P>>,
    receive_requests: ReceiveRequests<Active<P>>,
    acks: Acks,
    collectives: engine::Engine<Active<P>>,
    processing: Processing,
    questions: Questions,
    unexpected: UnexpectedQueue<Active<P>>,
    deferring: [Option<DeferringHandler<P>>; DEFERRING_IDS],
    late: Option<&'static LateHandlers<P>>,
    on_deaths: Option<OnDeaths<P>>,
    not_sync: PhantomData<Cell<()>>,
}

/// What a client gives to a context.
pub(crate) struct ContextSetup<P: Port> {
    pub(crate) me: Endpoint,
    pub(crate) contexts: u8,
    pub(crate) local_paths: bool,
    pub(crate) rendezvous_from: usize,
    pub(crate) handlers: [Option<Handler<P>>; DISPATCH_IDS],
    pub(crate) deferring: [Option<DeferringHandler<P>>; DEFERRING_IDS],
    pub(crate) late: Option<&'static LateHandlers<P>>,
    pub(crate) processing: Processing,
    pub(crate) parts: Parts<P>,
}

/// What of it lies in memory that is given back at the end.
pub(crate) struct Parts<P: Port> {
    pub(crate) operations: Operations<Active<P>>,
    pub(crate) receive_requests: ReceiveRequests<Active<P>>,
    pub(crate) incoming: Incoming<Active<P>>,
    pub(crate) acks: Acks,
    pub(crate) unexpected: UnexpectedQueue<Active<P>>,
    pub(crate) collectives: engine::Engine<Active<P>>,
    pub(crate) posts: Posts<P>,
}

impl<P: Port> Active<P> {
    pub(crate) fn new(port: P, setup: ContextSetup<P>) -> Self {
        let ContextSetup {
            me,
            contexts,
            local_paths,
            rendezvous_from,
            handlers,
            deferring,
            late,
            processing,
            parts,
        } = setup;
        let Parts { operations, receive_requests, incoming, acks, unexpected, collectives, posts } = parts;
        Self {
            deaths: port.deaths(),
            due: Due::NEW,
            writable: LastRegion::new(Rights::WRITE),
            updatable: LastRegion::new(Rights::UPDATE),
            spin: AdaptiveSpin::of_hart(port.owns_core()),
            port,
            transport: Transport::new(me, local_paths),
            posts,
            handlers,
            // Some may have died before, with packets left for this context.
            dead_packets_left: true,
            told_awaited: false,
            contexts,
            rendezvous_from,
            operations,
            receive_requests,
            incoming,
            acks,
            questions: Questions::NONE,
            unexpected,
            processing,
            collectives,
            deferring,
            late,
            on_deaths: None,
            not_sync: PhantomData,
        }
    }

    /// The endpoint that this context is.
    pub fn endpoint(&self) -> Endpoint {
        self.transport.me()
    }

    /// What went through this context so far.
    pub fn counters(&self) -> Counters {
        self.transport.counters()
    }

    /// Nanoseconds since the node started.
    pub fn now_ns(&self) -> u64 {
        self.port.now_ns()
    }

    /// For posts to this context from other threads, or from its own handlers.
    pub fn poster(&self) -> Poster<P> {
        self.posts.poster(self.port.waker())
    }

    /// Whether nothing is under way towards others.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.operations.is_idle()
            && self.acks.has_told_all(self.port.now_ns())
            && self.processing.has_told_all()
            && self.collectives.has_told_all()
    }

    /// Whether nothing is under way from others, and no message kept.
    pub(crate) fn has_received_all(&self) -> bool {
        self.receive_requests.is_idle()
            && self.incoming.is_idle()
            && self.unexpected.is_idle()
            && self.acks.has_let_all_in()
    }

    fn is_idle(&self) -> bool {
        self.collectives.rests() && self.is_idle_otherwise()
    }

    /// Whether nothing but collectives is under way.
    fn is_idle_otherwise(&self) -> bool {
        self.operations.is_idle()
            && self.acks.is_empty()
            && self.processing.has_told_all()
            && self.receive_requests.is_idle()
            && self.incoming.is_idle()
    }

    /// When a sleeper has to look again.
    pub(crate) fn look_ns(&self) -> Option<u64> {
        let pause = self.acks.most_sleep_ns().into_iter().chain(self.question_ns()).min();
        let pause = pause.map(|most| self.port.now_ns().saturating_add(most));
        self.collectives.look_ns().into_iter().chain(pause).min()
    }

    /// A message breaks the protocol of the library that this context is of: it is counted with those that break PAMI's.
    #[cold]
    pub fn note_protocol_error(&mut self) {
        self.transport.protocol_error();
    }

    /// Announces that this hart is about to sleep; see [`Port::arm`]. Returns `false` if it must not, as a post is just being
    /// queued.
    pub(crate) fn arm(&mut self) -> bool {
        self.port.arm();
        self.posts.sleep()
    }

    /// Takes back [`arm`](Self::arm).
    pub(crate) fn disarm(&mut self) {
        self.posts.awake();
        self.port.disarm();
    }

    /// Something is under way that the next advance has to look at.
    pub(crate) fn note_work(&mut self) {
        self.due = Due::ALL;
    }
}

/// A context, owned by the thread that advances it.
pub struct Context<P: Port> {
    active: Active<P>,
}

impl<P: Port> Deref for Context<P> {
    type Target = Active<P>;
    fn deref(&self) -> &Active<P> {
        &self.active
    }
}

impl<P: Port> DerefMut for Context<P> {
    fn deref_mut(&mut self) -> &mut Active<P> {
        &mut self.active
    }
}

impl<P: Port> Context<P> {
    pub(crate) fn new(active: Active<P>) -> Self {
        Self { active }
    }

    /// Gives back what lies in memory; its port is closed.
    pub(crate) fn into_parts(self) -> Parts<P> {
        let Active { operations, receive_requests, incoming, acks, unexpected, collectives, posts, .. } =
            self.active;
        Parts { operations, receive_requests, incoming, acks, unexpected, collectives, posts }
    }

    /// Whether an advance would find nothing to do. Where that takes a longer look it says no: an advance looks.
    #[inline]
    pub fn rests(&mut self) -> bool {
        let active = &mut self.active;
        !active.due.is_some() && active.port.seems_quiet() && active.posts.seem_idle()
    }
}
