//! The command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arch::Arch;
use crate::board::{self, Board};
use crate::personality::{Level, Map, Mode};
use crate::progress::Voice;
use crate::run::{Ending, Outcome, Run};
use crate::suite::{self, Scope};
use crate::{bench, claims, conform, docs, doctor, firmware, helper, jobs, node, serial, table};

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
    /// Run a job on this machine itself: a process is a node, a thread is a hart, and nothing is emulated
    ///
    /// The same jobs on the same kernel, torus and tree network as with `qemu`, faults too. Harts are bound to cores if
    /// there are enough for all. The exit codes are those of `qemu`.
    Host(Box<Host>),
    /// List the jobs that nodes can run
    Jobs,
    /// List the boards that nodes run on, what each has, and how it was tried
    Boards,
    /// Write the image of a job that a board's boot loader starts, and how to start it
    Image(Image),
    /// Show what a node on a serial line says, until it tells its end; the exit code is the node's status
    Serial(Serial),
    /// Run all checks and tests, the stages that FILTER names, or the tests whose name contains it
    Test(Test),
    /// Install and build what the tests boot: the emulators, and all jobs in one image for each architecture
    #[command(hide = true)]
    Images,
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
    },
    /// Measure what a porter looks at first: clock, timer, wake-ups, a cache line to and fro, copies, frames and messages
    Board {
        /// Board of the nodes
        #[arg(long, value_enum, default_value = "virt")]
        board: Board,
        /// Instruction set of the nodes [default: aarch64, or that of the board]
        #[arg(long, value_enum)]
        arch: Option<Arch>,
    },
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
    },
}

#[derive(Args)]
struct Qemu {
    #[command(flatten)]
    nodes: Nodes,
    /// Board of the nodes
    #[arg(long, value_enum, default_value = "virt")]
    board: Board,
    /// Instruction set of the nodes [default: aarch64, or that of the board]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Let this node wait for a debugger (may be given several times)
    #[arg(long, value_name = "NODE")]
    gdb: Vec<u32>,
    /// Further option for QEMU, one word each; may be given several times
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    qemu_option: Vec<String>,
    /// Boot this image, in place of one built from the job's source
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

#[derive(Args)]
struct Host {
    #[command(flatten)]
    nodes: Nodes,
    /// So many nodes in a row: the same as --torus N
    #[arg(long = "nodes", value_name = "N", conflicts_with = "torus", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

/// A run, whatever its nodes are.
#[derive(Args)]
struct Nodes {
    /// What to run; `cargo xtask jobs` lists all
    #[arg(default_value = "npb-is")]
    job: String,
    /// Shape of the torus: 1 to 5 extents; an `m` makes a dimension a mesh, as in 4x2m
    /// [default: 2x2x2, or what the job needs]
    #[arg(long, value_name = "SHAPE")]
    torus: Option<String>,
    /// Hardware threads per node [default: 2, or as many as the topology has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    harts: Option<u8>,
    /// How they make up a node: sockets x cores x threads, as in 2x2x2, or sockets x clusters x cores x threads
    #[arg(long, value_name = "SHAPE")]
    topology: Option<String>,
    /// One task per node (smp) or one per hart (vn) [default: smp, or what the job needs]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Number tasks over the nodes first (xyzt) or over a node's harts first (txyz)
    #[arg(long, value_enum, default_value = "xyzt")]
    map: Map,
    /// Memory per node
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(40..))]
    memory: u32,
    /// Largest number of contexts per client and task
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    contexts: u8,
    /// Give each node's last hart to the message unit
    #[arg(long)]
    agent_core: bool,
    /// Join the nodes by the torus only, not by the collective (tree) network as well
    #[arg(long)]
    no_tree: bool,
    /// Stop the job after this many seconds, counted from the nodes' start [default: 120, none with a debugger]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// A node that gives no sign of life counts as dead after this many seconds; 0 for never, as with a debugger
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    silence: u64,
    /// Capture all packets into FILE, for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// What befalls packets on their way: drop, corrupt, dup and reorder in percent, delay, and a seed
    ///
    /// As in drop=1%,corrupt=0.1%,dup=1%,delay=0..20ms,reorder=5%,seed=7. Percentages are of packets, however
    /// far they go. The same seed strikes the same packets of each pair of nodes.
    #[arg(long, value_name = "FAULTS")]
    faults: Option<String>,
    /// Nodes take the torus for one that loses nothing: messages cost less, and a frame that is missing ends its receiver
    ///
    /// So it is without faults. A context that takes nothing holds up what is for others of its node.
    #[arg(long)]
    lossless: bool,
    /// Kill a node so long after all have joined, as in node=3@2s (may be given several times)
    ///
    /// The other nodes are told, and end by themselves or meet the deadline.
    #[arg(long, value_name = "node=NODE@TIME")]
    kill: Vec<String>,
    /// Pull the cables of a node so long after all have joined, as in node=3@2s (may be given several times)
    #[arg(long, value_name = "node=NODE@TIME")]
    cut: Vec<String>,
    /// Have a node stand still from a time on, for a while, as in node=3@2s+5s (may be given several times)
    #[arg(long, value_name = "node=NODE@TIME+TIME")]
    pause: Vec<String>,
    /// Have the link of a node's torus card go down, for a while as in node=3@2s+5s, or for ever as in node=3@2s (may be
    /// given several times)
    ///
    /// The node sees that, as it would a cable that was pulled. --link-down is a link between two routers.
    #[arg(long, value_name = "node=NODE@TIME[+TIME]")]
    unplug: Vec<String>,
    /// Lose all packets on a link for a while, as in 0:+x@1s..3s (may be given several times)
    ///
    /// Those that leave node 0 in direction +x, from 1 s to 3 s after all have joined; for ever with 0:+x@1s..
    /// What comes the other way crosses another link, here 1:-x.
    #[arg(long, value_name = "NODE:LINK@FROM..UNTIL")]
    link_down: Vec<String>,
    /// Least grave log lines that nodes send; `debug` tells how they boot, join and end
    #[arg(long, value_name = "LEVEL", default_value_t, value_parser = level())]
    log: Level,
    /// Folder for the run's logs [default: a new one under target/pamir]
    #[arg(long, visible_alias = "keep", value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Arguments of the job; `-- --help` lists them
    #[arg(last = true, value_name = "JOB ARGS")]
    arguments: Vec<String>,
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
    /// The line, as in /dev/ttyUSB0 after `stty -F /dev/ttyUSB0 115200 raw`, or a file [default: the standard input]
    line: Option<PathBuf>,
}

