//! The table of rates, as IOR has it: what all tasks moved together, in the time from the first to the last.

use core::fmt::Write as _;
use heapless::{String, Vec};
use kernel::Task;

/// Most rows.
const ROWS: usize = 5;

/// Transfers of one length to files of one kind.
#[derive(Clone, Copy, Default)]
pub struct Row {
    files: &'static str,
    transfer: u64,
    count: u64,
    /// Nanoseconds that all writes took.
    pub written: u64,
    /// Nanoseconds that all reads took.
    pub read: u64,
}

/// All rows.
pub struct Rates {
    rows: Vec<Row, ROWS>,
    unused: Row,
    tasks: u64,
    /// Nanoseconds that all tasks took to open and close.
    pub opens: u64,
}

impl Rates {
    /// No rows.
    pub fn new(task: &Task) -> Self {
        Self { rows: Vec::new(), unused: Row::default(), tasks: task.tasks().into(), opens: 0 }
    }

    /// A row more: `count` transfers of each task, of `transfer` bytes.
    pub fn row(&mut self, files: &'static str, transfer: u64, count: u64) -> &mut Row {
        let row = Row { files, transfer, count, ..Row::default() };
        match self.rows.push(row) {
            Ok(()) => self.rows.last_mut().unwrap_or(&mut self.unused),
            Err(_) => &mut self.unused,
        }
    }

    /// Prints it; each task opened and closed a file `opens` times.
    pub fn tell(&self, opens: u64) {
        defmt::println!("files           transfer KiB    all KiB   write MiB/s    read MiB/s");
        for Row { files, transfer, count, written, read } in self.rows.iter().copied() {
            let bytes = transfer * count * self.tasks;
            let mut line = String::<96>::new();
            // It was made for that.
            let _ = write!(
                line,
                "{files:<16}{:>12}{:>11}{:>14.2}{:>14.2}  checked",
                transfer >> 10,
                bytes >> 10,
                rate(bytes, written),
                rate(bytes, read)
            );
            defmt::println!("{=str}", line.as_str());
        }
        let a_second = (opens * self.tasks) as f64 / (self.opens.max(1) as f64 / 1e9);
        defmt::println!("{=u64} files were opened and closed a second", a_second as u64);
    }
}

/// MiB a second.
fn rate(bytes: u64, ns: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20) / (ns.max(1) as f64 / 1e9)
}
