//! Tasks of a node meet in a segment: each counts itself and leaves its number, then reads those of the others.
//!
//! What is in a segment is seen by all tasks of the node that ask for its name, and by nobody else.
#![no_std]
#![no_main]

use kernel::{JobError, SegmentError, Task, Update, Width};

kernel::entry!(main, jobs::USAGE);

const WORD: usize = size_of::<u64>();

fn main(task: &'static Task) -> Result<(), JobError> {
    let (local, others) = (task.local() as usize, task.map().tasks_per_node() as usize);
    let board = task.segment("board", (1 + others) * WORD)?;
    board.write((1 + local) * WORD, &u64::from(task.number()).to_le_bytes()).map_err(|_| MISPLACED)?;
    let update = |update| board.update(0, Width::Eight, update).map_err(|_| MISPLACED);
    update(Update::Add(1))?;
    while update(Update::Add(0))? < others as u64 {
        kernel::relax();
    }
    let mut sum = 0;
    for place in 1..=others {
        let mut number = [0; WORD];
        board.read(place * WORD, &mut number).map_err(|_| MISPLACED)?;
        sum += u64::from_le_bytes(number);
    }
    let mine = task.segment(if local == 0 { "first" } else { "others" }, WORD)?;
    let before = mine.update(0, Width::Eight, Update::Add(1)).map_err(|_| MISPLACED)?;
    if local == 0 && before != 0 {
        return Err(JobError::Other("another task was in a segment that only this one asked for"));
    }
    if !matches!(task.segment("board", WORD), Err(SegmentError::Length { .. })) {
        return Err(JobError::Other("a segment has two lengths"));
    }
    defmt::println!(
        "task {=u32} met {=usize} tasks whose numbers add up to {=u64}",
        task.number(),
        others,
        sum
    );
    Ok(())
}

const MISPLACED: JobError = JobError::Other("a word of the segment is not where it should be");
