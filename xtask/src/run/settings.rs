//! What a run shall be: its settings and their defaults.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::harm::{Harm, Kill, KillWhen, Victim};
use crate::arch::Arch;
use crate::board::Board;
use crate::firmware::ONE_IMAGE;
use crate::personality::{Level, Map, Mode};
use crate::progress::Voice;

/// Where the firmware comes from.
#[derive(Clone, Debug)]
pub(super) enum Image {
    /// Built from the job's source.
    Job,
    /// A file.
    File(PathBuf),
    /// None: the emulator is a stand-in.
    None,
}

/// Which cores harts that are threads of this machine are bound to.
#[derive(Clone, Debug)]
pub(super) enum Pin {
    /// They run where the host likes.
    Nowhere,
    /// A core each, if there are enough for all; else as above.
    IfEnough,
    /// Those of a list.
    To(String),
}

/// What a job's files shall be.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The directory that they are in, which is made if it is not there.
    pub directory: PathBuf,
    /// Bytes that they may grow by, all together.
    pub limit: u64,
    /// How many I/O nodes; as many as are needed if nothing is said.
    pub io_nodes: Option<u32>,
    /// The program that an I/O node is; this one if nothing is said.
    pub program: Option<PathBuf>,
}

/// Bytes that a job's files may grow by, if nothing is said.
const FILES_LIMIT: u64 = 1 << 30;

/// A run to be: how many nodes of what kind do which job.
#[derive(Clone, Debug)]
pub struct Run {
    pub(super) job: String,
    pub(super) arch: Arch,
    pub(super) board: Board,
    pub(super) torus: String,
    pub(super) harts: Option<u8>,
    pub(super) topology: Option<String>,
    pub(super) mode: Mode,
    pub(super) map: Map,
    pub(super) memory: u32,
    pub(super) contexts: u8,
    pub(super) geometries: Vec<String>,
    pub(super) peers: Option<u32>,
    pub(super) lossless: bool,
    pub(super) plain: bool,
    pub(super) baud: Option<u32>,
    pub(super) by_fabric: bool,
    pub(super) explains: bool,
    pub(super) udp: Option<String>,
    pub(super) here: Option<String>,
    pub(super) races: bool,
    pub(super) counts_links: bool,
    pub(super) agent: bool,
    pub(super) tree: bool,
    pub(super) files: Option<Files>,
    pub(super) arguments: Vec<String>,
    pub(super) deadline: Option<Duration>,
    pub(super) silence: Option<Duration>,
    pub(super) pcap: Option<PathBuf>,
    pub(super) log: Level,
    pub(super) trace: Option<u32>,
    pub(super) gdb: Vec<u32>,
    pub(super) logs: Option<PathBuf>,
    pub(super) options: Vec<String>,
    pub(super) icount: bool,
    pub(super) adapter: bool,
    pub(super) pin: Pin,
    pub(super) bootargs: HashMap<u32, String>,
    pub(super) kills: Vec<Kill>,
    pub(super) harm_words: Vec<(String, Harm)>,
    pub(super) go_on: bool,
    pub(super) refuse_early: bool,
    pub(super) faults: Option<String>,
    pub(super) links_down: Vec<String>,
    pub(super) emulator: Option<PathBuf>,
    pub(super) image: Image,
    pub(super) together: bool,
    pub(super) voice: Voice,
    pub(super) interrupt: Arc<AtomicBool>,
}

impl Run {
    /// A run of `job` with the defaults: aarch64, board virt, torus 2x2x2, 2 harts, SMP mode, 256 MiB, 120 s; quiet.
    pub fn new(job: impl Into<String>) -> Self {
        Self {
            job: job.into(),
            arch: Arch::Aarch64,
            board: Board::Virt,
            torus: "2x2x2".into(),
            harts: None,
            topology: None,
            mode: Mode::default(),
            map: Map::default(),
            memory: 256,
            contexts: 4,
            geometries: Vec::new(),
            peers: None,
            lossless: false,
            plain: false,
            baud: None,
            by_fabric: false,
            explains: false,
            udp: None,
            here: None,
            races: false,
            counts_links: false,
            agent: false,
            tree: true,
            files: None,
            arguments: Vec::new(),
            deadline: Some(Duration::from_secs(120)),
            silence: Some(Duration::from_secs(60)),
            pcap: None,
            log: Level::default(),
            trace: None,
            gdb: Vec::new(),
            logs: None,
            options: Vec::new(),
            icount: false,
            adapter: true,
            pin: Pin::Nowhere,
            bootargs: HashMap::new(),
            kills: Vec::new(),
            harm_words: Vec::new(),
            go_on: false,
            refuse_early: false,
            faults: None,
            links_down: Vec::new(),
            emulator: None,
            image: Image::Job,
            together: std::env::var_os(ONE_IMAGE).is_some(),
            voice: Voice::quiet(),
            interrupt: Arc::new(AtomicBool::new(false)),
        }
    }

