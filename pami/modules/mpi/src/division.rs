//! A collective that all contexts of a task carry out together, a slice of the data each (SPEC G-4, G-8).
//!
//! Each slice is a collective of its own, in the context's own geometry of the communicator: the one at home, or one
//! [beside](BESIDE) it. There is one such collective at a time in a task. Processes agree before it on whether all of them have
//! the place for it ([`Token`]); nobody waits for that. Its slices are posted to the contexts, so whatever thread advances one
//! begins its slice; the last to end has the home complete the call.

use crate::envelope::INTERNAL;
use crate::settings::CONTEXTS;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use heapless::Vec;
use pami::collective::selection::share;
use pami::collective::{Blocks, Partition};
use pami::device::Port;
use pami::{Active, Collect, Done, GeometryId, OperationError, Poster, Progress, Shared, Work, WorkSlot};
use spin::{Mutex, Once};

/// In the numbers of geometries in a communicator's other contexts than its home.
pub(crate) const BESIDE: u32 = INTERNAL;
/// Slices begin at multiples of so many elements.
const GRAIN: usize = 64;

/// The task's place for one divided collective.
#[derive(Default)]
pub(crate) struct Token(AtomicBool);

impl Token {
    /// Takes it, if it is free.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    pub(crate) fn release(&self) {
        self.0.store(false, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a post runs.
type Run<P> = &'static (dyn Fn(&mut Active<P>, usize) -> Progress + Sync);

/// Where slices go.
struct Means<P: Port> {
    /// Of the contexts, in their order.
    posters: Vec<Poster<P>, CONTEXTS>,
    begin: Run<P>,
    finish: Run<P>,
}

/// The collective that is under way.
struct UnderWay<P: Port> {
    whole: Collect<P>,
    home: usize,
    /// Slices, and those that are not over.
    slices: usize,
    left: usize,
    result: Result<(), OperationError>,
}

/// The divided collective of a task.
pub(crate) struct Division<P: Port> {
    pub(crate) token: Token,
    /// Threads that wait.
    pub(crate) waiting: AtomicU32,
    /// Communicators that may still be divided.
    left: Mutex<u16>,
    means: Once<Means<P>>,
    under_way: Mutex<Option<UnderWay<P>>>,
    begins: [WorkSlot<P>; CONTEXTS],
    /// A home's is in use until its run returns, and the next one may have another home.
    ends: [WorkSlot<P>; CONTEXTS],
}

impl<P: Port> Division<P> {
    /// For so many communicators.
    pub(crate) fn new(communicators: u16) -> Self {
        let slots = || core::array::from_fn(|_| WorkSlot::new());
        Self {
            token: Token::default(),
            waiting: AtomicU32::new(0),
            left: Mutex::new(communicators),
            means: Once::new(),
            under_way: Mutex::new(None),
            begins: slots(),
            ends: slots(),
        }
    }

    /// Takes a place of those for communicators whose collectives may be divided, if one is left.
    pub(crate) fn take_place(&self) -> bool {
        let mut left = self.left.lock();
        let taken = *left > 0;
        *left -= u16::from(taken);
        taken
    }

    pub(crate) fn give_place(&self) {
        *self.left.lock() += 1;
    }

    /// Says where the contexts are, what begins the slice with the number that it is handed, and what finishes it all at home.
    pub(crate) fn open(&self, posters: Vec<Poster<P>, CONTEXTS>, begin: Run<P>, finish: Run<P>) {
        self.means.call_once(|| Means { posters, begin, finish });
    }

    /// How many slices there are.
    pub(crate) fn slices(&self) -> usize {
        self.means.get().map_or(1, |means| means.posters.len())
    }

    /// Has all contexts begin their slices. Whoever calls has the token; `home` is the context that is to finish it.
    pub(crate) fn begin(&'static self, whole: Collect<P>, home: usize) {
        let Some(means) = self.means.get() else { return };
        let slices = means.posters.len();
        *self.under_way.lock() = Some(UnderWay { whole, home, slices, left: slices, result: Ok(()) });
        for ((poster, slot), cookie) in means.posters.iter().zip(&self.begins).zip(0..) {
            post(poster, slot, Work { run: means.begin, cookie });
        }
    }

    /// What the context with this number is to do.
    pub(crate) fn slice(&self, number: usize, done: Done<P>) -> Option<Collect<P>> {
        let under_way = self.under_way.lock();
        let UnderWay { whole, home, slices, .. } = under_way.as_ref()?;
        let vector = whole.what.is_of_vectors();
        let len = if vector { whole.blocks.len(0) } else { whole.blocks.longest() };
        let grains = Partition::new(len.div_ceil(GRAIN), *slices as u32).range(number as u32);
        let (start, end) = (len.min(grains.start * GRAIN), len.min(grains.end * GRAIN));
        // Parts of blocks stay where they are, and the areas begin where they did.
        let (blocks, from) = if vector {
            let element_len = whole.reducer.map_or(1, |reducer| reducer.element_len());
            (Blocks::equal(end - start), start * element_len)
        } else {
            (whole.blocks.cut(start, end - start), 0)
        };
        let scratch_limit = share(whole.scratch_limit, *slices);
        let further = |place: &Option<(Shared, usize)>, bytes: usize| {
            place.as_ref().map(|(memory, at)| (memory.clone(), at + bytes))
        };
        let beside = if number == *home { 0 } else { BESIDE };
        Some(Collect {
            geometry: GeometryId(whole.geometry.0 | beside),
            input: further(&whole.input, from),
            output: further(&whole.output, from),
            scratch: further(&whole.scratch, number * scratch_limit),
            scratch_limit,
            blocks,
            sources: blocks,
            done,
            ..*whole
        })
    }

    /// A slice is over. After the last one the home finishes the collective.
    pub(crate) fn ended(&'static self, result: Result<(), OperationError>) {
        let home = {
            let mut under_way = self.under_way.lock();
            let Some(under_way) = under_way.as_mut() else { return };
            under_way.result = under_way.result.and(result);
            under_way.left -= 1;
            if under_way.left > 0 {
                return;
            }
            under_way.home
        };
        let Some(means) = self.means.get() else { return };
        if let (Some(poster), Some(slot)) = (means.posters.get(home), self.ends.get(home)) {
            post(poster, slot, Work { run: means.finish, cookie: home });
        }
    }

    /// The collective is over: whom to tell, and how it ended.
    pub(crate) fn finish(&self) -> Option<(Done<P>, Result<(), OperationError>)> {
        let under_way = self.under_way.lock().take()?;
        Some((under_way.whole.done, under_way.result))
    }
}

/// Posts. The slot's run before has been called, and at most is about to return on another thread.
fn post<P: Port>(poster: &Poster<P>, slot: &'static WorkSlot<P>, work: Work<P>) {
    while poster.post(slot, work).is_err() {
        spin_loop();
    }
}
