//! The same over MPI: the application makes one call, and the library divides it among its contexts if that pays (SPEC G-8).
//!
//! Every result is compared, bit for bit, with that of an instance with one context. Of each collective, long and short, the job
//! prints the bytes of data of all contexts of the root and of the busiest, and how many contexts carried any. The root's other
//! harts wait in calls of their own meanwhile, and so advance contexts too.

use super::arguments::Arguments;
use core::fmt::Write;
use heapless::String;
use kernel::{JobError, Shared, Task};
use mpi::{Communicator, Data, Error, Mpi, Op, Settings, Threads, UNDEFINED};
use pami::collective::Collective;

/// Bytes for each task that are not worth to be divided.
const SHORT: usize = 64;
const WORD: usize = size_of::<u64>();
const ROOT: u32 = 0;
/// Bytes that are compared at a time.
const PIECE: usize = 512;

fn settings(name: &'static str, contexts: u8) -> Settings {
    Settings {
        name,
        contexts,
        requests: 64,
        communicators: 8,
        collective_requests: 8,
        types: 8,
        type_runs: 8,
        groups: 16,
        ..Settings::default()
    }
}

/// A task's memory: what it has, what it gets, and what it is to get.
struct Areas {
    input: Shared,
    output: Shared,
    expected: Shared,
}

impl Areas {
    fn new(task: &'static Task, tasks: usize, bytes: usize) -> Result<Self, JobError> {
        let memory = task.memory();
        let mut input = memory.buffer(tasks * bytes)?;
        for (at, byte) in input.as_mut_slice().iter_mut().enumerate() {
            *byte = (at.wrapping_mul(31) ^ (at >> 8) ^ (task.number() as usize).wrapping_mul(101)) as u8;
        }
        let room = || memory.buffer(tasks * bytes).map(|buffer| buffer.share());
        Ok(Self { input: input.share(), output: room()?, expected: room()? })
    }

    /// Whether both results are the same; then they are spoilt for the next.
    fn agree(&self) -> bool {
        let pieces =
            || (0..self.output.len()).step_by(PIECE).map(|at| (at, PIECE.min(self.output.len() - at)));
        let good = pieces().all(|(at, len)| {
            let (mut got, mut wanted) = ([0; PIECE], [0; PIECE]);
            let read = self.output.read(at, &mut got[..len]).and(self.expected.read(at, &mut wanted[..len]));
            read.is_ok() && got == wanted
        });
        for (at, len) in pieces() {
            for memory in [&self.output, &self.expected] {
                // Inside the memory.
                let _ = memory.write(at, &[0xee; PIECE][..len]);
            }
        }
        good
    }
}

/// One call, of so many words for each task.
fn call(
    comm: &Communicator<Task>,
    what: Collective,
    input: &Shared,
    output: &Shared,
    words: usize,
) -> Result<(), Error> {
    let [own, into] = [input, output].map(|memory| Data::of::<u64>(memory, 0, words));
    let (own, into, at_root) = (own?, into?, comm.rank() == ROOT);
    match what {
        Collective::Broadcast => comm.bcast(if at_root { &own } else { &into }, ROOT),
        Collective::Scatter => comm.scatter(at_root.then_some(&own), &into, ROOT),
        Collective::Gather => comm.gather(&own, at_root.then_some(&into), ROOT),
        Collective::Allgather => comm.allgather(&own, &into),
        Collective::Reduce => comm.reduce(&own, at_root.then_some(&into), Op::Sum, ROOT),
        _ => comm.allreduce(&own, &into, Op::Sum),
    }
}

/// The root and its neighbours, in the order of tasks; `None` for another task.
fn team(mpi: Mpi<Task>, neighbours: &[u32]) -> Result<Option<Communicator<Task>>, JobError> {
    let task = mpi.node().number();
    let is_in = task == 0 || neighbours.contains(&task);
    Ok(mpi.world().split(if is_in { 0 } else { UNDEFINED }, 0)?)
}

pub fn run(task: &'static Task, arguments: &Arguments, neighbours: &[u32]) -> Result<(), JobError> {
    // Whole words, and one at least.
    let bytes = (arguments.bytes & !(WORD - 1)).max(WORD);
    let areas = Areas::new(task, neighbours.len() + 1, bytes.max(SHORT))?;
    let alone = Mpi::init_thread(task, settings("alone", 1), Threads::Single)?;
    let by_one = team(alone, neighbours)?;
    if task.number() == 0 {
        defmt::println!("root with {=usize} links, over MPI", neighbours.len());
        defmt::println!("collective  endpoints     each    bytes  busiest endpoint  at work        us");
    }
    for &endpoints in &arguments.endpoints {
        let mpi = Mpi::init_thread(task, settings("endpoints", endpoints), Threads::Multiple)?;
        if let (Some(comm), Some(by_one)) = (team(mpi, neighbours)?, &by_one) {
            let harts = if task.number() == 0 { task.harts().min(endpoints.into()) } else { 1 };
            let nothing = task.memory().buffer(WORD)?.share();
            let nothing: &'static Shared = task.memory().place(nothing)?;
            for hart in 1..harts {
                let wait = task.memory().place(move |_: &'static Task| {
                    // It is sent by the first hart, whatever becomes of the rest.
                    let _ =
                        Data::of::<u8>(nothing, 0, 0).map(|data| mpi.itself().recv(&data, 0, hart as i32));
                })?;
                task.spawn(hart, wait)?;
            }
            let outcome = arguments.collectives.iter().try_for_each(|&what| {
                [bytes, SHORT].into_iter().try_for_each(|each| measure((&comm, by_one), what, each, &areas))
            });
            for hart in 1..harts {
                mpi.itself().send(&Data::of::<u8>(nothing, 0, 0)?, 0, hart as i32)?;
                task.join(hart);
            }
            outcome?;
            comm.free()?;
        }
        mpi.finalize()?;
    }
    if let Some(by_one) = by_one {
        by_one.free()?;
    }
    Ok(alone.finalize()?)
}

/// Bytes of collectives' data that each context has sent and taken.
fn bytes_of(mpi: Mpi<Task>) -> [u64; 8] {
    core::array::from_fn(|context| mpi.collective_bytes(context as u8).unwrap_or_default().iter().sum())
}

fn measure(
    (comm, by_one): (&Communicator<Task>, &Communicator<Task>),
    what: Collective,
    each: usize,
    areas: &Areas,
) -> Result<(), JobError> {
    let (mpi, task) = (comm.library(), comm.library().node());
    call(by_one, what, &areas.input, &areas.expected, each / WORD)?;
    comm.barrier()?;
    let (before, start) = (bytes_of(mpi), task.now_ns());
    call(comm, what, &areas.input, &areas.output, each / WORD)?;
    let (elapsed, after) = (task.now_ns() - start, bytes_of(mpi));
    if !areas.agree() {
        return Err(JobError::Other("a result is not what one endpoint makes it"));
    }
    comm.barrier()?;
    if task.number() == 0 {
        let bytes = || after.iter().zip(before).map(|(after, before)| after - before);
        let (all, busiest) = (bytes().sum::<u64>(), bytes().max().unwrap_or(0));
        let (at_work, endpoints) = (bytes().filter(|&bytes| bytes > 0).count(), mpi.settings().contexts);
        let mut line = String::<120>::new();
        let _ = write!(line, "{what:<11} {endpoints:>9} {each:>8} {all:>8}");
        let _ = write!(line, " {busiest:>17} {at_work:>8} {:>9}", elapsed / 1000);
        defmt::println!("{=str}", line.as_str());
    }
    Ok(())
}
