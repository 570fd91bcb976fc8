//! Puts and gets, blocking and not, and puts that signal (SPEC P-7).
//!
//! Both sides lie in the symmetric heap: the network reads and writes no other memory of this library's, and a put takes the
//! data from where it is.

use crate::error::{Error, Result};
use crate::library::{Shmem, Start, endpoint};
use crate::operations::{Keeper, PendingOperation};
use crate::symmetric::{Data, Number, Sym};
use pami::{Active, Get, Layout, Node, Payload, Put, SendError, Shared, Update};

/// What a signal does to its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It becomes this (`SHMEM_SIGNAL_SET`).
    Set(u64),
    /// This is added to it, wrapping (`SHMEM_SIGNAL_ADD`).
    Add(u64),
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
    fn new<T: Data>(object: Sym<T>, step: usize, count: usize) -> Result<Self> {
        let part = object.first((count - 1).saturating_mul(step).saturating_add(1))?;
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

/// Both sides of a transfer, if there is anything to move: every `to`th element of `dest` and every `from`th of `source`.
fn sides<T: Data>(dest: Sym<T>, source: Sym<T>, steps: [usize; 3]) -> Result<Option<(Side, Side)>> {
    let [to, from, count] = steps;
    if count == 0 || size_of::<T>() == 0 {
        return Ok(None);
    }
    Ok(Some((Side::new(dest, to, count)?, Side::new(source, from, count)?)))
}

/// A line is a form of puts, and of gets: what they take, which elements that names, who waits for the end, and what they do.
macro_rules! transfers {
    ($($put:ident, $get:ident($dest:ident, $source:ident $(, $step:ident)*) $steps:expr, $keeper:ident, $what:literal;)*) => {$(
        #[doc = concat!("Copies ", $what, "; `source` is this PE's, `dest` is PE `pe`'s.")]
        pub fn $put<T: Data>(&self, $dest: Sym<T>, $source: Sym<T>, $($step: usize,)* pe: u32) -> Result {
            self.heap_of(pe)?;
            let Some((to, from)) = sides($dest, $source, $steps)? else { return Ok(()) };
            let (memory, waits) = (self.memory()?, Keeper::$keeper == Keeper::Call);
            let operation = PendingOperation { callbacks: 1 + u8::from(waits), ..PendingOperation::of(Keeper::$keeper) };
            self.start_put((to, pe), operation, |_| Ok((memory, from)))
        }

        #[doc = concat!("Copies ", $what, "; `source` is PE `pe`'s, `dest` is this PE's.")]
        pub fn $get<T: Data>(&self, $dest: Sym<T>, $source: Sym<T>, $($step: usize,)* pe: u32) -> Result {
            self.heap_of(pe)?;
            let Some((to, from)) = sides($dest, $source, $steps)? else { return Ok(()) };
            let memory = self.memory()?;
            let at = self.start_get((from, pe), Keeper::$keeper, |_| (memory, to))?;
            self.end(at, Keeper::$keeper).map(drop)
        }
    )*};
}

/// A put that waits returns when `source` may change, a get when the data is there; for those that do not wait,
/// [`quiet`](Self::quiet) says so.
impl<N: Node> Shmem<N> {
    transfers! {
        put, get(dest, source) [1, 1, source.len()], Call, "all of `source` to `dest`, and waits";
        put_nbi, get_nbi(dest, source) [1, 1, source.len()], Quiet, "all of `source` to `dest`, without waiting";
        iput, iget(dest, source, to, from, count) [to, from, count], Call,
            "`count` elements, every `from`th of `source` to every `to`th of `dest` ([`Error::Stride`] of 0), and waits";
    }

    /// Writes one value to the first element of `dest` of PE `pe`. Returns at once.
    pub fn p<T: Number>(&self, dest: Sym<T>, value: T, pe: u32) -> Result {
        let (to, values) = (Side::new(dest, 1, 1)?, &self.inner.values);
        self.start_put((to, pe), PendingOperation::of(Keeper::Quiet), |start| {
            let word = start.cookie * size_of::<u64>();
            values.write(word, value.as_bytes()).map_err(|_| SendError::Range)?;
            Ok((values, Side { start: word as u32, ..to }))
        })
    }

    /// The first element of `source` of PE `pe`.
    pub fn g<T: Number>(&self, source: Sym<T>, pe: u32) -> Result<T> {
        let (from, values, operations) = (Side::new(source, 1, 1)?, &self.inner.values, self.operations()?);
        let (mut value, mut word) = (T::new_zeroed(), 0);
        let at = self.start_get((from, pe), Keeper::Call, |start| {
            word = start.cookie * size_of::<u64>();
            (values, Side { start: word as u32, ..from })
        })?;
        self.advance_until(|_| operations.is_called(at))?;
        // The word is this call's until it leaves its place.
        let _ = values.read(word, value.as_mut_bytes());
        operations.leave(at)?;
        Ok(value)
    }

    /// As [`put`](Self::put), and then sets or adds to the word `signal` of PE `pe`: whoever sees that there finds the data.
    pub fn put_signal<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        signal: Sym<u64>,
        how: Signal,
        pe: u32,
    ) -> Result {
        self.put(dest, source, pe)?;
        self.signal(signal, how, pe)
    }

    /// As [`put_signal`](Self::put_signal), without waiting: `source` may change after [`quiet`](Self::quiet).
    pub fn put_signal_nbi<T: Data>(
        &self,
        dest: Sym<T>,
        source: Sym<T>,
        signal: Sym<u64>,
        how: Signal,
        pe: u32,
    ) -> Result {
        self.put_nbi(dest, source, pe)?;
        self.signal(signal, how, pe)
    }

    fn signal(&self, signal: Sym<u64>, how: Signal, pe: u32) -> Result {
        let update = match how {
            Signal::Set(word) => Update::Swap(word),
            Signal::Add(word) => Update::Add(word),
        };
        self.update(signal, update, pe, PendingOperation::of(Keeper::Quiet)).map(drop)
    }

    /// `from` says where the data is.
    fn start_put<'m>(
        &self,
        (to, pe): (Side, u32),
        operation: PendingOperation,
        from: impl Fn(&Start<N>) -> Result<(&'m Shared, Side)>,
    ) -> Result {
        let region = self.heap_of(pe)?;
        let put = |active: &mut Active<N::Port>, start: Start<N>| {
            let ((memory, from), done) = (from(&start)?, self.inner.completions.done(start.cookie));
            let range = from.start as usize..(from.start + from.extent) as usize;
            let put = Put {
                target: endpoint::<N>(active, pe),
                region,
                offset: to.start,
                layout: to.layout,
                payload: Payload::Shared(memory.clone(), range),
                payload_layout: from.layout,
                // The first that is called says that the data may change.
                local_done: (operation.callbacks > 1).then_some(done),
                remote_done: Some(done),
            };
            Ok(start.factories.put.execute_in(start.object, active, put).map_err(|(error, _)| error)?)
        };
        let at = self.begin(operation, put)?;
        self.end(at, operation.keeper).map(drop)
    }

    /// `into` says where the data goes. Returns the operation's place.
    fn start_get<'m>(
        &self,
        (from, pe): (Side, u32),
        keeper: Keeper,
        mut into: impl FnMut(&Start<N>) -> (&'m Shared, Side),
    ) -> Result<usize> {
        let region = self.heap_of(pe)?;
        self.begin(PendingOperation::of(keeper), |active, start| {
            let (memory, to) = into(&start);
            let get = Get {
                target: endpoint::<N>(active, pe),
                region,
                offset: from.start,
                layout: from.layout,
                into: memory.clone(),
                at: to.start,
                into_layout: to.layout,
                len: from.layout.bytes_within(from.extent).ok_or(SendError::Layout)?,
                done: Some(self.inner.completions.done(start.cookie)),
            };
            Ok(start.factories.get.execute_in(start.object, active, get)?)
        })
    }
}
