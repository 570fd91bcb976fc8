//! How the nodes of `qemu` and `host` shall be, in words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::Files;
use crate::arch::Arch;
use crate::board::Board;
use crate::jobs;
use crate::personality::{Level, Map, Mode};
use crate::run::Run;
use crate::trace;

#[derive(Args)]
pub(super) struct Qemu {
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
}

#[derive(Args)]
pub(super) struct Host {
    #[command(flatten)]
    nodes: Nodes,
    /// So many nodes in a row: the same as --torus N
    #[arg(long = "nodes", value_name = "N", conflicts_with = "torus", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Send messages through the fabric, as between emulated nodes, and have no memory in common: no node can harm another's
    #[arg(long)]
    fabric: bool,
    /// Send messages in UDP datagrams from node to node, and have no memory in common: the address and port of each node, in the
    /// order of their numbers, as in 10.9.0.1:7000,10.9.0.2:7000 or [fd00::1]:7000,[fd00::2]:7000
    ///
    /// A plain Ethernet, as with --plain. Nothing is encrypted, and nobody proves who he is: for networks that are trusted.
    #[arg(long, value_name = "ADDRESSES", conflicts_with_all = ["fabric", "plain"])]
    udp: Option<String>,
    /// Say at the start, in a few lines, how messages go and are copied, how harts wait, and on which cores they are
    #[arg(long)]
    explain: bool,
    /// Start these nodes of --udp alone, as in 0-3,8; the others are started by the same command with another --here, on this
    /// machine or another, before or after it [default: all]
    #[arg(long, value_name = "LIST", requires = "udp")]
    here: Option<String>,
    /// Instruction set of the nodes: this machine's own, or aarch64, with QEMU in the place of the processor
    #[arg(long, value_parser = processes(), default_value = Arch::Native.name())]
    arch: Arch,
    /// Look for data races between the harts of a node, by ThreadSanitizer; takes a nightly Rust with its source
    #[arg(long, conflicts_with_all = ["image", "trace"])]
    races: bool,
    /// Bind harts to these cores, as in 0-3,8: node by node, and from the first again if there are more harts
    /// [default: a core each, if there are enough for all]
    #[arg(long, value_name = "LIST")]
    pin: Option<String>,
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
    /// Establish a geometry at the start, as in coll.verdict:0-7:0:allreduce=ring (may be given several times)
    ///
    /// Of a client, by a name: tasks (all, or as in 0-3,8-14/2), contexts of each, and the list of algorithms that it chooses
    /// from, as in broadcast=flat+binomial,barrier=n-ary; collectives that are not named have all of theirs.
    #[arg(long, value_name = "CLIENT.NAME:TASKS[:CONTEXTS[:ALGORITHMS]]")]
    geometry: Vec<String>,
    /// Give each node's last hart to the message unit
    #[arg(long)]
    agent_core: bool,
    /// Join the nodes by the torus only, not by the collective (tree) network as well
    #[arg(long)]
    no_tree: bool,
    /// Let the job have files: those in DIR, which is made if it is not there, and nothing outside of it
    ///
    /// I/O nodes act on them, processes of this machine at the root of the tree network.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Bytes that these files may grow by, all together, as in 64MiB; what is removed does not give them back
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "1GiB", value_parser = size)]
    files_limit: u64,
    /// How many I/O nodes the nodes are divided among [default: one for every 64]
    #[arg(long, value_name = "N", requires = "files", value_parser = clap::value_parser!(u32).range(1..))]
    io_nodes: Option<u32>,
    /// Stop the job after this many seconds, counted from the nodes' start [default: 120, none with a debugger]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// A node that gives no sign of life counts as dead after this many seconds; 0 for never, as with a debugger
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    silence: u64,
    /// Capture all packets into FILE, for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Draw the torus and the tree network with what went over each link into FILE, an SVG image
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Write what every hart did, when, and each message's way into FILE, for Perfetto (ui.perfetto.dev) or Chrome's viewer
    ///
    /// Computing, advancing, sleeping, waiting; an arrow from each send to its reception; collectives. The job is built
    /// anew for it, as other images keep nothing of that. docs/results.md says what is what.
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    trace: Option<PathBuf>,
    /// Events that each hart has room for, 32 bytes each; what comes when there is none left is only counted
    #[arg(long, value_name = "N", requires = "trace", default_value_t = trace::EVENTS, value_parser = clap::value_parser!(u32).range(1..))]
    trace_events: u32,
    /// Write how the run went into FILE: each node, each link, times; docs/results.md has the schema
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    /// Nodes are on a plain Ethernet switch, as on most real boards: no torus, no tree, nobody who tells that a node is gone
    #[arg(long)]
    plain: bool,
    /// Serial lines are no faster than this, as real ones; log lines that find no room are dropped and counted
    #[arg(long, value_name = "BITS_PER_SECOND", value_parser = clap::value_parser!(u32).range(i64::from(kernel::personality::MIN_BAUD)..))]
    baud: Option<u32>,
    /// Kill a node so long after all have joined, as in node=3@2s, or an I/O node, as in io=0@2s (may be given several times)
    ///
    /// The other nodes are told, and end by themselves or meet the deadline.
    #[arg(long, value_name = "node=NODE@TIME|io=N@TIME")]
    kill: Vec<String>,
    /// Pull the cables of a node so long after all have joined, as in node=3@2s (may be given several times)
    #[arg(long, value_name = "node=NODE@TIME")]
    cut: Vec<String>,
    /// Have a node, or an I/O node, stand still from a time on, for a while, as in node=3@2s+5s or io=0@2s+5s (may be given
    /// several times)
    #[arg(long, value_name = "node=NODE@TIME+TIME|io=N@TIME+TIME")]
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
    /// Boot this image, in place of one built from the job's source
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Arguments of the job; `-- --help` lists them
    #[arg(last = true, value_name = "JOB ARGS")]
    arguments: Vec<String>,
}