/// An address, in hexadecimal.
fn address(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16)
        .map_err(|_| format!("{word:?} is no address: hexadecimal, as in 0x40400000"))
}

fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name))
        .try_map(|name| name.parse::<Level>().map_err(|_| "no level"))
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
    /// Tests run at full size; takes hours
    #[arg(long)]
    long: bool,
    /// Run nothing: list the requirements of docs/requirements.md and the tests that carry each; fail if one has none
    #[arg(long, exclusive = true)]
    claims: bool,
}

/// Does what the command line says; the result is the exit code.
pub fn main() -> u8 {
    let cli = Cli::parse();
    let voice = Voice::terminal();
    let interrupt = match listen(&voice, matches!(cli.verb, Verb::Qemu(_) | Verb::Host(_) | Verb::Conform(_)))
    {
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
        Verb::Qemu(qemu) => boot(qemu.nodes.asks_help(), || qemu.into_run(), interrupt, voice),
        Verb::Host(host) => boot(host.nodes.asks_help(), || host.into_run(), interrupt, voice),
        Verb::Jobs => list(voice).map(code),
        Verb::Boards => {
            voice.print(&board::list());
            Ok(0)
        }
        Verb::Image(image) => image.write(voice).map(|()| 0),
        Verb::Serial(Serial { elf, at, line }) => {
            serial::listen(&serial::Words::load(&elf, at)?, line.as_deref(), voice)
        }
        Verb::Test(test) if test.claims => claims::list(voice).map(code),
        Verb::Test(test) => {
            let scope = match (test.host_only, test.guests_only) {
                (true, _) => Scope::Host,
                (_, true) => Scope::Guests,
                _ => Scope::All,
            };
            suite::run(test.filter.as_deref(), scope, test.long, voice).map(code)
        }
        Verb::Conform(Conform { step, board, arch }) => {
            conform::run(board, arch, step.as_deref(), interrupt, voice).map(code)
        }
        Verb::Images => firmware::build_all(voice).map(|()| 0),
        Verb::Bench(Bench::Instructions { arch, update }) => {
            bench::instructions(arch, update, voice).map(code)
        }
        Verb::Bench(Bench::Board { board, arch }) => {
            voice.print(bench::board(board, arch, voice)?.trim_end());
            Ok(0)
        }
        Verb::Bench(Bench::Ratios { arch, rounds }) => {
            voice.print(bench::ratios(arch, rounds, voice)?.trim_end());
            Ok(0)
        }
        Verb::Doc => docs::run(voice).map(code),
        Verb::Doctor { fix } => doctor::doctor(fix, voice).map(code),
    }
}

