//! `cargo xtask conform`: the same suite on every board, step by step, from the console to the NAS benchmarks (SPEC B-7).
//!
//! A step is a job, or several, on this many nodes. Each needs what the steps before it showed, and names what to look at if it
//! fails; the first that fails ends the suite, since those behind it would only say the same in other words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::arch::Arch;
use crate::board::Board;
use crate::firmware::{self, Request};
use crate::personality::Mode;
use crate::progress::Voice;
use crate::run::{Outcome, Run};

/// How long a run of a step may take. A guest boots in a second or two; the longest job takes some ten.
const DEADLINE: Duration = Duration::from_secs(180);

/// How a run of a step has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Every node ends well.
    Well,
    /// As before, and node 0 answered the service node's questions from an interrupt.
    Asked,
    /// A node reports what its job does wrong, in these words among others.
    Report(&'static str),
}

/// One run of a step.
struct JobRun {
    job: &'static str,
    arguments: &'static [&'static str],
    torus: &'static str,
    mode: Mode,
    faults: Option<&'static str>,
    end: End,
}

/// What a step needs of the board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    /// One hart, and what ends the machine.
    Node,
    /// A second hart.
    Harts,
    /// A network card.
    Card,
    /// A card, and interrupts that a hart takes: a process has none.
    Interrupts,
    /// A second card, for the tree network.
    Tree,
}

/// A step of the suite.
struct Step {
    name: &'static str,
    needs: Needs,
    /// What to look at first if it fails.
    look: &'static str,
    parts: &'static [JobRun],
}

const fn part(job: &'static str, arguments: &'static [&'static str], torus: &'static str) -> JobRun {
    JobRun { job, arguments, torus, mode: Mode::Smp, faults: None, end: End::Well }
}

/// What a wire does in the steps that try reliability.
const BAD_WIRE: &str = "drop=1%,reorder=5%,seed=7";

/// The suite, in the order in which a port grows.
const STEPS: [Step; 16] = [
    Step {
        name: "console and exit",
        needs: Needs::Node,
        look: "the console's compatible string, registers and clock; how the machine is ended (board: exit)",
        parts: &[part("hello", &[], "1")],
    },
    Step {
        name: "reports",
        needs: Needs::Node,
        look: "exception vectors, guard pages, rights of pages",
        parts: &[
            JobRun { end: End::Report("a panic, as asked for"), ..part("faults", &["panic", "0"], "1") },
            JobRun { end: End::Report("stack overflow"), ..part("faults", &["overflow", "0"], "1") },
            JobRun {
                end: End::Report("write to read-only memory"),
                ..part("faults", &["readonly", "0"], "1")
            },
        ],
    },
    Step {
        name: "memory",
        needs: Needs::Node,
        look: "memory banks and reserved ranges of the tree; attributes of pages",
        parts: &[part("copies", &[], "1")],
    },
    Step {
        name: "timer",
        needs: Needs::Node,
        look: "the counter's rate, the timer's interrupt and whether it is enabled at this hart",
        parts: &[part("idle", &["--seconds", "1"], "1")],
    },
    Step {
        name: "harts",
        needs: Needs::Harts,
        look: "cpu nodes of the tree (status, enable-method), the firmware's call that starts a hart; the console's interrupt",
        parts: &[
            part("harts", &[], "1"),
            JobRun { mode: Mode::Vn, ..part("segments", &[], "1") },
            part("chatter", &["--lines", "80", "--busy"], "1"),
        ],
    },
    Step {
        name: "wake-up",
        needs: Needs::Card,
        look: "interrupts between harts; a pending interrupt ends a wait; the card's line, or its message (IMSIC, v2m frame, a GICv3's ITS: \
               an LPI), is routed to a hart that sleeps; --log debug says its number and by which it comes",
        parts: &[part("wake", &[], "2")],
    },
    Step {
        name: "adapter alone",
        needs: Needs::Card,
        look: "the card's rings and doorbell, DMA addresses, cache maintenance: frames to itself come back by the fabric",
        parts: &[part("all-pairs", &[], "1")],
    },
    Step {
        name: "adapter pair",
        needs: Needs::Card,
        look: "MAC addresses and filters, MTU, receive buffers given back; --pcap shows what left",
        parts: &[part("ping", &["--rounds", "20"], "2")],
    },
    Step {
        name: "interrupts",
        needs: Needs::Interrupts,
        look: "the one interrupt that a hart takes while it computes is the console's line's: it is routed to hart 0 and let through; \
               the vectors keep all registers",
        parts: &[JobRun { end: End::Asked, ..part("alive", &["--seconds", "8"], "2") }],
    },
    Step {
        name: "bad wire",
        needs: Needs::Card,
        look: "the card's cookies: each comes back once; the clock, by which lost packets go again",
        parts: &[JobRun { faults: Some(BAD_WIRE), ..part("all-pairs", &[], "2") }],
    },
    Step {
        name: "message unit",
        needs: Needs::Card,
        look: "scatter-gather from lent memory, order of stores before the doorbell",
        parts: &[part("rma", &["--rounds", "10"], "2"), part("fence", &[], "2"), part("hostile", &[], "2")],
    },
    Step {
        name: "tree network",
        needs: Needs::Tree,
        look: "the second card",
        parts: &[part("tree", &[], "2x2")],
    },
    Step {
        name: "PAMI",
        needs: Needs::Card,
        look: "nothing of the board is new here: compare with another board's run",
        parts: &[part("halo3d", &[], "2x2"), JobRun { mode: Mode::Vn, ..part("all-pairs", &[], "2") }],
    },
    Step {
        name: "collectives",
        needs: Needs::Card,
        look: "as before; with a tree network also its class routes",
        parts: &[part("coll", &["--sizes", "8,4096", "--rounds", "2"], "2x2")],
    },
    Step {
        name: "MPI",
        needs: Needs::Card,
        look: "as before",
        parts: &[part("mpi-suite", &[], "2x2"), part("armci", &[], "2")],
    },
    Step {
        name: "NAS benchmarks",
        needs: Needs::Card,
        look: "floating point: is its unit on, and are its registers every hart's own?",
        parts: &[
            part("npb-is", &[], "2x2"),
            part("npb-ep", &[], "2x2"),
            part("npb-cg", &[], "2x2"),
            part("npb-mg", &[], "2x2"),
            part("npb-ft", &[], "2x2"),
            JobRun { faults: Some(BAD_WIRE), ..part("npb-is", &[], "2x2") },
        ],
    },
];

/// The steps by name, each with its jobs, in order.
pub fn steps() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    STEPS.iter().map(|step| (step.name, step.parts.iter().map(|part| part.job).collect()))
}