    /// The nodes' instruction set.
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// The job in the image that has all of them, which is built once for many runs.
    pub fn one_image(mut self) -> Self {
        self.together = true;
        self
    }

    /// The nodes' board, and its usual instruction set, if it does not come with the one that is set.
    pub fn board(mut self, board: Board) -> Self {
        self.board = board;
        match board.archs() {
            [usual, ..] if !board.archs().contains(&self.arch) => self.arch(*usual),
            _ => self,
        }
    }

    /// The torus, as in `2x2x2` or `4x2m`.
    pub fn torus(mut self, shape: impl Into<String>) -> Self {
        self.torus = shape.into();
        self
    }

    /// Harts per node, 1 to 64; 2 if neither they nor their topology are said.
    pub fn harts(mut self, harts: u8) -> Self {
        self.harts = Some(harts);
        self
    }

    /// How the harts make up a node: sockets x cores x threads, as in `2x2x2`, or sockets x clusters x cores x
    /// threads; see [`HartTopology`](kernel::personality::HartTopology).
    pub fn topology(mut self, topology: impl Into<String>) -> Self {
        self.topology = Some(topology.into());
        self
    }

    /// How harts are divided among tasks.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The order of tasks.
    pub fn map(mut self, map: Map) -> Self {
        self.map = map;
        self
    }

    /// Memory per node in MiB.
    pub fn memory(mut self, mebibytes: u32) -> Self {
        self.memory = mebibytes;
        self
    }

    /// The most nodes at once that a node keeps connections to, 2 or more; else as many as it can.
    pub fn peers(mut self, peers: u32) -> Self {
        self.peers = Some(peers);
        self
    }

    /// Whether nodes take the torus for one that loses nothing, as it does without faults.
    pub fn lossless(mut self, lossless: bool) -> Self {
        self.lossless = lossless;
        self
    }

    /// Nodes are on a plain Ethernet switch, without torus and tree, and gather themselves.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Bits a second that each node's serial line is not faster than, 300 or more; else as fast as it can.
    pub fn baud(mut self, baud: u32) -> Self {
        self.baud = Some(baud);
        self
    }

    /// Whether nodes that are processes of this machine send packets through the fabric, though they could share memory.
    pub fn by_fabric(mut self, by_fabric: bool) -> Self {
        self.by_fabric = by_fabric;
        self
    }

    /// Whether it is said at the start what goes which way, and why, on nodes that are processes of this machine.
    pub fn explains(mut self, explains: bool) -> Self {
        self.explains = explains;
        self
    }

    /// Nodes that are processes send each other UDP datagrams, as on a plain Ethernet: each at its address and port of this list,
    /// in the order of their numbers, as in `10.9.0.1:7000,10.9.0.2:7000` or `[::1]:7000,[::1]:7001`.
    pub fn udp(mut self, addresses: impl Into<String>) -> Self {
        self.udp = Some(addresses.into());
        self.plain()
    }

    /// Which of the nodes [at addresses](Self::udp) this starts, as in `0-3,8`: all if nothing is said. The others are another run's,
    /// on this machine or another, which is waited for.
    pub fn here(mut self, nodes: impl Into<String>) -> Self {
        self.here = Some(nodes.into());
        self
    }

    /// Whether it is to be known what went over each link: packets go through the fabric then, which counts.
    pub fn counts_links(mut self, counts_links: bool) -> Self {
        self.counts_links = counts_links;
        self
    }

