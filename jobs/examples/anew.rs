//! Clients one after the other in one place: what a task says as the next is never heard by the one before.
//!
//! SPEC P-1.
//!
//! In each round each task sends a word to the next task and waits for that of the task before. Half of the tasks then make
//! the next round's client at once, and the others stay in this one for a while, with ears open. Then MPI begins and ends
//! several times, with a sum over all.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Receive, Shared, Task};
use mpi::{Data, IN_PLACE, Mpi, Op};

kernel::entry!(main, jobs::USAGE);

const WORD: u8 = 0;
const ROUNDS: u32 = 20;
/// Times that MPI begins: each takes memory of the task's for good.
const LIBRARIES: u64 = 3;
/// How long who stays behind does.
const STAY_NS: u64 = 5_000_000;

fn main(task: &'static Task) -> Result<(), JobError> {
    let (own, tasks) = (task.number(), task.tasks());
    let heard: &AtomicU32 = task.memory().place(AtomicU32::new(0))?;
    let round: &AtomicU32 = task.memory().place(AtomicU32::new(0))?;
    let strange: &AtomicU32 = task.memory().place(AtomicU32::new(0))?;
    let hear = &*task.memory().place(move |_: &mut Active, message: &Message| {
        let now = round.load(Relaxed);
        let right = message.header == now.to_le_bytes() && message.origin.task() == (own + tasks - 1) % tasks;
        if right { heard } else { strange }.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let mut memory = None;
    for now in 0..ROUNDS {
        round.store(now, Relaxed);
        heard.store(0, Relaxed);
        let mut client = task.client("anew").dispatch(WORD, hear).create()?;
        let room = memory.take().map_or_else(|| client.context_memory(), Ok)?;
        let mut context = client.create_context(0, room)?;
        let next = client.endpoint((own + 1) % tasks, 0)?;
        context.retry(|active| active.send_immediate(next, WORD, &now.to_le_bytes(), &[]))?;
        context.wait(|_| heard.load(Relaxed) > 0);
        if own % 2 == now % 2 {
            context.wait_for(STAY_NS, |_| false);
        }
        memory = Some(client.destroy_context(context).map_err(|(error, _)| error)?);
        client.destroy().map_err(|(error, _)| error)?;
    }
    let strange = strange.load(Relaxed);
    defmt::println!("task {=u32} heard {=u32} words, {=u32} of another client", own, ROUNDS, strange);
    if strange > 0 {
        return Err(JobError::Other("a client heard what was for another"));
    }
    let memory: Shared = task.memory().buffer(8)?.share();
    let data = Data::all::<u64>(&memory);
    for now in 0..LIBRARIES {
        let mpi = Mpi::init(task)?;
        let mut sum = [now];
        data.write(&sum)?;
        mpi.world().allreduce(IN_PLACE, &data, Op::Sum)?;
        data.read(&mut sum)?;
        mpi.finalize()?;
        if sum[0] != now * u64::from(tasks) {
            return Err(JobError::Other("a sum is not that of its round"));
        }
    }
    Ok(())
}
