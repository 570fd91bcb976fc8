//! What endpoints of the root that work in parallel are worth: broadcast, scatter and gather with P = 1, 2, 4, 8 of them.
//!
//! The root is task 0; the others are the tasks of its neighbours, one for each of its links. Root endpoints are spread
//! over its harts; the job issues one collective, and each endpoint does its share (SPEC G-4, G-8). Results are checked.
//!
//! Of each collective the job prints the bytes of data of all endpoints of the root and of the busiest, as the engine
//! counted them: the fewer the busiest has to see to, the faster they are. What each
//! link carried, the fabric counts. Times are of the host that emulates the nodes. Arguments: `--endpoints P`, `--collective broadcast|scatter|gather`,
//! `--bytes N` for each task, `--over mpi` for six collectives of MPI, which divides them by itself, `--rows R` for a root with an
//! endpoint on the first node of each of R rows of tasks (`rows`). One task per node; give the root `--contexts 8` to see P = 8.
#![no_std]
#![no_main]

mod arguments;
mod data;
mod over_mpi;
mod rows;
mod team;

use arguments::Arguments;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use data::Data;
use heapless::{String, Vec};
use kernel::{JobError, Task};
use pami::mapping::TaskLocation;
use pami::topology::Direction;
use spin::Mutex;
use team::{Phase, Shared, Team};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = Arguments::parse(task)?;
    if task.tasks() != task.shape().nodes() {
        return Err(JobError::Other("endpoints wants one task per node: --mode smp"));
    }
    if let Some(rows) = arguments.rows {
        return rows::run(task, &arguments, rows);
    }
    let neighbours = neighbours(task);
    if neighbours.is_empty() {
        return Err(JobError::Other("the root has no neighbours: take a larger torus"));
    }
    if arguments.over_mpi {
        return over_mpi::run(task, &arguments, &neighbours);
    }
    if task.number() > 0 && !neighbours.contains(&task.number()) {
        return Ok(());
    }
    let phases = phases(&arguments);
    let data = Data::new(task, &neighbours, arguments.bytes)?;
    let most = phases.iter().map(|phase| phase.endpoints).max().unwrap_or(1);
    let mut client = Team::client(task, most)?;
    let own = if task.number() == 0 { most } else { 1 };
    let harts = task.harts().min(usize::from(own));
    // Contexts are large: they do not go through the stack together.
    let teams: &'static [Mutex<Option<Team>>] = task.memory().fill(harts, || Mutex::new(None))?;
    let mut posters = [None; 8];
    for (hart, place) in teams.iter().enumerate() {
        let offsets = (0..own).filter(|offset| usize::from(*offset) % harts == hart);
        let team = Team::new(task, &mut client, offsets, &neighbours)?;
        for (offset, poster) in team.posters() {
            posters[usize::from(offset)] = Some(poster);
        }
        *place.lock() = Some(team);
    }
    let posters: Vec<_, 8> = posters.into_iter().flatten().collect();
    let shared: &'static Shared = task.memory().place(Shared::new(task, data, &phases, &posters)?)?;
    let failed: &'static AtomicU32 = task.memory().place(AtomicU32::new(0))?;
    for (hart, team) in teams.iter().enumerate().skip(1) {
        let run = task.memory().place(move |_: &'static Task| {
            let outcome = team.lock().as_mut().map_or(Ok(()), |team| {
                shared.phases.iter().try_for_each(|phase| team.run(phase, shared).map(drop))
            });
            failed.fetch_add(u32::from(outcome.is_err()), Relaxed);
        })?;
        task.spawn(hart, run)?;
    }
    let mut first = teams[0].lock();
    let team = first.as_mut().ok_or(JobError::Other("a task has at least one hart"))?;
    let outcome = report(task, &arguments, &neighbours, team, shared);
    for hart in 1..harts {
        task.join(hart);
    }
    outcome?;
    if failed.load(Relaxed) > 0 { Err(JobError::Other("an endpoint failed")) } else { Ok(()) }
}

/// The tasks behind the links of the root.
fn neighbours(task: &Task) -> Vec<u32, 10> {
    let (shape, mut tasks) = (task.shape(), Vec::new());
    let Some(root) = task.map().place(0).and_then(|place| shape.coord(place.node)) else { return tasks };
    for link in 0..10 {
        let behind = shape.neighbour(root, Direction::from_index(link)).and_then(|coord| shape.rank(coord));
        let behind = behind.and_then(|node| task.map().task(TaskLocation { node, local: 0 }));
        if let Some(number) = behind.filter(|number| !tasks.contains(number)) {
            // As long as there are links.
            let _ = tasks.push(number);
        }
    }
    tasks.sort_unstable();
    tasks
}

fn phases(arguments: &Arguments) -> Vec<Phase, 16> {
    let mut phases = Vec::new();
    for &what in &arguments.collectives {
        for &endpoints in &arguments.endpoints {
            let _ = phases.push(Phase { what, endpoints, number: phases.len() as u32 });
        }
    }
    phases
}

fn report(
    task: &'static Task,
    arguments: &Arguments,
    neighbours: &[u32],
    team: &mut Team,
    shared: &'static Shared,
) -> Result<(), JobError> {
    let root = task.number() == 0;
    if root {
        let (links, bytes) = (neighbours.len(), arguments.bytes);
        defmt::println!(
            "root with {=usize} links; {=usize} bytes for each of {=usize} tasks",
            links,
            bytes,
            links
        );
        defmt::println!("collective  endpoints    bytes  busiest endpoint  calls  completions        us");
    }
    for phase in &shared.phases {
        let ns = team.run(phase, shared)?;
        if !shared.data.holds(phase.what) {
            return Err(JobError::Other("a result is not what it must be"));
        }
        let [calls, completions] = shared.calls(phase);
        if (calls, completions) != (1, 1) {
            return Err(JobError::Other("one call was not one collective"));
        }
        if !root {
            continue;
        }
        let counts = shared.counts(phase);
        let mut line = String::<120>::new();
        let _ = write!(line, "{:<11} {:>9} {:>8}", phase.what, phase.endpoints, counts.all);
        let _ = write!(line, " {:>17} {:>6} {:>12}", counts.busiest, calls, completions);
        let _ = write!(line, " {:>9}", ns / 1000);
        defmt::println!("{=str}", line.as_str());
    }
    Ok(())
}