impl Nodes {
    /// The job, if the user wants to know its arguments.
    fn asks_help(&self) -> Option<String> {
        self.arguments.iter().any(|word| ["--help", "-h"].contains(&word.as_str())).then(|| self.job.clone())
    }

    fn files(&self) -> Files {
        Files { picture: self.picture.clone(), json: self.json.clone(), trace: self.trace.clone() }
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
            .counts_links(self.picture.is_some())
            .log(self.log)
            .args(self.arguments)
            .refuse_early();
        if self.plain {
            run = run.plain();
        }
        let torus = self.torus.or_else(|| Some(alone.map_or(usage?.torus, |_| "1").to_owned()));
        run = torus.into_iter().fold(run, Run::torus);
        run = run.icount(board.is_emulated() && usage.is_some_and(|usage| usage.counts));
        run = self.geometry.into_iter().fold(run, Run::geometry);
        run = self.harts.into_iter().fold(run, Run::harts);
        run = self.baud.into_iter().fold(run, Run::baud);
        run = self.topology.into_iter().fold(run, Run::topology);
        run = self.timeout.map(Duration::from_secs).into_iter().fold(run, Run::timeout);
        run = self.pcap.into_iter().fold(run, Run::pcap);
        run = self.trace.iter().fold(run, |run, _| run.trace(self.trace_events));
        run = self.faults.into_iter().fold(run, Run::faults);
        run = self.kill.into_iter().fold(run, Run::kill);
        run = self.cut.into_iter().fold(run, Run::cut);
        run = run.silence(Duration::from_secs(self.silence));
        run = self.pause.into_iter().fold(run, Run::pause);
        run = self.unplug.into_iter().fold(run, Run::unplug);
        run = self.files.into_iter().fold(run, Run::files).files_limit(self.files_limit);
        run = self.io_nodes.into_iter().fold(run, Run::io_nodes);
        run = self.link_down.into_iter().fold(run, Run::link_down);
        run = self.image.into_iter().fold(run, Run::image);
        self.logs.into_iter().fold(run, Run::logs)
    }
}

impl Qemu {
    /// The job.
    pub(super) fn job(&self) -> &str {
        &self.nodes.job
    }

    /// What to write of the run.
    pub(super) fn files(&self) -> Files {
        self.nodes.files()
    }

    /// The job, if the user wants to know its arguments.
    pub(super) fn asks_help(&self) -> Option<String> {
        self.nodes.asks_help()
    }

    pub(super) fn into_run(self) -> Run {
        let timed = self.nodes.timeout.is_some();
        let mut run = self.nodes.into_run(self.board);
        run = self.arch.into_iter().fold(run, Run::arch);
        if !timed && !self.gdb.is_empty() {
            run = run.without_timeout();
        }
        run = self.gdb.into_iter().fold(run, Run::gdb);
        self.qemu_option.into_iter().fold(run, Run::qemu_option)
    }
}

impl Host {
    /// What to write of the run.
    pub(super) fn files(&self) -> Files {
        self.nodes.files()
    }

    /// The job, if the user wants to know its arguments.
    pub(super) fn asks_help(&self) -> Option<String> {
        self.nodes.asks_help()
    }

    pub(super) fn into_run(mut self) -> Run {
        let addresses = self.udp.as_ref().map(|addresses| addresses.split(',').count());
        let count = self.count.map(|count| count.to_string()).or(addresses.map(|count| count.to_string()));
        self.nodes.torus = self.nodes.torus.or(count);
        let run = self
            .nodes
            .into_run(Board::Linux)
            .arch(self.arch)
            .by_fabric(self.fabric)
            .races(self.races)
            .explains(self.explain)
            .bound();
        let run = self.udp.into_iter().fold(run, Run::udp);
        let run = self.here.into_iter().fold(run, Run::here);
        self.pin.into_iter().fold(run, Run::pin)
    }
}

/// A number of bytes, as in 4096, 64KiB, 64MiB or 2GiB.
fn size(word: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|&(unit, shift)| Some((word.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((word, 0));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{word:?} is no size: write it as in 4096, 64KiB, 64MiB or 2GiB"))
}

fn processes() -> impl TypedValueParser<Value = Arch> {
    PossibleValuesParser::new(Arch::of_processes().iter().map(|arch| arch.name())).try_map(|name| {
        Arch::of_processes()
            .iter()
            .find(|arch| arch.name() == name)
            .copied()
            .ok_or("no instruction set of processes")
    })
}

fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name))
        .try_map(|name| name.parse::<Level>().map_err(|_| "no level"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_a_limit_of_bytes_is_read_in_its_unit() {
        assert_eq!([size("4096"), size("64KiB"), size("1GiB")], [Ok(4096), Ok(64 << 10), Ok(1 << 30)]);
        for wrong in ["", "MiB", "1MB", "-1", "99999999999GiB", "1.5GiB"] {
            assert!(size(wrong).is_err_and(|why| why.contains("64MiB")), "{wrong}");
        }
    }
}
