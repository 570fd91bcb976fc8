//! The command line.

mod nodes;
mod service;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arch::Arch;
use crate::board::{self, Board};
use crate::progress::Voice;
use crate::run::{Ending, Outcome, Run};
use crate::suite::{self, Scope};
use crate::{
    bench, claims, conform, docs, doctor, firmware, helper, inspect, io_node, jobs, json, node, picture,
    serial, table, top, trace,
};
use nodes::{Host, Qemu};
use service::Service;

/// Builds Pamir's firmware, boots it on emulated nodes of a torus, and watches it.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Boot the nodes of a torus and run a job on them
    ///
    /// Builds the job, installs what is missing, boots one QEMU per node, shows their logs and ends with a
    /// table. The exit code is 0 only if every node ended well; 124 after the deadline, 130 after Ctrl-C.
    Qemu(Box<Qemu>),
    /// Run a job on this machine itself: a process is a node, a thread is a hart, and no machine is emulated
    ///
    /// The same jobs on the same kernel, torus and tree network as with `qemu`, faults too. Harts are bound to cores if
    /// there are enough for all. The exit codes are those of `qemu`.
    Host(Box<Host>),
    /// Keep nodes booted, and run jobs on them that come in lines, from a file or the standard input
    ///
    /// A line is what stands behind `cargo xtask qemu`, as in: npb-is --torus 2x2 --faults drop=1% -- --class S. Jobs start in
    /// their order, each as soon as enough nodes are free, so several run at once if they fit. Between two jobs a node begins
    /// again by itself; one that crashed, hangs or is gone is started anew. `stop 3` stops job 3. The exit code is 0 only if every job ended well.
    Service(Service),
    /// List the jobs that nodes can run
    Jobs,
    /// List the boards that nodes run on, what each has, and how it was tried
    Boards,
    /// Write the image of a job that a board's boot loader starts, and how to start it
    Image(Image),
    /// Show what a node on a serial line says, until it tells its end; the exit code is the node's status
    Serial(Serial),
    /// Tell what the nodes of living runs do at this moment, while they go on
    ///
    /// Of NODE: the function that each hart is in, how far the FIFOs of each context are and whom it waits for, its bytes on each
    /// link. Without NODE: a line for each node of every run of this workspace.
    Inspect {
        /// A node's number
        node: Option<u32>,
        /// The run, if there are several, as in run-17
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// Tell it again every second, or every so often, until the run ends
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = top::pace)]
        watch: Option<Duration>,
    },
    /// Show a living run in the terminal: nodes, harts, traffic, hot links, waits
    ///
    /// Of harts: c computing, in the job's own code; a advancing, in PAMI or below; s sleeping; r running, of a process; o outside
    /// the image. Packets are those of the FIFOs of contexts, bytes those of frames on both networks. A wait is named by whom it is
    /// for and how long nothing has moved. Plain text where there is no terminal: a table for each look, until the run ends.
    Top(top::TopOptions),
    /// Run all checks and tests, the stages that FILTER names, or the tests whose name contains it
    Test(Test),
    /// Install and build what the tests boot: the emulators, and all jobs in one image for each architecture
    #[command(hide = true)]
    Images,
    /// Be an I/O node of a run, which starts it
    #[command(hide = true)]
    IoNode(io_node::Settings),
    /// Try a board step by step, from its console to the NAS benchmarks
    ///
    /// Each step needs what those before it showed; the first that fails says what to look at. A step that needs what the
    /// board does not have is left out, and the table says so.
    Conform(Conform),
    /// Measure what things cost
    #[command(subcommand)]
    Bench(Bench),
    /// Build the documentation of all crates, each for what it runs on, and check its links
    Doc,
    /// Tell what this machine has, what it lacks and what would be installed
    Doctor {
        /// Install what is missing
        #[arg(long)]
        fix: bool,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Count instructions on a message's way: posts, sends, advances, receptions
    ///
    /// Boots single nodes whose instructions are counted one by one (QEMU's -icount), so the numbers are the same
    /// on every host. Prints them beside the committed ones of tests/instructions.toml. Fails if a count rose by
    /// over 5 %, as the tests do.
    Instructions {
        /// Only this instruction set
        #[arg(long, value_enum)]
        arch: Option<Arch>,
        /// Write the counts to tests/instructions.toml
        #[arg(long)]
        update: bool,
        /// Write the figures into FILE; docs/results.md has the schema
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Measure what a porter looks at first: clock, timer, wake-ups, a cache line to and fro, copies, frames and messages
    Board {
        /// Board of the nodes
        #[arg(long, value_enum, default_value = "virt")]
        board: Board,
        /// Instruction set of the nodes [default: aarch64, or that of the board]
        #[arg(long, value_enum)]
        arch: Option<Arch>,
        /// Write the figures into FILE; docs/results.md has the schema
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Measure messages and collectives beside other messaging libraries, on the same two cores of this machine in one run
    ///
    /// Peers are a bare ring of cache lines, which is the limit, jobs of ours with a process or a thread for each task,
    /// UCX, Open MPI, MPICH and Intel MPI, of Debian's packages and of PyPI's wheels, as far as they can be had; they are
    /// unpacked for this workspace alone. All take turns. Before and after each run a probe looks at the two cores, and
    /// the run counts only if neither was slowed and both shared a cache. Prints medians with the least and the greatest,
    /// and writes all to target/pamir/peers.json, with a picture beside it and a table of the medians for a page, as the README's.
    ///
    /// NAS benchmarks, from the same source over ours and over each MPI, are measured if they are named: --rows npb.
    Peers(Peers),
    /// Measure what messages take of the host's time beside bare frames of the same network, in one run
    ///
    /// Runs the job `ping` on two nodes of a hart each. Times are of this host at this moment: look at the ratios.
    Ratios {
        /// Instruction set of the nodes
        #[arg(long, value_enum, default_value = "aarch64")]
        arch: Arch,
        /// Round trips per row
        #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// Write the figures into FILE; docs/results.md has the schema
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

#[derive(Args)]
struct Peers {
    /// How often each peer runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only rows with this in their names, or several such words, as in half,rate-8 [default: all but npb]
    #[arg(long, value_name = "WORD")]
    rows: Option<String>,
    /// Only peers with this in their names, or several such words, as in ring,pamir,mpich
    #[arg(long, value_name = "WORD")]
    peers: Option<String>,
    /// The two cores, as in 2,3 [default: the first two that this process may have]
    #[arg(long, value_name = "A,B", value_parser = two_cores)]
    cores: Option<[usize; 2]>,
    /// Runs count whatever the probes say, as on a machine with other work; the table tells so
    #[arg(long)]
    keep_all: bool,
    /// Where all results go, the picture beside it with the ending svg, the table with md [default: target/pamir/peers.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Two numbers of cores.
fn two_cores(word: &str) -> Result<[usize; 2], String> {
    let cores = word.split_once(',').and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
    cores.ok_or_else(|| format!("{word:?} is not two cores, as in 2,3"))
}

#[derive(Args)]
struct Conform {
    /// Only this step, by its name in the table
    step: Option<String>,
    /// Board of the nodes
    #[arg(long, value_enum, default_value = "virt")]
    board: Board,
    /// Instruction set of the nodes [default: aarch64, or that of the board]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
}

#[derive(Args)]
struct Image {
    /// What to run; `cargo xtask jobs` lists all
    job: String,
    /// Board of the node
    #[arg(long, value_enum, default_value = "virt")]
    board: Board,
    /// Instruction set of the node [default: aarch64, or that of the board]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Where to; the ELF file that `serial` wants goes beside it
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Args)]
struct Serial {
    /// The ELF file beside the image that the node runs
    #[arg(long, value_name = "FILE")]
    elf: PathBuf,
    /// Where the boot loader put the image [default: where it is linked for]; names of addresses in reports need it
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    at: Option<u64>,
    /// Speed of the line, in bits a second
    #[arg(long, value_name = "RATE", default_value_t = 115_200, value_parser = clap::value_parser!(u32).range(1..))]
    baud: u32,
    /// After how long without a word the node is asked whether it lives, and named if it does not answer; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    ask: u32,
    /// The line, as in /dev/ttyUSB0, or a file of what came from one [default: the standard input]
    line: Option<PathBuf>,
}

/// An address, in hexadecimal.
fn address(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16)
        .map_err(|_| format!("{word:?} is no address: hexadecimal, as in 0x40400000"))
}

#[derive(Args)]
struct Test {
    /// A stage (`Miri: drivers`), the first word of several (`clippy`), or a part of the names of tests
    filter: Option<String>,
    /// Only what runs without guests
    #[arg(long, conflicts_with = "guests_only")]
    host_only: bool,
    /// Only the integration tests, which boot guests
    #[arg(long)]
    guests_only: bool,
    /// Tests run at full size, and each on both architectures; takes hours
    #[arg(long)]
    long: bool,
    /// Write what became of each stage and test into FILE; docs/results.md has the schema
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run nothing: list the requirements of docs/requirements.md and the tests that carry each; fail if one has none
    #[arg(long, exclusive = true)]
    claims: bool,
}

/// Does what the command line says; the result is the exit code.
pub fn main() -> u8 {
    let cli = Cli::parse();
    let voice = Voice::terminal();
    let interrupt = match listen(
        &voice,
        matches!(
            cli.verb,
            Verb::Qemu(_)
                | Verb::Host(_)
                | Verb::Service(_)
                | Verb::Conform(_)
                | Verb::Top(_)
                | Verb::Bench(Bench::Peers(_))
        ),
    ) {
        Ok(interrupt) => interrupt,
        Err(error) => return fail(&error, &voice),
    };
    let result = act(cli.verb, &interrupt, &voice);
    voice.idle();
    result.unwrap_or_else(|error| {
        // A build that was ended is no news.
        if interrupt.load(Ordering::Relaxed) {
            voice.say("interrupted");
            return 130;
        }
        fail(&error, &voice)
    })
}

fn fail(error: &anyhow::Error, voice: &Voice) -> u8 {
    voice.say(&format!("{} {error:#}", console::style("error:").for_stderr().red().bold()));
    1
}

fn act(verb: Verb, interrupt: &Arc<AtomicBool>, voice: &Voice) -> Result<u8> {
    let code = |good: bool| u8::from(!good);
    match verb {
        Verb::Qemu(qemu) => boot(qemu.asks_help(), &qemu.files(), || qemu.into_run(), interrupt, voice),
        Verb::Host(host) => boot(host.asks_help(), &host.files(), || host.into_run(), interrupt, voice),
        Verb::Service(service) => service.serve(interrupt, voice),
        Verb::Jobs => list(voice).map(code),
        Verb::Boards => {
            voice.print(&board::list());
            Ok(0)
        }
        Verb::Image(image) => image.write(voice).map(|()| 0),
        Verb::Serial(Serial { elf, at, baud, ask, line }) => {
            let words = serial::Words::load(&elf, at)?;
            let line = serial::Line::open(line.as_deref(), baud)?;
            serial::listen(&words, line, Duration::from_secs(ask.into()), voice)
        }
        Verb::IoNode(settings) => io_node::serve(&settings).map(|()| 0).context("this I/O node"),
        Verb::Inspect { node, run, watch: None } => {
            voice.print(inspect::inspect(None, node, run.as_deref())?.trim_end());
            Ok(0)
        }
        Verb::Inspect { node, run, watch: Some(every) } => {
            let told = |text: &str| writeln!(std::io::stdout(), "{text}").is_ok();
            inspect::watch(None, node, run.as_deref(), every, told).map(|()| 0)
        }
        Verb::Top(options) => top::top(None, &options, interrupt, voice),
        Verb::Test(test) if test.claims => claims::list(voice).map(code),
        Verb::Test(test) => {
            let scope = match (test.host_only, test.guests_only) {
                (true, _) => Scope::Host,
                (_, true) => Scope::Guests,
                _ => Scope::All,
            };
            suite::run(test.filter.as_deref(), scope, test.long, test.json.as_deref(), voice).map(code)
        }
        Verb::Conform(Conform { step, board, arch }) => {
            conform::run(board, arch, step.as_deref(), interrupt, voice).map(code)
        }
        Verb::Images => firmware::build_all(voice).map(|()| 0),
        Verb::Bench(Bench::Instructions { arch, update, json }) => {
            bench::instructions(arch, update, json.as_deref(), voice).map(code)
        }
        Verb::Bench(Bench::Board { board, arch, json }) => {
            json.as_deref().map_or(Ok(()), json::check)?;
            bench::board(board, arch, voice)?.show(json.as_deref(), voice).map(|()| 0)
        }
        Verb::Bench(Bench::Ratios { arch, rounds, json }) => {
            json.as_deref().map_or(Ok(()), json::check)?;
            bench::ratios(arch, rounds, voice)?.show(json.as_deref(), voice).map(|()| 0)
        }
        Verb::Bench(Bench::Peers(Peers { runs, rows, peers, cores, keep_all, json })) => {
            let options = bench::PeersOptions { runs, rows, peers, cores, keep_all, json };
            voice.print(bench::peers(&options, voice)?.trim_end());
            Ok(0)
        }
        Verb::Doc => docs::run(voice).map(code),
        Verb::Doctor { fix } => doctor::doctor(fix, voice).map(code),
    }
}

/// What to write of a run, and where to.
struct Files {
    picture: Option<PathBuf>,
    json: Option<PathBuf>,
    trace: Option<PathBuf>,
}

impl Files {
    /// Fails if one cannot be written.
    fn check(&self) -> Result<()> {
        [&self.picture, &self.json, &self.trace].into_iter().flatten().try_for_each(|file| json::check(file))
    }

    fn write(&self, outcome: &Outcome, voice: &Voice) -> Result<()> {
        if let Some(file) = &self.picture {
            json::text_file(file, &picture::svg(outcome), voice)?;
        }
        if let Some(file) = &self.trace {
            let missing = json::stream_file(file, voice, |to| trace::write(outcome, to))?;
            missing.iter().for_each(|what| voice.say(what));
        }
        self.json.as_ref().map_or(Ok(()), |file| json::write(file, &json::run(outcome), voice))
    }
}

/// Does a `run`, or tells the arguments of the job that the user `asks` for.
fn boot(
    asks: Option<String>,
    files: &Files,
    run: impl FnOnce() -> Run,
    interrupt: &Arc<AtomicBool>,
    voice: &Voice,
) -> Result<u8> {
    if let Some(job) = asks {
        jobs::check(&job)?;
        voice.print(&jobs::help(&job)?);
        return Ok(0);
    }
    files.check()?;
    let outcome = run().voice(voice.clone()).interrupt(Arc::clone(interrupt)).run()?;
    close(&outcome, voice);
    files.write(&outcome, voice)?;
    Ok(outcome.exit_code())
}

/// Hears Ctrl-C and its kin: the first ends what works for this program and sets the flag, the second ends all at once.
fn listen(voice: &Voice, takes_flag: bool) -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to Ctrl-C")?;
    let voice = voice.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            helper::end_all();
            if !takes_flag || flag.swap(true, Ordering::Relaxed) {
                voice.idle();
                node::end_all();
                voice.say("interrupted");
                std::process::exit(130);
            }
        }
    });
    Ok(interrupt)
}

