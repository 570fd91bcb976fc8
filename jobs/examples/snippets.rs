//! The short programs of the READMEs: sums over all tasks by PAMI and by MPI, messages by MPI; compared.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use kernel::{Active, Collect, Completion, Done, JobError, Limits, Shared, Task, WORLD};
use mpi::{Data, IN_PLACE, Mpi, Op};
use pami::collective::{Blocks, Collective, Element, Operator, Reducer};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (own, tasks) = (u64::from(task.number()) + 1, u64::from(task.tasks()));
    let expected = tasks * (tasks + 1) / 2;
    for sum in [over_pami(task, own)?, over_mpi(task, own)?] {
        if sum != expected {
            return Err(JobError::Other("the sum is wrong"));
        }
    }
    let before = (task.number() + task.tasks() - 1) % task.tasks();
    if from_before(task)? != 2.0 * f64::from(before) {
        return Err(JobError::Other("the message is not the one before's"));
    }
    if task.number() == 0 {
        defmt::println!("the sum of all numbers is {=u64}, over PAMI and over MPI", expected);
    }
    Ok(())
}

fn over_pami(task: &'static Task, own: u64) -> Result<u64, JobError> {
    let mut client = task.client("sum").collectives(Limits::default()).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    let over: &AtomicBool = task.memory().place(AtomicBool::new(false))?;
    let call = task.memory().place(move |_: &mut Active, _: Completion| over.store(true, Relaxed))?;
    let [vector, scratch]: [Shared; 2] =
        [task.memory().buffer(8)?.share(), task.memory().buffer(64)?.share()];
    vector.write(0, &own.to_le_bytes())?;
    context.collect(Collect {
        output: Some((vector.clone(), 0)),
        in_place: true,
        scratch: Some((scratch, 0)),
        blocks: Blocks::equal(1),
        reducer: Some(Reducer::new(Operator::Sum, Element::U64)?),
        ..Collect::new(WORLD, Collective::Allreduce, Done { call, cookie: 0 })
    })?;
    context.wait(|_| over.load(Relaxed));
    Ok(vector.words(0, 1)?[0].load(Relaxed))
}

fn over_mpi(task: &'static Task, own: u64) -> Result<u64, JobError> {
    let mpi = Mpi::init(task)?;
    let memory: Shared = task.memory().buffer(8)?.share();
    let (data, mut sum) = (Data::all::<u64>(&memory), [own]);
    data.write(&sum)?;
    mpi.world().allreduce(IN_PLACE, &data, Op::Sum)?;
    data.read(&mut sum)?;
    mpi.finalize()?;
    Ok(sum[0])
}

fn from_before(task: &'static Task) -> Result<f64, JobError> {
    let mpi = Mpi::init(task)?;
    let world = mpi.world();
    let memory: Shared = task.memory().buffer(16)?.share();
    let (own, other) = (Data::of::<f64>(&memory, 0, 1)?, Data::of::<f64>(&memory, 8, 1)?);
    own.write(&[2.0 * f64::from(world.rank())])?;
    let (next, before) =
        ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    world.sendrecv(&own, next as i32, 42, &other, before as i32, 42)?;
    let mut value = [0.0];
    other.read(&mut value)?;
    mpi.finalize()?;
    Ok(value[0])
}
