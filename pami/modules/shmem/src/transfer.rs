//! Puts and gets, blocking and not, and puts that signal (SPEC P-7).
//!
//! Both sides lie in the symmetric heap: the network reads and writes no other memory of this library's, and a put takes the
//! data from where it is.

use crate::error::Error;
use crate::library::{Shmem, Start, endpoint};
use crate::number::{Data, Number};
use crate::operations::{Keeper, Operation};
use crate::symmetric::Sym;
use pami::{Active, Get, Layout, Node, Payload, Put, RmwOp, SendError, Shared, Update, Width};

/// What a signal does to its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It becomes this (`SHMEM_SIGNAL_SET`).
    Set(u64),
    /// This is added to it, wrapping (`SHMEM_SIGNAL_ADD`).
    Add(u64),
}

/// Which elements of the two sides, from the first on: every how many of each, and how many there are.
#[derive(Clone, Copy)]
struct Steps {
    dest: usize,
    source: usize,
    count: usize,
}

/// Some of an object's elements.
#[derive(Clone, Copy)]
struct Side {
    start: u32,
    /// From the first byte to the last.
    extent: u32,
    layout: Layout,
}

impl Side {
    /// Every `step`th element, `count` of them, at least one.
    fn new<T>(object: Sym<T>, step: usize, count: usize) -> Result<Self, Error> {
        let wanted = (count - 1).saturating_mul(step).saturating_add(1);
        let short = Error::Short { has: object.len(), wanted };
        let part = object.part(0..wanted).ok_or(short)?;
        let block = size_of::<T>() as u32;
        let layout = match step {
            0 => return Err(Error::Stride),
            1 => Layout::Contiguous,
            // It is less than the heap has bytes, or there is one element alone.
            _ => Layout::Strided { block, stride: block.saturating_mul(step as u32) },
        };
        Ok(Self { start: part.offset(), extent: part.bytes() as u32, layout })
    }
}

impl<N: Node> Shmem<N> {
    /// Copies all of `source` of this PE to `dest` of PE `pe`. Returns when `source` may change.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Pe`], [`Error::Send`], [`Error::Operation`]
    pub fn put<T: Data>(&self, dest: Sym<T>, source: Sym<T>, pe: u32) -> Result<(), Error> {
        self.iput(dest, source, 1, 1, source.len(), pe)
    }

