//! The functions that can be registered, each with the settings that one factory of it may have.

use crate::balance::functions::Own;
use crate::balance::{ElementFunction, Split};
use crate::client::{Client, Node};
use crate::collective::{Algorithm, CallError, Collective, Tuning, catalogue};
use crate::context::{DeferringHandler, Handler};
use crate::device::Port;
use crate::packet::{DISPATCH_IDS, is_dispatch_id};
use crate::registry::FactoryError;
use crate::registry::{NOBODY, Settings};
pub(super) use sealed::Settle;

/// A function of the low-level library, as it is registered for one client. Implemented by the types of this module.
pub trait Function<N: Node>: Settle<N> {}

impl<N: Node, F: Settle<N>> Function<N> for F {}

mod sealed {
    use super::{Client, FactoryError, Node, Settings};

    pub trait Settle<N: Node>: Sized {
        /// What the factory holds, where it differs from the usual, once everything is seen to be right.
        fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError>;

        /// Takes back what the client was given.
        fn undo(_: &mut Client<N>, _: &Settings) -> Result<(), FactoryError> {
            Ok(())
        }
    }
}

/// [`send_immediate`](crate::Active::send_immediate): messages of one packet, refused if they find no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImmediateFunction {
    /// Id of the handler at the targets.
    pub dispatch: u8,
}

/// [`send`](crate::Active::send): messages of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendFunction {
    /// Id of the handler at the targets.
    pub dispatch: u8,
    /// Bytes from which on they go by rendezvous; 0 for all with data, `usize::MAX` for none, `None` for what the client
    /// says (SPEC P-6). What goes eagerly and is longer than the target has memory for unexpected messages cannot be kept for
    /// later there: see [`Active::can_keep`](crate::Active::can_keep).
    pub rendezvous_from: Option<usize>,
}

/// [`send`](crate::Active::send) over a path of its own, which the factory is for, whatever the client says.
///
/// Messages that take different ways to one endpoint have no order among them but by fences: nor have those of one such factory
/// of which some fit a packet and others do not. Those that lie in several pieces and fit no packet go as the client says all the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathSendFunction {
    /// Id of the handler at the targets.
    pub dispatch: u8,
    /// As [`SendFunction::rendezvous_from`].
    pub rendezvous_from: Option<usize>,
    /// Whether messages within the node go through its memory, or over the network's loop-back (SPEC P-9).
    pub local_paths: bool,
}

/// [`put`](crate::Active::put): writes into regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PutFunction {
    /// Whether those within the node stay there (SPEC P-9); `None`: as the client says. Operations that take
    /// different paths to one endpoint have no order among them but by fences.
    pub local_paths: Option<bool>,
}

/// [`get`](crate::Active::get): reads from regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GetFunction {
    /// As [`PutFunction::local_paths`].
    pub local_paths: Option<bool>,
}

/// [`rmw`](crate::Active::rmw): updates of single words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RmwFunction {
    /// As [`PutFunction::local_paths`].
    pub local_paths: Option<bool>,
}

/// [`fence`](crate::Active::fence), [`fence_tasks`](crate::Active::fence_tasks),
/// [`fence_contexts`](crate::Active::fence_contexts), [`fence_geometry`](crate::Active::fence_geometry) and
/// [`fence_rma`](crate::Active::fence_rma): they wait for the operations of all factories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FenceFunction;

/// [`process`](crate::Active::process): messages that are added to regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessFunction {
    /// Who does which sub-operations (SPEC L-4): each factory has rules of its own. Several may add to the same elements;
    /// the results are the same bit for bit.
    pub split: Split,
}

/// A sub-operation of the application's own: [`Combination::Own`](crate::Combination::Own), or
/// [`OwnAlone`](crate::Combination::OwnAlone), of its [number](crate::Factory::number). To be registered before the client has
/// contexts, and at all tasks in the same order.
#[derive(Clone, Copy, Debug)]
pub struct SubOperationFunction {
    /// What it does.
    pub function: ElementFunction,
    /// Whether it is with an operand; else recipes have it alone.
    pub operand: bool,
    /// What it costs for an element: so many times as much as to add one to the target's memory, 1 at least (SPEC L-2).
    pub additions: u16,
}

/// [`collect`](crate::Active::collect): one collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectFunction {
    /// Which one.
    pub what: Collective,
    /// How, the same at all members; `None`: as each call says.
    pub algorithm: Option<(Algorithm, Tuning)>,
}

/// A dispatch handler. To be registered before the client has contexts, so that no message can find its handler missing; or, of
/// a client with [`late_receives`](crate::ClientBuilder::late_receives), at any time, but before messages to its id are sent: by
/// all tasks in front of a collective, say. One that comes earlier is discarded, and counted in
/// [`Counters::unknown_dispatch`](crate::Counters::unknown_dispatch).
pub struct ReceiveFunction<P: Port> {
    /// The dispatch id; `None` for the lowest that is free. As all tasks register in the same order it is the same at
    /// all.
    pub dispatch: Option<u8>,
    /// Called for each message to that id.
    pub handler: Handler<P>,
}