/// Does a `run`, or tells the arguments of the job that the user `asks` for.
fn boot(
    asks: Option<String>,
    run: impl FnOnce() -> Run,
    interrupt: &Arc<AtomicBool>,
    voice: &Voice,
) -> Result<u8> {
    if let Some(job) = asks {
        jobs::check(&job)?;
        voice.print(&jobs::help(&job)?);
        return Ok(0);
    }
    let outcome = run().voice(voice.clone()).interrupt(Arc::clone(interrupt)).run()?;
    close(&outcome, voice);
    Ok(outcome.exit_code())
}

/// Hears Ctrl-C and its kin: the first ends what works for this program and sets the flag, the second ends all at once.
fn listen(voice: &Voice, runs_guests: bool) -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to Ctrl-C")?;
    let voice = voice.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            helper::end_all();
            if !runs_guests || flag.swap(true, Ordering::Relaxed) {
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
        let request = firmware::Request { arch, job: job.clone(), together: false };
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

impl Nodes {
    /// The job, if the user wants to know its arguments.
    fn asks_help(&self) -> Option<String> {
        self.arguments.iter().any(|word| ["--help", "-h"].contains(&word.as_str())).then(|| self.job.clone())
    }

    fn into_run(self, board: Board) -> Run {
        let usage = jobs::usage(&self.job);
        let alone = usage.filter(|usage| usage.alone && self.torus.is_none() && self.mode.is_none());
        let mode = if alone.is_some() { Mode::Vn } else { Mode::default() };
        let mut run = Run::new(self.job).board(board);
        run = run
            .mode(self.mode.unwrap_or(mode))
            .map(self.map)
            .memory(self.memory)
            .contexts(self.contexts)
            .agent_core(self.agent_core)
            .tree(!self.no_tree)
            .lossless(self.lossless)
            .log(self.log)
            .args(self.arguments)
            .refuse_early();
        let torus = self.torus.or_else(|| Some(alone.map_or(usage?.torus, |_| "1").to_owned()));
        run = torus.into_iter().fold(run, Run::torus);
        run = run.icount(board.is_emulated() && usage.is_some_and(|usage| usage.counts));
        run = self.harts.into_iter().fold(run, Run::harts);
        run = self.topology.into_iter().fold(run, Run::topology);
        run = self.timeout.map(Duration::from_secs).into_iter().fold(run, Run::timeout);
        run = self.pcap.into_iter().fold(run, Run::pcap);
        run = self.faults.into_iter().fold(run, Run::faults);
        run = self.kill.into_iter().fold(run, Run::kill);
        run = self.cut.into_iter().fold(run, Run::cut);
        run = run.silence(Duration::from_secs(self.silence));
        run = self.pause.into_iter().fold(run, Run::pause);
        run = self.unplug.into_iter().fold(run, Run::unplug);
        run = self.link_down.into_iter().fold(run, Run::link_down);
        self.logs.into_iter().fold(run, Run::logs)
    }
}

impl Qemu {
    fn into_run(self) -> Run {
        let timed = self.nodes.timeout.is_some();
        let mut run = self.nodes.into_run(self.board);
        run = self.arch.into_iter().fold(run, Run::arch);
        if !timed && !self.gdb.is_empty() {
            run = run.without_timeout();
        }
        run = self.gdb.into_iter().fold(run, Run::gdb);
        run = self.qemu_option.into_iter().fold(run, Run::qemu_option);
        self.image.into_iter().fold(run, Run::image)
    }
}

impl Host {
    fn into_run(mut self) -> Run {
        self.nodes.torus = self.nodes.torus.or(self.count.map(|count| count.to_string()));
        self.nodes.into_run(Board::Linux).bound()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
