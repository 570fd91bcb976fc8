//! Latency and bandwidth of collectives, by algorithm and size; every result is checked.
//!
//! Definitions are those of the OSU benchmarks: a rank's latency is the mean over the rounds of the time from its call
//! to its end, with a barrier between the rounds; of that the average, least and greatest over all ranks are printed.
//! Warm-up rounds do not count. Bandwidth is bytes over average latency. The bytes are those of the vector, or of each
//! block. Times are of the host that emulates the nodes: compare the rows of one run, not runs.
//!
//! Every rank looks at its own results, and fails by itself if one is wrong. Of a barrier it looks at what all wrote before it.
//!
//! The geometry is all tasks, as a rectangle of the torus. Arguments:
//!
//! | argument | meaning |
//! |---|---|
//! | `--list` | the algorithms of each collective: always valid, valid if metadata hold; and the choice for each size |
//! | `--floats N` | no times: an allreduce of floats N times by each algorithm, which must give the same bits (SPEC G-9) |
//! | `--collective A,B` | only these |
//! | `--algorithm A,B` | only these; `chosen` is what is chosen for the size. Default: every valid one |
//! | `--sizes N,M` | bytes, multiples of 8 |
//! | `--rounds N` | rounds that count, for each row |
//! | `--root N` | the root's rank |
#![no_std]
#![no_main]

mod arguments;
mod bench;
mod board;
mod case;
mod floats;
mod list;

use arguments::Arguments;
use bench::Bench;
use case::Case;
use core::fmt::Write;
use heapless::String;
use kernel::{JobError, Task};
use pami::collective::Algorithm;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = Arguments::parse(task)?;
    // Collectives with a dead node end with its name.
    task.survive_deaths();
    let mut bench = Bench::new(task, &arguments)?;
    if arguments.list {
        return if bench.rank() == 0 { list::print(&bench, &arguments) } else { Ok(()) };
    }
    if let Some(rounds) = arguments.floats {
        return floats::sum(&mut bench, rounds);
    }
    if bench.rank() == 0 {
        defmt::println!(
            "{=u32} ranks, {=u32} rounds a row; times are the host's",
            bench.size(),
            arguments.rounds
        );
        defmt::println!(
            "collective     algorithm             bytes     avg us     min us     max us        MB/s"
        );
    }
    let (mut rows, mut wrong) = (0, 0u32);
    for &what in &arguments.collectives {
        // A barrier has no data.
        let sizes = if what == pami::collective::Collective::Barrier { &[0][..] } else { &arguments.sizes };
        for &bytes in sizes {
            let case = Case { what, algorithm: None, bytes, root: arguments.root, ..bench.case() };
            let valid = bench.valid(&case)?;
            let named = arguments.algorithms.iter().copied();
            let named = named.filter(|named| named.is_none_or(|algorithm| valid.contains(&algorithm)));
            let all = valid.iter().copied().map(Some);
            let runs: heapless::Vec<Option<Algorithm>, 32> =
                if arguments.algorithms.is_empty() { all.collect() } else { named.collect() };
            for algorithm in runs {
                let row = bench.row(&Case { algorithm, ..case }, arguments.rounds)?;
                rows += 1;
                wrong += u32::from(row.wrong);
                if bench.rank() == 0 || row.wrong {
                    print(&Case { algorithm, ..case }, &row);
                }
            }
        }
    }
    if bench.rank() == 0 {
        defmt::println!("{=u32} rows, {=u32} wrong results", rows, wrong);
    }
    match (rows, wrong) {
        (0, _) => Err(JobError::Other("no algorithm of these is valid here: see --list")),
        (_, 0) => Ok(()),
        _ => Err(JobError::Other("a result was not what a plain loop gives")),
    }
}

fn print(case: &Case, row: &bench::Row) {
    let mut name = String::<24>::new();
    let _ = match case.algorithm {
        Some(algorithm) => write!(name, "{algorithm}"),
        None => write!(name, "chosen"),
    };
    let mut line = String::<120>::new();
    let _ = write!(line, "{:<14} {:<18} {:>8}", case.what, name, case.bytes);
    for ns in [row.average_ns, row.least_ns, row.greatest_ns] {
        let _ = write!(line, " {:>7}.{:02}", ns / 1000, ns % 1000 / 10);
    }
    let kilobytes = case.bytes as u64 * 1_000_000 / row.average_ns.max(1);
    let _ = write!(line, " {:>7}.{:03}", kilobytes / 1000, kilobytes % 1000);
    if row.wrong {
        let _ = write!(line, "  WRONG at rank {}", case.rank);
    }
    defmt::println!("{=str}", line.as_str());
}
