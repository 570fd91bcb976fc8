//! Messages of collectives that cross the boundaries of cores, chips, processors and nodes, with and without affinity.
//!
//! Every collective is done by algorithms that know nothing of places, and by the one that stays within affinity
//! domains. For each level the job prints the messages from one domain to another, as the engine counted them, over
//! the least that connects all domains: their number less one, for each phase (SPEC A-6; collectives without a root
//! have two, up and down). It fails if the affinity algorithm sends one more, if another
//! crosses some level's boundaries less often, if all together it crosses no fewer, or if a result is wrong.
//!
//! Ranks are the tasks (`--mode vn`), or the contexts of each task, one for each of its threads. Arguments:
//!
//! | argument | meaning |
//! |---|---|
//! | `--radix C,H,P,N,M` | most children of a member within core, chip, processor, node and machine |
//! | `--path` | one thread drives the contexts of the only task, and counts the instructions on the critical path |
//!
//! As in `cargo xtask qemu affinity --topology 2x2x2 --mode vn`. Counts of instructions are exact under `-icount` only.
#![no_std]
#![no_main]

mod case;
mod count;
mod path;
mod rank;

use case::{CASES, Case, Comparison};
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use heapless::String;
use kernel::{Context, JobError, Task};
use pami::affinity::{Crossings, Domains, LEVELS, Level, RADIX};
use rank::Rank;
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

/// Most children at each level.
pub type Radix = [u32; LEVELS.len()];

fn main(task: &'static Task) -> Result<(), JobError> {
    let (radix, path) = arguments(task)?;
    // A task that has its node to itself has a context for each thread.
    let contexts = if task.map().tasks_per_node() == 1 { task.harts() as u8 } else { 1 };
    if contexts > task.contexts() {
        return Err(JobError::Other("a task needs a context for each hart: say --contexts 8"));
    }
    let limits = kernel::Limits { geometries: 2, in_flight: 4, ..kernel::Limits::default() };
    let mut client = task.client("affinity").contexts(contexts).collectives(limits).create()?;
    if path {
        if task.tasks() > 1 {
            return Err(JobError::Argument("--path", "wants one task: --torus 1 --mode smp"));
        }
        let ranks: &mut [Option<Rank>] = task.memory().fill(contexts.into(), || None)?;
        for (offset, place) in (0..).zip(ranks.iter_mut()) {
            *place = Some(Rank::new(task, kernel::context(&mut client, offset)?, contexts, radix)?);
        }
        return path::table(task, ranks);
    }
    let failed: &AtomicU32 = task.memory().place(AtomicU32::new(0))?;
    for hart in 1..contexts {
        let context: &Mutex<Option<Context>> =
            task.memory().place(Mutex::new(Some(kernel::context(&mut client, hart)?)))?;
        let thread = task.memory().place(move |task: &'static Task| {
            let Some(context) = context.lock().take() else { return };
            if let Err(error) = alongside(task, context, contexts, radix) {
                defmt::error!("hart {=u8}: {}", hart, defmt::Display2Format(&error));
                failed.fetch_add(1, Relaxed);
            }
        })?;
        task.spawn(hart.into(), thread)?;
    }
    let result = alongside(task, kernel::context(&mut client, 0)?, contexts, radix);
    for hart in 1..contexts {
        task.join(hart.into());
    }
    match failed.load(Relaxed) {
        0 => result,
        _ => Err(JobError::Other("a thread failed")),
    }
}

fn arguments(task: &Task) -> Result<(Radix, bool), JobError> {
    let arguments = task.arguments();
    let radix = match arguments.list::<u32, { LEVELS.len() }>("--radix")? {
        None => RADIX,
        Some(list) => list
            .into_array()
            .map_err(|_| JobError::Argument("--radix", "wants five numbers from 1 on, as in 2,2,2,2,2"))?,
    };
    Ok((radix, arguments.has("--path")))
}

/// One rank's part of the table, each rank on a hart of its own.
fn alongside(task: &'static Task, context: Context, contexts: u8, radix: Radix) -> Result<(), JobError> {
    let mut rank = Rank::new(task, context, contexts, radix)?;
    rank.wait()?;
    rank.look()?;
    if rank.number == 0 {
        head(&rank);
    }
    let mut comparison = Comparison::default();
    for case in &CASES {
        if !rank.is_valid(case) {
            continue;
        }
        if rank.is_before_gate() {
            rank.start(&CASES[0])?;
            rank.wait()?;
        }
        let before = rank.crossings();
        rank.start(case)?;
        rank.wait()?;
        let own = rank.crossings().since(&before);
        rank.check(case)?;
        let all = rank.over_all(LEVELS.map(|level| own.met(level)))?;
        let mut crossings = Crossings::default();
        for (level, met) in LEVELS.into_iter().zip(all) {
            (0..met).for_each(|_| crossings.count(level));
        }
        comparison.add(case, &rank.domains, &crossings);
        if rank.number == 0 {
            row(&rank.domains, case, &crossings, None);
        }
    }
    verdict(&comparison)
}

fn verdict(comparison: &Comparison) -> Result<(), JobError> {
    match (comparison.worse, comparison.is_won()) {
        (_, true) => Ok(()),
        (true, _) => {
            Err(JobError::Other("affinity crossed a boundary more often than it must, or than others do"))
        }
        _ => Err(JobError::Other("affinity crossed no fewer boundaries than others do")),
    }
}

/// Names of the domains of the levels that have boundaries.
const NAMES: [(Level, &str); 4] = [
    (Level::Core, "cores"),
    (Level::Chip, "chips"),
    (Level::Processor, "processors"),
    (Level::Node, "nodes"),
];

fn head(rank: &Rank) {
    let mut line = String::<120>::new();
    let _ = write!(line, "{} ranks on", rank.size);
    for (level, name) in NAMES {
        let _ = write!(line, " {} {name}", rank.domains.count(level));
    }
    defmt::println!("{=str}; messages between them, over the least there can be:", line.as_str());
}

fn row(domains: &Domains, case: &Case, crossings: &Crossings, path: Option<u64>) {
    let mut line = String::<160>::new();
    let _ = write!(line, "{} by {}:", case.what, case.algorithm);
    for (level, name) in NAMES {
        let _ = write!(line, " {name} {}/{}", crossings.across(level), case.least(domains, level));
    }
    if let Some(instructions) = path {
        let _ = write!(line, " path {instructions} instructions");
    }
    defmt::println!("{=str}", line.as_str());
}