/// How a step went.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Passed(Duration),
    /// The board has not what it needs.
    NotHere,
    /// A step before it failed.
    NotRun,
    Failed,
}

/// Runs the suite, or its step `only`, on `board`; prints a table of it. True if no step failed.
///
/// # Errors
/// If there is no such step, the board is not of this instruction set, or a run could not be begun: the host lacks something.
pub fn run(
    board: Board,
    arch: Option<Arch>,
    only: Option<&str>,
    interrupt: &Arc<AtomicBool>,
    voice: &Voice,
) -> Result<bool> {
    let arch = arch.unwrap_or(board.archs()[0]);
    board.check(arch)?;
    if let Some(name) = only.filter(|name| STEPS.iter().all(|step| step.name != *name)) {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        anyhow::bail!("there is no step {name:?}: it is one of {}", names.join(", "));
    }
    // What a build takes is no step's time.
    firmware::build(&Request::new(arch, STEPS[0].parts[0].job).together(true), voice)?;
    let mut verdicts: Vec<(&Step, Verdict)> = Vec::new();
    for step in STEPS.iter().filter(|step| only.is_none_or(|name| step.name == name)) {
        let failed = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Failed);
        let verdict = match failed {
            true => Verdict::NotRun,
            false if !has(board, step.needs) => Verdict::NotHere,
            false => try_step(board, arch, step, interrupt, voice)?,
        };
        verdicts.push((step, verdict));
        if interrupt.load(Ordering::Relaxed) {
            voice.say("interrupted");
            return Ok(false);
        }
    }
    voice.idle();
    voice.print(&table(board, arch, &verdicts));
    Ok(verdicts.iter().all(|(_, verdict)| *verdict != Verdict::Failed))
}

/// Whether the board has what a step needs.
fn has(board: Board, needs: Needs) -> bool {
    match needs {
        Needs::Node | Needs::Card => true,
        Needs::Harts => *board.harts().end() > 1,
        Needs::Interrupts => board.is_emulated(),
        Needs::Tree => board.has_tree(),
    }
}

