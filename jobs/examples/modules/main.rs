//! Three messaging libraries in one program, MPI, ARMCI and SHMEM, with conflicting settings and traffic at the same time.
//!
//! SPEC M-4.
//!
//! ```text
//! --first mpi|armci   which of these two is initialised first; it is the one that goes on when the other is gone (mpi)
//! --polls mpi|armci   which waits by polling; the other sleeps (mpi)
//! --rounds N          rounds of traffic of each phase (4)
//! ```
#![no_std]
#![no_main]

mod arguments;
mod book;
mod messages;
mod settings;
mod slabs;
mod words;

use arguments::{Arguments, Module};
use book::Book;
use kernel::{JobError, Task};
use messages::Messages;
use slabs::Slabs;
use spin::Mutex;
use words::Words;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = Arguments::of(task)?;
    let book: &'static Book = task.memory().place(Book::new(task))?;
    let (mpi, armci) = settings::initialise(task, arguments)?;
    settings::stay_apart(book, mpi, armci, arguments.polls)?;
    let (mut messages, mut slabs) = (Messages::new(task, mpi)?, Slabs::new(task, armci)?);
    let mut words = Words::new(task)?;
    book.phase("each has its own settings");

    for round in 0..arguments.rounds {
        messages.begin(round)?;
        slabs.begin()?;
        words.begin()?;
        while !(messages.test()? && slabs.test()? && words.test()?) {}
        messages.check(book, round)?;
        slabs.finish(book)?;
        words.check(book)?;
    }
    book.phase("traffic of all three from one hart");

    if task.harts() > 1 {
        slabs = side_by_side(task, book, arguments.rounds, (&mut messages, &mut words), slabs)?;
        book.phase("traffic of ARMCI from one hart, of both others from another");
    }

    match arguments.first {
        Module::Mpi => {
            // MPI's messages are on their way while ARMCI ends.
            messages.begin(0)?;
            slabs.end()?;
            messages.wait()?;
            messages.check(book, 0)?;
            book.check(armci.progress() == 0 && armci.fence(0).is_err(), "ARMCI is gone, and says so");
            (1..=arguments.rounds).try_for_each(|round| both(book, round, &mut messages, &mut words))?;
            book.phase("MPI without ARMCI");
            messages.end()?;
        }
        Module::Armci => {
            slabs.begin()?;
            messages.end()?;
            slabs.finish(book)?;
            book.check(mpi.finalized() && mpi.world().barrier().is_err(), "MPI is gone, and says so");
            (0..arguments.rounds).try_for_each(|_| slabs.round(book).and(words.round(book)))?;
            book.phase("ARMCI without MPI");
            slabs.end()?;
        }
    }
    words.end(book)?;
    book.close()
}

/// A round of MPI and one of SHMEM.
fn both(book: &Book, round: u32, messages: &mut Messages, words: &mut Words) -> Result<(), JobError> {
    words.begin()?;
    messages.round(book, round)?;
    while !words.test()? {}
    words.check(book)
}

/// The second hart has ARMCI to itself while the first has MPI and SHMEM.
fn side_by_side(
    task: &'static Task,
    book: &'static Book,
    rounds: u32,
    (messages, words): (&mut Messages, &mut Words),
    slabs: Slabs,
) -> Result<Slabs, JobError> {
    let memory = task.memory();
    let theirs: &'static Mutex<Option<Slabs>> = memory.place(Mutex::new(Some(slabs)))?;
    let ended: &'static Mutex<Result<(), JobError>> = memory.place(Mutex::new(Ok(())))?;
    let thread = memory.place(move |_: &'static Task| {
        let Some(mut slabs) = theirs.lock().take() else { return };
        *ended.lock() = (0..rounds).try_for_each(|_| slabs.round(book));
        *theirs.lock() = Some(slabs);
    })?;
    task.spawn(1, thread)?;
    let outcome = (0..rounds).try_for_each(|round| both(book, round, messages, words));
    task.join(1);
    outcome?;
    core::mem::replace(&mut *ended.lock(), Ok(()))?;
    theirs.lock().take().ok_or(JobError::Other("the second hart kept ARMCI"))
}