/// As [`ReceiveFunction`], with a handler that may want messages later, and their [`accept`](crate::Active::accept). Where
/// handlers may be registered late, messages to such an id that has none yet are kept, as if one wanted them later.
pub struct DeferringReceiveFunction<P: Port> {
    /// The dispatch id, from [`DEFERRING`](crate::packet::DEFERRING) on; `None` for the lowest of those that is free.
    pub dispatch: Option<u8>,
    /// Called for each message to that id.
    pub handler: DeferringHandler<P>,
}

/// The id, if it is one whose messages go without a place at their origin.
fn plain_id(id: u8) -> Result<u8, FactoryError> {
    if usize::from(id) < DISPATCH_IDS { Ok(id) } else { Err(FactoryError::DispatchId(id)) }
}

/// Settles what paths are taken.
fn settle_paths(local_paths: Option<bool>, usual: Settings) -> Settings {
    let local_paths = local_paths.unwrap_or(usual.local_paths);
    let own_path = local_paths != usual.local_paths;
    let usual_for = if own_path { NOBODY } else { usual.usual_for };
    Settings { usual_for, own_path, local_paths, ..usual }
}

impl<N: Node> Settle<N> for ImmediateFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(Settings { dispatch: plain_id(self.dispatch)?, ..usual })
    }
}

impl<N: Node> Settle<N> for SendFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        if !is_dispatch_id(self.dispatch) {
            return Err(FactoryError::DispatchId(self.dispatch));
        }
        let rendezvous_from = self.rendezvous_from.unwrap_or(usual.rendezvous_from);
        Ok(Settings { dispatch: self.dispatch, rendezvous_from, ..usual })
    }
}

impl<N: Node> Settle<N> for PathSendFunction {
    fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        let Self { dispatch, rendezvous_from, local_paths } = self;
        let usual = settle_paths(Some(local_paths), usual);
        SendFunction { dispatch, rendezvous_from }.settle(client, usual)
    }
}

impl<N: Node> Settle<N> for PutFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(settle_paths(self.local_paths, usual))
    }
}

impl<N: Node> Settle<N> for GetFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(settle_paths(self.local_paths, usual))
    }
}

impl<N: Node> Settle<N> for RmwFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(settle_paths(self.local_paths, usual))
    }
}

impl<N: Node> Settle<N> for FenceFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(usual)
    }
}

impl<N: Node> Settle<N> for ProcessFunction {
    fn settle(self, _: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        Ok(Settings { split: self.split, ..usual })
    }
}

impl<N: Node> Settle<N> for SubOperationFunction {
    fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        let Self { function, operand, additions } = self;
        let dispatch = client.handlers()?.add_function(Own { function, operand, additions })?;
        Ok(Settings { dispatch, ..usual })
    }

    fn undo(client: &mut Client<N>, settings: &Settings) -> Result<(), FactoryError> {
        client.handlers()?.remove_function(settings.dispatch);
        Ok(())
    }
}

impl<N: Node> Settle<N> for CollectFunction {
    fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        if !client.has_collectives() {
            return Err(FactoryError::NoCollectives);
        }
        if let Some((algorithm, tuning)) = self.algorithm {
            let unknown = CallError::Algorithm(self.what, algorithm);
            catalogue::entry(self.what, algorithm).ok_or(FactoryError::Call(unknown))?;
            if tuning.radix < 2 || tuning.chunk == 0 {
                return Err(FactoryError::Call(CallError::Tuning));
            }
        }
        Ok(Settings { collective: self.what, algorithm: self.algorithm, ..usual })
    }
}

impl<N: Node> Settle<N> for ReceiveFunction<N::Port> {
    fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        let dispatch = client.handlers_to_add()?.add(self.dispatch, self.handler)?;
        Ok(Settings { dispatch, ..usual })
    }

    fn undo(client: &mut Client<N>, settings: &Settings) -> Result<(), FactoryError> {
        client.handlers()?.remove(settings.dispatch);
        Ok(())
    }
}

impl<N: Node> Settle<N> for DeferringReceiveFunction<N::Port> {
    fn settle(self, client: &mut Client<N>, usual: Settings) -> Result<Settings, FactoryError> {
        let dispatch = client.handlers_to_add()?.add_deferring(self.dispatch, self.handler)?;
        Ok(Settings { dispatch, ..usual })
    }

    fn undo(client: &mut Client<N>, settings: &Settings) -> Result<(), FactoryError> {
        client.handlers()?.remove(settings.dispatch);
        Ok(())
    }
}