fn try_step(
    board: Board,
    arch: Arch,
    step: &Step,
    interrupt: &Arc<AtomicBool>,
    voice: &Voice,
) -> Result<Verdict> {
    let begun = Instant::now();
    for part in step.parts {
        voice.busy(&format!("{}: {}", step.name, words(part)));
        let mut run =
            Run::new(part.job).board(board).arch(arch).one_image().torus(part.torus).mode(part.mode);
        run = run.args(part.arguments.iter().copied()).interrupt(Arc::clone(interrupt)).timeout(DEADLINE);
        run = part.faults.into_iter().fold(run, Run::faults);
        let outcome = run.run()?;
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        if let Some(wrong) = wrong(part.end, &outcome) {
            voice.idle();
            voice.say(&format!("step `{}` failed: {}", step.name, words(part)));
            voice.say(&wrong);
            voice.say(&format!("logs: {}", outcome.logs.path().display()));
            voice.say(&format!("look at: {}", step.look));
            return Ok(Verdict::Failed);
        }
    }
    Ok(Verdict::Passed(begun.elapsed()))
}

/// What is wrong with how a run ended, if anything.
fn wrong(end: End, outcome: &Outcome) -> Option<String> {
    match end {
        End::Well => (!outcome.success()).then(|| outcome.explain()),
        End::Asked if !outcome.success() => Some(outcome.explain()),
        End::Asked => {
            let node = outcome.nodes.first()?;
            let unanswered = || format!("node 0 left a question unanswered for long\n{}", outcome.explain());
            match (node.questions, node.suspicions) {
                (0, _) => Some("node 0 was not asked: it fell silent for too short a time".into()),
                (_, 0) => None,
                _ => Some(unanswered()),
            }
        }
        End::Report(words) if outcome.reports().any(|line| line.contains(words)) => None,
        End::Report(words) => Some(format!("no node reported {words:?}\n{}", outcome.explain())),
    }
}

/// The command that does what a part does.
fn words(part: &JobRun) -> String {
    let JobRun { job, arguments, torus, mode, faults, .. } = part;
    let mut words = format!("{job} --torus {torus}");
    if *mode == Mode::Vn {
        words.push_str(" --mode vn");
    }
    words.extend(faults.iter().flat_map(|faults| [" --faults ", faults]));
    if !arguments.is_empty() {
        words.push_str(&format!(" -- {}", arguments.join(" ")));
    }
    words
}

/// A row a step.
fn table(board: Board, arch: Arch, verdicts: &[(&Step, Verdict)]) -> String {
    let width = STEPS.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}  {board}, {arch}\n", "step");
    text.push_str(&"-".repeat(width + 20));
    for (step, verdict) in verdicts {
        let said = match verdict {
            Verdict::Passed(time) => format!("passed {:5.1} s", time.as_secs_f64()),
            Verdict::NotHere => "not here".into(),
            Verdict::NotRun => "not run".into(),
            Verdict::Failed => "FAILED".into(),
        };
        text.push_str(&format!("\n{:width$}  {said}", step.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b7_each_step_runs_jobs_that_there_are_and_names_what_to_look_at() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        for step in &STEPS {
            assert!(!step.parts.is_empty() && step.look.len() > 8, "{}", step.name);
            for part in step.parts {
                crate::jobs::check(part.job).expect(step.name);
                let usage = crate::jobs::usage(part.job).expect("a description of its arguments");
                let flags = part.arguments.iter().filter(|word| word.starts_with("--"));
                for flag in flags {
                    let known = usage.arguments.iter().any(|argument| argument.name == *flag);
                    assert!(known, "{}: {} takes no {flag}", step.name, part.job);
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len(), "two steps of one name");
    }

    #[test]
    fn b7_an_unknown_step_is_answered_with_all_names() {
        let interrupt = Arc::new(AtomicBool::new(false));
        let told =
            run(Board::Virt, None, Some("consol"), &interrupt, &Voice::quiet()).unwrap_err().to_string();
        assert!(told.starts_with("there is no step \"consol\""), "{told}");
        assert!(STEPS.iter().all(|step| told.contains(step.name)), "{told}");
    }

    #[test]
    fn b7_the_table_tells_passed_from_left_out_and_failed_from_not_run() {
        let verdicts = [
            (&STEPS[0], Verdict::Passed(Duration::from_millis(1250))),
            (&STEPS[1], Verdict::NotHere),
            (&STEPS[2], Verdict::Failed),
            (&STEPS[3], Verdict::NotRun),
        ];
        let table = table(Board::Virt, Arch::Riscv64, &verdicts);
        let rows: Vec<_> = table.lines().skip(2).collect();
        let ends = ["passed   1.2 s", "not here", "FAILED", "not run"];
        assert!(rows.len() == 4 && rows.iter().zip(ends).all(|(row, end)| row.ends_with(end)), "{table}");
    }
}