    /// Copies all of `source` of PE `pe` to `dest` of this PE. Returns when it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get<T: Data>(&self, dest: Sym<T>, source: Sym<T>, pe: u32) -> Result<(), Error> {
        self.iget(dest, source, 1, 1, source.len(), pe)
    }

    /// As [`put`](Self::put), of `count` elements: every `from`th of `source` to every `to`th of `dest`.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::Stride`].
    pub fn iput<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        to: usize,
        from: usize,
        count: usize,
        pe: u32,
    ) -> Result<(), Error> {
        self.put_steps(dest, source, Steps { dest: to, source: from, count }, pe, Keeper::Call)
    }

    /// As [`get`](Self::get), of `count` elements: every `from`th of `source` to every `to`th of `dest`.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::Stride`].
    pub fn iget<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        to: usize,
        from: usize,
        count: usize,
        pe: u32,
    ) -> Result<(), Error> {
        self.get_steps(dest, source, Steps { dest: to, source: from, count }, pe, Keeper::Call)
    }

    /// As [`put`](Self::put), without waiting: `source` may change after [`quiet`](Self::quiet).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_nbi<T: Data>(&self, dest: Sym<T>, source: Sym<T>, pe: u32) -> Result<(), Error> {
        let steps = Steps { dest: 1, source: 1, count: source.len() };
        self.put_steps(dest, source, steps, pe, Keeper::Quiet)
    }

    /// As [`get`](Self::get), without waiting: the data is there after [`quiet`](Self::quiet).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_nbi<T: Data>(&self, dest: Sym<T>, source: Sym<T>, pe: u32) -> Result<(), Error> {
        let steps = Steps { dest: 1, source: 1, count: source.len() };
        self.get_steps(dest, source, steps, pe, Keeper::Quiet)
    }

    /// Writes one value to the first element of `dest` of PE `pe`. Returns at once.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn p<T: Number>(&self, dest: Sym<T>, value: T, pe: u32) -> Result<(), Error> {
        let (to, values) = (Side::new(dest, 1, 1)?, self.values()?);
        let operation = Operation { keeper: Keeper::Quiet, callbacks: 1, into: None };
        let region = self.heap_of(pe)?;
        self.begin(operation, |active, start| {
            let at = start.at * size_of::<u64>();
            values.write(at, value.as_bytes()).map_err(|_| SendError::Range)?;
            let put = Put {
                target: endpoint::<N>(active, pe),
                region,
                offset: to.start,
                layout: Layout::Contiguous,
                payload: Payload::Shared(values.clone(), at..at + size_of::<T>()),
                payload_layout: Layout::Contiguous,
                local_done: None,
                remote_done: Some(self.inner.completions.done(start.cookie)),
            };
            start.factories.put.execute_in(start.object, active, put).map_err(|(error, _)| error)
        })?;
        Ok(())
    }

    /// The first element of `source` of PE `pe`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn g<T: Number>(&self, source: Sym<T>, pe: u32) -> Result<T, Error> {
        let (from, values, operations) = (Side::new(source, 1, 1)?, self.values()?, self.operations()?);
        let operation = Operation { keeper: Keeper::Call, callbacks: 1, into: None };
        let at = self.begin(operation, |active, start| {
            self.start_get(active, start, (from, pe), |at| (values, at as u32, Layout::Contiguous))
        })?;
        self.advance_until(|_| operations.is_called(at))?;
        let mut value = T::new_zeroed();
        // The place is this call's until it leaves it.
        let _ = values.read(at * size_of::<u64>(), value.as_mut_bytes());
        operations.leave(at)?;
        Ok(value)
    }

    /// As [`put`](Self::put), and then sets or adds to the word `signal` of PE `pe`: whoever sees that there finds the data.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_signal<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        signal: Sym<u64>,
        how: Signal,
        pe: u32,
    ) -> Result<(), Error> {
        self.put(dest, source, pe)?;
        self.signal(signal, how, pe)
    }

    /// As [`put_signal`](Self::put_signal), without waiting: `source` may change after [`quiet`](Self::quiet).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_signal_nbi<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        signal: Sym<u64>,
        how: Signal,
        pe: u32,
    ) -> Result<(), Error> {
        self.put_nbi(dest, source, pe)?;
        self.signal(signal, how, pe)
    }

    fn signal(&self, signal: Sym<u64>, how: Signal, pe: u32) -> Result<(), Error> {
        let update = match how {
            Signal::Set(word) => Update::Swap(word),
            Signal::Add(word) => Update::Add(word),
        };
        let op = RmwOp { width: Width::Eight, update };
        self.update(signal, op, pe, Operation { keeper: Keeper::Quiet, callbacks: 1, into: None }).map(drop)
    }

    fn put_steps<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        steps: Steps,
        pe: u32,
        keeper: Keeper,
    ) -> Result<(), Error> {
        let region = self.heap_of(pe)?;
        if steps.count == 0 || size_of::<T>() == 0 {
            return Ok(());
        }
        let (to, from) =
            (Side::new(dest, steps.dest, steps.count)?, Side::new(source, steps.source, steps.count)?);
        let (memory, waits) = (self.memory()?, keeper == Keeper::Call);
        let range = from.start as usize..(from.start + from.extent) as usize;
        let begin = |active: &mut Active<N::Port>, start: Start<N>| {
            let done = self.inner.completions.done(start.cookie);
            let put = Put {
                target: endpoint::<N>(active, pe),
                region,
                offset: to.start,
                layout: to.layout,
                payload: Payload::Shared(memory.clone(), range.clone()),
                payload_layout: from.layout,
                // The first that is called says that the data may change.
                local_done: waits.then_some(done),
                remote_done: Some(done),
            };
            start.factories.put.execute_in(start.object, active, put).map_err(|(error, _)| error)
        };
        if waits {
            self.complete((keeper, 2), begin)?;
        } else {
            self.begin(Operation { keeper, callbacks: 1, into: None }, begin)?;
        }
        Ok(())
    }

    fn get_steps<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        steps: Steps,
        pe: u32,
        keeper: Keeper,
    ) -> Result<(), Error> {
        self.heap_of(pe)?;
        if steps.count == 0 || size_of::<T>() == 0 {
            return Ok(());
        }
        let (to, from) =
            (Side::new(dest, steps.dest, steps.count)?, Side::new(source, steps.source, steps.count)?);
        let memory = self.memory()?;
        let begin = |active: &mut Active<N::Port>, start: Start<N>| {
            self.start_get(active, start, (from, pe), |_| (memory, to.start, to.layout))
        };
        if keeper == Keeper::Call {
            self.complete((keeper, 1), begin)?;
        } else {
            self.begin(Operation { keeper, callbacks: 1, into: None }, begin)?;
        }
        Ok(())
    }

    /// `into` says, of the place's word, where the data goes.
    fn start_get<'m>(
        &self,
        active: &mut Active<N::Port>,
        start: Start<N>,
        (from, pe): (Side, u32),
        into: impl FnOnce(usize) -> (&'m Shared, u32, Layout),
    ) -> Result<(), SendError> {
        let (into, at, into_layout) = into(start.at * size_of::<u64>());
        // The PE was seen to be there.
        let region = self.heap_of(pe).map_err(|_| SendError::Unreachable)?;
        let get = Get {
            target: endpoint::<N>(active, pe),
            region,
            offset: from.start,
            layout: from.layout,
            into: into.clone(),
            at,
            into_layout,
            len: from.layout.bytes_within(from.extent).ok_or(SendError::Layout)?,
            done: Some(self.inner.completions.done(start.cookie)),
        };
        start.factories.get.execute_in(start.object, active, get)
    }
}
