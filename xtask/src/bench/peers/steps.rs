//! Instructions of a call, counted by having the program go through it one by one (SPEC H-6).
//!
//! What is counted is between two marks: calls of a function that does nothing, `peers_mark` of xtask/peers/common.h and of
//! jobs/examples/peers/mark.rs. Its first instruction is replaced by a breakpoint, and between [`BEGIN`] and [`END`] the thread
//! that came there makes single steps, while all others go on. An instruction that repeats itself is one, and what the system
//! does for it is none. Of many such calls the median counts, less that of marks with nothing in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::libc::c_long;
use nix::sys::ptrace::{self, AddressType, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::{Object as _, ObjectKind, ObjectSymbol as _};

use super::processes;
use super::results::Summary;

/// The name of the function, at the end of whatever path it has.
const MARK: &str = "peers_mark";

/// What it is called with; all others are of [`CALLS`]. The first is answered with another number by who steps.
const IS_ANYONE_THERE: u64 = 0;
const BEGIN: u64 = 1;
const END: u64 = 2;
const NOTHING: u64 = 4;
const OVER: u64 = 9;
/// Behind the end of a call there is another mark, which says what it was. Those that it says nothing of do not count.
const CALLS: [(&str, u64); 4] = [("insn-send", 5), ("insn-progress", 6), ("insn-empty", 7), ("insn-put", 8)];

/// The one instruction set of which this knows the registers, and by how an instruction becomes a breakpoint.
const ARCH: &str = "x86_64";
const BREAKPOINT: c_long = 0xcc;
/// Where the instruction pointer and the first argument are in `struct user`.
const RIP: u64 = 16 * 8;
const RDI: u64 = 14 * 8;

/// How often threads are looked at until one comes to a mark.
const LOOK: Duration = Duration::from_millis(1);

/// Counts, and lets all go on. The values are by the rows' names. Who is stepped through has to end at the caller's deadline.
///
/// # Errors
/// The machine cannot, the system does not let this process, or the program ended before it was through.
pub fn count(root: u32, program: &Path) -> Result<BTreeMap<String, f64>> {
    if std::env::consts::ARCH != ARCH {
        bail!("instructions are counted on {ARCH} alone, by its single steps");
    }
    let mark = mark_of(program)?;
    let mut threads = Vec::new();
    for process in processes::running(root, program) {
        threads.extend(Thread::all_of(process, mark)?);
    }
    let stepped = first_at_mark(threads)?;
    let tally = stepped.count()?;
    let figures = tally.figures();
    if figures.is_empty() {
        bail!("it marked no call");
    }
    Ok(figures)
}

/// The address of the function in a program that lies where it was linked to.
fn mark_of(program: &Path) -> Result<u64> {
    let bytes = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let file =
        object::File::parse(&*bytes).with_context(|| format!("{} is no program", program.display()))?;
    if file.kind() != ObjectKind::Executable {
        bail!("{} does not lie where it was linked to", program.display());
    }
    let is_mark = |name: &str| {
        let name = format!("{:#}", rustc_demangle::demangle(name));
        name.rsplit("::").next() == Some(MARK)
    };
    let mark = file.symbols().find(|symbol| symbol.name().is_ok_and(is_mark));
    Ok(mark.with_context(|| format!("{} has no function {MARK}", program.display()))?.address())
}

/// Steps by what they were of.
#[derive(Default)]
struct Tally(BTreeMap<u64, Vec<f64>>);

impl Tally {
    fn note(&mut self, call: u64, steps: u64) {
        self.0.entry(call).or_default().push(steps as f64);
    }

    fn median(&self, call: u64) -> Option<f64> {
        Summary::of(self.0.get(&call)?.clone()).map(|summary| summary.median)
    }

    /// By rows, less what marks with nothing in between take.
    fn figures(&self) -> BTreeMap<String, f64> {
        let nothing = self.median(NOTHING).unwrap_or(0.0);
        let figure = |(row, call): (&str, u64)| Some((row.to_owned(), self.median(call)? - nothing));
        CALLS.into_iter().filter_map(figure).collect()
    }
}

fn address(at: u64) -> AddressType {
    std::ptr::without_provenance_mut(at as usize)
}

/// A thread that stands still, or was told to go on. Until it is let go it ends with this process.
struct Thread {
    id: Pid,
    mark: u64,
    /// What is there in the program.
    original: c_long,
}

impl Thread {
    /// All of a process, with a breakpoint at its mark; they go on.
    fn all_of(process: u32, mark: u64) -> Result<Vec<Self>> {
        let folder = format!("/proc/{process}/task");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut threads: Vec<Self> = Vec::new();
        for id in numbers.map(Pid::from_raw) {
            ptrace::seize(id, Options::PTRACE_O_EXITKILL)
                .context("the system lets nobody step through it (ptrace)")?;
            ptrace::interrupt(id)?;
            let signal = stop(id)?;
            // All threads of a process have the same text.
            let original = match threads.first() {
                Some(first) => first.original,
                None => ptrace::read(id, address(mark))?,
            };
            let thread = Self { id, mark, original };
            thread.set_breakpoint()?;
            ptrace::cont(id, signal)?;
            threads.push(thread);
        }
        Ok(threads)
    }

    fn set_breakpoint(&self) -> Result<()> {
        Ok(ptrace::write(self.id, address(self.mark), (self.original & !0xff) | BREAKPOINT)?)
    }

    fn clear_breakpoint(&self) -> Result<()> {
        Ok(ptrace::write(self.id, address(self.mark), self.original)?)
    }

    fn register(&self, register: u64) -> Result<u64> {
        Ok(ptrace::read_user(self.id, address(register))? as u64)
    }

    fn set_register(&self, register: u64, value: u64) -> Result<()> {
        Ok(ptrace::write_user(self.id, address(register), value as c_long)?)
    }

    /// Whether it has come to the breakpoint. If so it stands there as if there were none.
    fn is_at_mark(&self) -> Result<bool> {
        let there = self.register(RIP)? == self.mark + 1;
        if there {
            self.clear_breakpoint()?;
            self.set_register(RIP, self.mark)?;
        }
        Ok(there)
    }

    /// Lets it go on until it stops by itself; signals that come meanwhile are passed on.
    fn go(&self, on: fn(Pid, Option<Signal>) -> nix::Result<()>) -> Result<()> {
        let mut signal = None;
        loop {
            on(self.id, signal)?;
            signal = stop(self.id)?;
            if signal.is_none() {
                return Ok(());
            }
        }
    }

    fn step(&self) -> Result<()> {
        self.go(ptrace::step)
    }

    /// From one mark to the next.
    fn go_to_mark(&self) -> Result<()> {
        self.step()?;
        self.set_breakpoint()?;
        loop {
            self.go(ptrace::cont)?;
            if self.is_at_mark()? {
                return Ok(());
            }
        }
    }

    /// From one mark to the next, by single steps; how many.
    fn step_to_mark(&self) -> Result<u64> {
        let (mut steps, mut at) = (0, self.mark);
        loop {
            self.step()?;
            let before = std::mem::replace(&mut at, self.register(RIP)?);
            // One that repeats itself stops each time.
            steps += u64::from(at != before);
            if at == self.mark {
                return Ok(steps);
            }
        }
    }

    /// Counts until the last mark, and lets the thread go.
    fn count(self) -> Result<Tally> {
        let (mut tally, mut steps) = (Tally::default(), 0);
        loop {
            match self.register(RDI)? {
                IS_ANYONE_THERE => self.set_register(RDI, END)?,
                BEGIN => {
                    steps = self.step_to_mark()?;
                    continue;
                }
                END => {}
                OVER => break,
                call => tally.note(call, steps),
            }
            self.go_to_mark()?;
        }
        ptrace::detach(self.id, None)?;
        Ok(tally)
    }
}

/// Waits until it stops; a signal that is to be passed on is why.
fn stop(id: Pid) -> Result<Option<Signal>> {
    match waitpid(id, Some(WaitPidFlag::__WALL))? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => Ok(None),
        WaitStatus::Stopped(_, signal) => Ok(Some(signal)),
        _ => bail!("it ended before it was stepped through"),
    }
}

/// The first of them that comes to the mark; the others go on alone.
fn first_at_mark(threads: Vec<Thread>) -> Result<Thread> {
    let mut threads = threads;
    let at = 'look: loop {
        let mut living = false;
        for (at, thread) in threads.iter().enumerate() {
            let signal = match waitpid(thread.id, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {
                    living = true;
                    continue;
                }
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) if thread.is_at_mark()? => break 'look at,
                Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
                Ok(WaitStatus::PtraceEvent(..)) => None,
                _ => continue,
            };
            living = true;
            ptrace::cont(thread.id, signal)?;
        }
        if !living {
            bail!("it ended before it was stepped through");
        }
        std::thread::sleep(LOOK);
    };
    let found = threads.swap_remove(at);
    for thread in threads {
        // One that has ended needs nothing more.
        let Ok(()) = ptrace::interrupt(thread.id) else { continue };
        let signal = stop(thread.id)?;
        thread.clear_breakpoint()?;
        ptrace::detach(thread.id, signal)?;
    }
    Ok(found)
}