    /// The largest number of contexts per client and task, 1 to 8.
    pub fn contexts(mut self, contexts: u8) -> Self {
        self.contexts = contexts;
        self
    }

    /// A geometry that is there from the start, as in `coll.verdict:0-7:0:allreduce=ring`: see
    /// [`ConfiguredGeometry`](pami::client::ConfiguredGeometry).
    pub fn geometry(mut self, word: impl Into<String>) -> Self {
        self.geometries.push(word.into());
        self
    }

    /// Whether each node's last hart runs the message unit only.
    pub fn agent_core(mut self, agent: bool) -> Self {
        self.agent = agent;
        self
    }

    /// Whether nodes are on the collective (tree) network as well; they are unless told otherwise.
    pub fn tree(mut self, tree: bool) -> Self {
        self.tree = tree;
        self
    }

    /// The job has files: those in this directory, which is made if it is not there (SPEC S-2). They may grow by 1 GiB.
    pub fn files(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.files = Some(Files { directory, limit: FILES_LIMIT, io_nodes: None, program: None });
        self
    }

    /// Bytes that the job's [files](Self::files) may grow by, all together; I/O nodes share them equally.
    pub fn files_limit(mut self, bytes: u64) -> Self {
        self.files = self.files.map(|files| Files { limit: bytes, ..files });
        self
    }

    /// How many I/O nodes serve the job's [files](Self::files), which nodes are divided among; else one for every 64.
    pub fn io_nodes(mut self, count: u32) -> Self {
        self.files = self.files.map(|files| Files { io_nodes: Some(count), ..files });
        self
    }