fn close(outcome: &Outcome, voice: &Voice) {
    if let Some(dump) = &outcome.dump {
        voice.say(&format!("the state of all nodes:\n{}", dump.trim_end()));
    }
    voice.print(&table::render(outcome));
    for complaint in &outcome.fabric.complaints {
        voice.say(&format!("fabric: {complaint}"));
    }
    for failure in outcome.grouped() {
        voice.say(&console::style(failure).for_stderr().red().to_string());
    }
    if let Some(error) = outcome.first_error().filter(|_| !outcome.success()) {
        voice.say(&format!("the first error: {}", error.styled(outcome.nodes.len() as u32)));
    }
    for remark in &outcome.remarks {
        voice.say(remark);
    }
    match outcome.ending {
        Ending::Interrupted => voice.say("interrupted; all nodes were stopped"),
        Ending::Deadline => {
            let left: Vec<_> = outcome.unfinished().map(|rank| rank.to_string()).collect();
            voice.say(&format!("the deadline passed; these nodes had not ended: {}", left.join(" ")));
        }
        Ending::NodeFailed => voice.say("the remaining nodes were stopped"),
        Ending::Finished => {}
    }
    if !outcome.success() {
        voice.say(&format!("logs: {}", outcome.logs.path().display()));
    }
}

fn list(voice: &Voice) -> Result<bool> {
    let jobs = jobs::list()?;
    let width = jobs.iter().map(|job| job.name.len()).max().unwrap_or(0);
    for job in jobs {
        voice.print(&format!("{:width$}  {}", job.name, job.summary));
    }
    Ok(true)
}

