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
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use object::{Object as _, ObjectKind, ObjectSymbol as _};

use super::processes;
use super::summary::Summary;

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
        let mut stopped = Vec::new();
        // All stand still before there is a breakpoint: one that came there and is not stepped through would end the process.
        for id in numbers.map(Pid::from_raw) {
            ptrace::seize(id, Options::PTRACE_O_EXITKILL)
                .context("the system lets nobody step through it (ptrace)")?;
            ptrace::interrupt(id)?;
            stopped.push((id, stop(id)?));
        }
        let Some(&(first, _)) = stopped.first() else { return Ok(Vec::new()) };
        let original = ptrace::read(first, address(mark))?;
        let threads: Vec<_> = stopped.iter().map(|&(id, _)| Self { id, mark, original }).collect();
        threads[0].set_breakpoint()?;
        for (id, signal) in stopped {
            ptrace::cont(id, signal)?;
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

/// What became of a thread, with `WNOHANG` at this moment. The end of one is for its parent to hear of, and stays.
fn status(id: Pid, how: WaitPidFlag) -> Result<WaitStatus> {
    let (all, looking) =
        (WaitPidFlag::__WALL, WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT);
    Ok(match waitid(Id::Pid(id), all | looking | how)? {
        living @ WaitStatus::StillAlive => living,
        ended @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => ended,
        _ => waitpid(id, Some(all))?,
    })
}

/// Waits until it stops; a signal that is to be passed on is why.
fn stop(id: Pid) -> Result<Option<Signal>> {
    match status(id, WaitPidFlag::empty())? {
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
            let signal = match status(thread.id, WaitPidFlag::WNOHANG) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::deadline::Deadline;
    use crate::helper::Helper;
    use crate::workspace;
    use std::process::Command;

    const PROGRAM: &str = r#"#include "common.h"
        #include <pthread.h>
        #include <sys/wait.h>
        static pid_t child;
        static void *work(void *all) {
            while (peers_mark(IS_ANYONE_THERE) == IS_ANYONE_THERE);
            char from[64], to[64];
            for (int i = 0; i < STEPPED; i++) {
                MARKED((void)0), peers_mark(NOTHING);
                MARKED(({ __asm__ volatile("nop; nop; nop; nop; nop; nop; nop"); })), peers_mark(SEND);
                // What is passed on, as signals are, is counted in one call of many.
                if (i == 3) signal(SIGUSR1, SIG_IGN), raise(SIGUSR1);
                void *a = from, *b = to;
                long n = sizeof to;
                MARKED(({ __asm__ volatile("rep movsb" : "+S"(a), "+D"(b), "+c"(n) : : "memory"); }));
                peers_mark(i % 2 ? EMPTY : NOT_THIS);
            }
            peers_mark(OVER);
            return NULL;
        }
        int main(int argc, char **argv) {
            begin(argc, argv);
            child = fork();
            if (child == 0) for (;;) pause();
            pthread_t thread;
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, NULL);
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            return 7;
        }"#;

    fn program(text: &str, flags: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-w", "-std=gnu11"])
            .args(flags)
            .arg("-I")
            .arg(workspace::root().join("xtask/peers"));
        assert!(compiler.arg("-o").arg(&program).arg(&source).status().unwrap().success());
        (folder, program)
    }

    /// Counts in a program until its end; what came out, and the code that it ended with.
    fn counted(program: &Path) -> (Result<BTreeMap<String, f64>>, Option<i32>) {
        let mut helper = Helper::start(&mut Command::new(program)).unwrap();
        let deadline = Deadline::of(helper.group(), Duration::from_secs(60));
        // Its child is to be there.
        std::thread::sleep(Duration::from_millis(100));
        let counts = count(helper.id(), program);
        let code = helper.wait().unwrap().code();
        assert!(!deadline.was_missed());
        (counts, code)
    }

    #[test]
    fn h6_instructions_between_marks_are_counted_and_the_program_goes_on() {
        let (_folder, program) = program(PROGRAM, &["-no-pie"]);
        let (counts, code) = counted(&program);
        if std::env::consts::ARCH != ARCH {
            assert!(counts.unwrap_err().to_string().contains("x86_64 alone"));
            return;
        }
        let counts = counts.unwrap();
        assert_eq!(code, Some(7));
        assert_eq!(counts["insn-send"], 7.0);
        // Its three operands are made ready too, at most; 64 bytes are one instruction.
        assert!((1.0..=6.0).contains(&counts["insn-empty"]), "{counts:?}");
        assert_eq!(counts.len(), 2);
    }

    #[test]
    fn h6_what_cannot_be_stepped_through_says_why() {
        if std::env::consts::ARCH != ARCH {
            return;
        }
        let (_folder, moved) = program("int main(void) { return 0; }", &["-pie", "-fPIE"]);
        let said = counted(&moved).0.unwrap_err().to_string();
        assert!(said.ends_with("does not lie where it was linked to"), "{said}");
        let (_folder, unmarked) = program("int main(void) { return 0; }", &["-no-pie"]);
        let said = counted(&unmarked).0.unwrap_err().to_string();
        assert!(said.ends_with("has no function peers_mark"), "{said}");
        let ends =
            "#include \"common.h\"\nint main(int c, char **v) { begin(c, v); usleep(500000); return 3; }";
        let (_folder, early) = program(ends, &["-no-pie"]);
        let (counts, code) = counted(&early);
        assert_eq!(counts.unwrap_err().to_string(), "it ended before it was stepped through");
        assert_eq!(code, Some(3));
    }
}