    /// The program that I/O nodes of the job's [files](Self::files) are: what `cargo xtask` is, if that is not the one that runs.
    pub fn io_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.files = self.files.map(|files| Files { program: Some(program.into()), ..files });
        self
    }

    /// The job's arguments, each a single word.
    pub fn args<T: Into<String>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// How long the nodes may take from their start. Time to build is not counted.
    pub fn timeout(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// After how long without a sign of life a node counts as dead; with 0, or with a debugger at any node, never. 60 s if
    /// nothing is said (SPEC R-2).
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence).filter(|silence| !silence.is_zero());
        self
    }

    /// The nodes may take as long as they want.
    pub fn without_timeout(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// Writes a capture of all packets.
    pub fn pcap(mut self, file: impl Into<PathBuf>) -> Self {
        self.pcap = Some(file.into());
        self
    }

    /// The least grave log lines that nodes send.
    pub fn log(mut self, level: Level) -> Self {
        self.log = level;
        self
    }

    /// Each hart keeps so many events, 1 or more, and tells them at the node's end.
    pub fn trace(mut self, events: u32) -> Self {
        self.trace = Some(events);
        self
    }

    /// The node waits for a debugger before its first instruction.
    pub fn gdb(mut self, node: u32) -> Self {
        self.gdb.push(node);
        self
    }

    /// The folder for logs, kept in any case.
    pub fn logs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.logs = Some(folder.into());
        self
    }

    /// A further word for QEMU, as in `.qemu_option("-icount").qemu_option("shift=0")`.
    pub fn qemu_option(mut self, word: impl Into<String>) -> Self {
        self.options.push(word.into());
        self
    }

    /// Whether nodes count instructions: each then takes a nanosecond of the node's own time, one host thread runs
    /// all harts of a node, and packets reach it at [certain times](crate::node::ICOUNT_PACE) only.
    pub fn icount(mut self, icount: bool) -> Self {
        self.icount = icount;
        self
    }

    /// Whether nodes have a network adapter; only a node that is alone can do without.
    pub fn adapter(mut self, adapter: bool) -> Self {
        self.adapter = adapter;
        self
    }

    /// Data races between harts of a node are looked for, by ThreadSanitizer in each process; the first one ends its node.
    pub fn races(mut self, races: bool) -> Self {
        self.races = races;
        self
    }

    /// Binds harts that are threads of this machine to its cores, if it has enough for all. Other runs beside would do the same.
    pub fn bound(mut self) -> Self {
        self.pin = Pin::IfEnough;
        self
    }

    /// Binds harts that are threads of this machine to the cores of a list, as in `0-3,8`, node by node, and from the first again
    /// if there are more harts.
    pub fn pin(mut self, cores: impl Into<String>) -> Self {
        self.pin = Pin::To(cores.into());
        self
    }

    /// Gives a node these boot arguments in place of its own.
    pub fn bootargs_override(mut self, node: u32, bootargs: impl Into<String>) -> Self {
        self.bootargs.insert(node, bootargs.into());
        self
    }

    /// Kills a node's emulator from outside at some moment.
    pub fn kill_node_at(mut self, node: u32, when: KillWhen) -> Self {
        self.kills.push(Kill::new(Victim::Node(node), Harm::Kill, when));
        self
    }

    /// Does harm to an I/O node at some moment: kills it, or has it stand still.
    pub fn harm_io_node_at(mut self, number: u32, harm: Harm, when: KillWhen) -> Self {
        self.kills.push(Kill::new(Victim::IoNode(number), harm, when));
        self
    }

    /// Kills a node's emulator at a time after all had joined, as in `node=3@2s`: the others [go on](Self::go_on); or an I/O
    /// node, as in `io=0@2s`.
    pub fn kill(mut self, words: impl Into<String>) -> Self {
        let words = words.into();
        // Without an I/O node tasks fail, for which the others may wait for ever.
        let of_node = !words.starts_with("io=");
        self.harm_words.push((words, Harm::Kill));
        if of_node { self.go_on() } else { self }
    }

    /// Pulls a node's cables at a time after all had joined, as in `node=3@2s`; the others [go on](Self::go_on).
    pub fn cut(mut self, words: impl Into<String>) -> Self {
        self.harm_words.push((words.into(), Harm::Cut));
        self.go_on()
    }

    /// Has a node's emulator, or an I/O node, stand still from a time after all had joined, for a while: `node=3@2s+5s`,
    /// `io=0@2s+5s`.
    pub fn pause(mut self, words: impl Into<String>) -> Self {
        self.harm_words.push((words.into(), Harm::Pause(Duration::ZERO)));
        self
    }

    /// Has a node's emulator stand still for `length` at some moment.
    pub fn pause_node_at(mut self, node: u32, length: Duration, when: KillWhen) -> Self {
        self.kills.push(Kill::new(Victim::Node(node), Harm::Pause(length), when));
        self
    }

    /// The link of a node's card on the torus goes down at a time after all had joined, for a while, `node=3@2s+5s`, or for
    /// ever, `node=3@2s`; the others [go on](Self::go_on).
    pub fn unplug(mut self, words: impl Into<String>) -> Self {
        self.harm_words.push((words.into(), Harm::Unplug(None)));
        self.go_on()
    }

    /// A node's failure does not stop the others: they end by themselves or meet the deadline.
    pub fn go_on(mut self) -> Self {
        self.go_on = true;
        self
    }

    /// What befalls packets, as in `drop=1%,corrupt=0.1%,dup=1%,delay=0..20ms,reorder=5%,seed=7`; see
    /// [`Faults`](crate::fabric::Faults).
    pub fn faults(mut self, words: impl Into<String>) -> Self {
        self.faults = Some(words.into());
        self
    }

    /// One direction of a link loses all packets for a while, as in `0:+x@1s..3s`; see
    /// [`LinkDown`](crate::fabric::LinkDown).
    pub fn link_down(mut self, words: impl Into<String>) -> Self {
        self.links_down.push(words.into());
        self
    }

    /// Boots this image instead of building one.
    pub fn image(mut self, file: impl Into<PathBuf>) -> Self {
        self.image = Image::File(file.into());
        self
    }

    /// Starts this program in QEMU's place, without any firmware. For tests of the runner itself.
    pub fn stand_in(mut self, program: impl Into<PathBuf>) -> Self {
        self.emulator = Some(program.into());
        self.image = Image::None;
        self
    }

    /// Refuses arguments and shapes that the job does not take before anything boots, not only on the nodes.
    pub fn refuse_early(mut self) -> Self {
        self.refuse_early = true;
        self
    }

    /// Who hears what goes on.
    pub fn voice(mut self, voice: Voice) -> Self {
        self.voice = voice;
        self
    }

    /// Ends the run as soon as this is true.
    pub fn interrupt(mut self, flag: Arc<AtomicBool>) -> Self {
        self.interrupt = flag;
        self
    }
}
