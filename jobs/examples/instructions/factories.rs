//! The same calls through factories (SPEC M-2): what a call is compared with lies in `alone` and `one_sided`.

use super::COUNTED;
use super::alone::{EAGER, Readings};
use super::count::Count;
use super::one_sided::ended;
use kernel::{Client, Context, Done, Endpoint, JobError, Payload, Put, Rmw, SendError};
use pami::factory::{FenceFunction, ImmediateFunction, Outgoing, PutFunction, RmwFunction, SendFunction};
use pami::{Factory, FactoryError};

/// Factories of a client.
pub const FACTORIES: usize = 5;

/// How an operation is asked for.
#[derive(Clone, Copy)]
pub enum By {
    /// By a call of the context.
    Call,
    /// Through a factory.
    Factory,
}

/// One of each kind.
pub struct Factories {
    immediate: Factory<ImmediateFunction>,
    send: Factory<SendFunction>,
    put: Factory<PutFunction>,
    rmw: Factory<RmwFunction>,
    fence: Factory<FenceFunction>,
}

impl Factories {
    pub fn register(client: &mut Client) -> Result<Self, JobError> {
        Self::all(client).map_err(|_| JobError::Other("a factory could not be registered"))
    }

    fn all(client: &mut Client) -> Result<Self, FactoryError> {
        let protocol = client.protocol("counted")?;
        Ok(Self {
            immediate: client.register(&protocol, ImmediateFunction { dispatch: COUNTED })?,
            send: client.register(&protocol, SendFunction { dispatch: COUNTED, rendezvous_from: None })?,
            put: client.register(&protocol, PutFunction::default())?,
            rmw: client.register(&protocol, RmwFunction::default())?,
            fence: client.register(&protocol, FenceFunction)?,
        })
    }

    #[inline(never)]
    pub fn send_immediate(
        &self,
        count: Count,
        context: &mut Context,
        target: Endpoint,
        word: u64,
    ) -> Result<Readings, SendError> {
        let factory = &self.immediate;
        count.around(|| factory.execute(context, target, &[], &word.to_ne_bytes()))
    }

    #[inline(never)]
    pub fn send_eager(
        &self,
        count: Count,
        context: &mut Context,
        target: Endpoint,
    ) -> Result<Readings, SendError> {
        let factory = &self.send;
        count.around(|| {
            let outgoing = Outgoing::new(target, Payload::Static(&EAGER.0));
            factory.execute(context, outgoing).map_err(|(error, _)| error)
        })
    }

    #[inline(never)]
    pub fn put(&self, count: Count, context: &mut Context, put: Put) -> Result<Readings, SendError> {
        let factory = &self.put;
        let from = count.now();
        factory.execute(context, put).map_err(|(error, _)| error)?;
        Ok((from, count.now()))
    }

    #[inline(never)]
    pub fn rmw(&self, count: Count, context: &mut Context, rmw: Rmw) -> Result<Readings, SendError> {
        let factory = &self.rmw;
        let from = count.now();
        factory.execute(context, rmw)?;
        Ok((from, count.now()))
    }

    #[inline(never)]
    pub fn fence(
        &self,
        count: Count,
        context: &mut Context,
        target: Endpoint,
    ) -> Result<Readings, SendError> {
        let factory = &self.fence;
        count.around(|| factory.execute(context, target, Done { call: &ended, cookie: 0 }))
    }
}