impl Image {
    /// Writes it, and says how it is started by U-Boot; other boot loaders want the same of it.
    fn write(&self, voice: &Voice) -> Result<()> {
        let Self { job, board, output, .. } = self;
        let arch = self.arch.unwrap_or(board.archs()[0]);
        board.check(arch)?;
        ensure!(
            board.is_emulated(),
            "board {board} has no image: its nodes are processes, which `cargo xtask host {job}` starts"
        );
        let request = firmware::Request::new(arch, job);
        let (elf, bytes) = firmware::export(&request, output, voice)?;
        let name = output.file_name().unwrap_or_default().display();
        voice.print(&format!(
            "{}: {bytes} bytes, a Linux image for {arch}; {}",
            output.display(),
            elf.display()
        ));
        voice
            .print("U-Boot starts it, here as a node by itself; its words are the personality (PORTING.md):");
        voice.print(&format!("  setenv bootargs 'node=0 torus=1 job={job}'"));
        voice.print(&format!("  tftpboot ${{kernel_addr_r}} {name}"));
        voice.print("  booti ${kernel_addr_r} - ${fdtcontroladdr}");
        voice.print("and its serial line is read by:");
        voice.print(&format!("  cargo xtask serial --elf {} /dev/ttyUSB0", elf.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b8_a_board_whose_nodes_are_processes_has_no_image() {
        let words = ["cargo xtask", "image", "hello", "--board", "linux", "--output", "none"];
        let Verb::Image(image) = Cli::try_parse_from(words).expect("words").verb else { panic!("no image") };
        let refused = image.write(&Voice::quiet()).expect_err("it has none").to_string();
        assert!(
            refused.contains("board linux has no image") && refused.contains("cargo xtask host hello"),
            "{refused}"
        );
    }

    #[test]
    fn x1_l4_accumulate_runs_where_the_origin_can_add_unless_told_otherwise() {
        let run = |words: &[&str]| {
            let words = ["cargo xtask", "qemu", "accumulate"].iter().chain(words);
            let Verb::Qemu(qemu) = Cli::try_parse_from(words).expect("words").verb else { panic!("no run") };
            format!("{:?}", qemu.into_run())
        };
        let has = |run: String, torus: &str, mode: &str| {
            let all = [format!("torus: \"{torus}\""), format!("mode: {mode}"), "icount: true".into()];
            assert!(all.iter().all(|words| run.contains(words)), "{run}");
        };
        has(run(&[]), "1", "Vn");
        has(run(&["--torus", "2"]), "2", "Smp");
        has(run(&["--mode", "smp"]), "2", "Smp");
    }
}
