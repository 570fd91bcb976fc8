//! One emulated node: QEMU's command line, its process, its end.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};

use kernel::personality::AGAIN;
use pami::affinity::HartPlace;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::arch::Arch;
use crate::board::{Board, Cards};
use crate::personality::HartTopology;

/// The longest packet behind the Ethernet header, in bytes, that a node's adapter is told of: 16 KiB of bulk data behind the
/// packet's header and the link header of 32 each, and ranks of 8.
pub const ADAPTER_MTU: u32 = 16 * 1024 + 32 + 32 + 8;

/// The same of a frame that is a datagram: with its Ethernet header's 14 bytes, UDP's 8 and IPv6's 40 it fits an Ethernet of 1500,
/// and bulk data are a multiple of 16.
pub const UDP_MTU: u32 = 1432;

/// Asks a kernel whether it lives: a byte on its console's line (`kernel/src/question.rs`).
pub const QUESTION: &[u8] = b"?";

/// How the address of a node's card on the torus begins, like that of any card of the emulator's: none that the node could
/// reckon from its rank.
const STATION: &str = "52:54:00";

/// The same for a node's adapter on the tree: 4096 behind the packet's header of 24.
pub const TREE_MTU: u32 = 4096 + 24;

/// The emulator's name of a node's connection to the torus.
pub const TORUS: &str = "torus";

/// A node whose instructions are counted gets packets at multiples of this much of its own time only, so that the
/// host's speed does not tell between which instructions one comes.
pub const ICOUNT_PACE: Duration = Duration::from_millis(2);

/// How a node is emulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The emulator's program, or the node's own.
    pub emulator: PathBuf,
    /// The program that starts it so that it dies with this process, where there is one.
    pub setpriv: Option<PathBuf>,
    /// The instruction set.
    pub arch: Arch,
    /// The board.
    pub board: Board,
    /// The firmware, as the board's emulation takes it, if the emulator is a real one.
    pub image: Option<PathBuf>,
    /// The device tree, if the emulator makes none.
    pub tree: Option<PathBuf>,
    /// The ELF file that it was made of, or is.
    pub elf: Option<PathBuf>,
    /// Number of harts.
    pub harts: u8,
    /// How they make up a node, if the emulator is to be told.
    pub topology: Option<HartTopology>,
    /// Memory in MiB.
    pub memory: u32,
    /// Whether instructions are counted.
    pub icount: bool,
    /// Its program looks for data races.
    pub races: bool,
    /// Cores that all nodes have together.
    pub processors: usize,
    /// The host's cores that the harts of all nodes are bound to, one after the other, if they are.
    pub cores: Vec<usize>,
    /// Where the harts of each node are then.
    pub places: Vec<HartPlace>,
    /// The NUMA node that all cores of each node are of, where this machine has several.
    pub numa: Vec<Option<usize>>,
    /// Whether there is a network adapter.
    pub adapter: bool,
    /// Further options, as they are.
    pub options: Vec<String>,
}

/// What makes one node different from the others.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its rank.
    pub rank: u32,
    /// How many nodes this tool has started before it.
    pub before: usize,
    /// Its boot arguments.
    pub bootargs: String,
    /// The fabric's listener.
    pub torus: PathBuf,
    /// The fabric's listener for the tree, if the node is on it.
    pub tree: Option<PathBuf>,
    /// Where its console listens, if it stays for further runs; it listens for the fabric too then.
    pub line: Option<PathBuf>,
    /// So many nodes, if they share memory, which its standard input has.
    pub segment: Option<u32>,
    /// The addresses of all nodes, with commas between, if they send each other datagrams.
    pub udp: Option<String>,
    /// Where QEMU listens for its control protocol.
    pub control: PathBuf,
    /// The socket at which the node waits for a debugger before its first instruction.
    pub gdb: Option<PathBuf>,
}

/// A comma ends an option's value, two are one comma.
fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The value of `-smp`.
///
/// A node of one hart might have another one: QEMU 7.2 leaves out the barriers of a guest that can have but one processor,
/// though its devices run beside it, and a driver's kick was lost for good between its store and its load (SPEC D-1).
/// With instructions counted all is in one thread.
fn smp(machine: &Machine) -> String {
    let harts = machine.board.cores(machine.harts);
    let most = if harts == 1 && !machine.icount { ",maxcpus=2" } else { "" };
    machine.topology.map_or(format!("{harts}{most}"), |topology| {
        let HartTopology { sockets, clusters, cores, threads } = topology;
        format!("{harts},sockets={sockets},clusters={clusters},cores={cores},threads={threads}")
    })
}

/// The words that a node's process is started with, where Linux is the board (`kernel/src/arch/linux/machine.rs`).
fn words(machine: &Machine, place: &Identity) -> Vec<String> {
    let mut words = vec![format!("harts={}", machine.harts), format!("memory={}", machine.memory)];
    let first = place.before * usize::from(machine.harts);
    let cores = machine.cores.get(first..first + usize::from(machine.harts)).unwrap_or_default();
    if !cores.is_empty() {
        let cores: Vec<_> = cores.iter().map(ToString::to_string).collect();
        words.push(format!("cores={}", cores.join(",")));
        let place =
            |place: &HartPlace| format!("{}.{}.{}.{}", place.socket, place.cluster, place.core, place.thread);
        words.push(format!("places={}", machine.places.iter().map(place).collect::<Vec<_>>().join(",")));
    }
    words.extend(machine.numa.get(place.before).copied().flatten().map(|numa| format!("numa={numa}")));
    if let Some(addresses) = &place.udp {
        words.push(format!("udp={UDP_MTU},{},{addresses}", place.rank));
    } else if machine.adapter {
        words.push(format!("torus={ADAPTER_MTU},{}", place.torus.display()));
        words.extend(place.tree.iter().map(|tree| format!("tree={TREE_MTU},{}", tree.display())));
    }
    words.extend(place.segment.map(|nodes| format!("segment={},{nodes},{}", place.rank, machine.processors)));
    words.push(format!("bootargs={}", place.bootargs));
    words
}

/// The emulator's arguments, or those of a node's process.
pub fn arguments(machine: &Machine, place: &Identity) -> Vec<String> {
    if !machine.board.is_emulated() {
        // Of another processor's, the emulator is told the program first.
        let program = machine.elf.as_ref().filter(|elf| **elf != machine.emulator);
        let program = program.map(|elf| elf.display().to_string());
        return program.into_iter().chain(words(machine, place)).collect();
    }
    let mut words: Vec<String> =
        machine.board.options(machine.arch).iter().map(|&word| word.to_owned()).collect();
    let mut add = |option: &str, argument: String| words.extend([option.to_owned(), argument]);
    // Many guests share the host: a small cache of translated code each.
    add("-accel", "tcg,tb-size=64".into());
    add("-smp", smp(machine));
    add("-m", machine.memory.to_string());
    add("-display", "none".into());
    add(
        "-chardev",
        match &place.line {
            Some(line) => format!("socket,id=console,server=on,wait=off,path={}", value(line)),
            None => "stdio,id=console,signal=off".into(),
        },
    );
    add("-serial", "chardev:console".into());
    add("-qmp", format!("unix:{},server=on,wait=off", value(&place.control)));
    add("-global", "virtio-mmio.force-legacy=false".into());
    // With instructions counted, the devices take packets at the node's own time too.
    let tx = if machine.icount { ",tx=timer" } else { "" };
    let [_, b, c, d] = place.rank.to_be_bytes();
    let mut card = |name: &str, socket: &Path, slot: u32, mtu: u32, prefix: &str| {
        let server = if place.line.is_some() { "on" } else { "off" };
        let stream = format!("stream,id={name},server={server},addr.type=unix,addr.path={}", value(socket));
        add("-netdev", stream);
        let mac = format!("{prefix}:{b:02x}:{c:02x}:{d:02x}");
        match machine.board.cards() {
            Cards::Virtio => {
                let device = format!("virtio-net-device,netdev={name},bus=virtio-mmio-bus.{slot}");
                add("-device", format!("{device},host_mtu={mtu},mac={mac}{tx}"));
            }
            Cards::VirtioPci => {
                // Device 0 is the host bridge. Nothing on the card is for a firmware.
                let device =
                    format!("virtio-net-pci,netdev={name},addr={:#x},disable-legacy=on,romfile=", slot + 1);
                add("-device", format!("{device},host_mtu={mtu},mac={mac}{tx}"));
            }
            Cards::E1000e => {
                let device = format!("e1000e,netdev={name},addr={:#x},romfile=", slot + 1);
                add("-device", format!("{device},mac={mac}"));
            }
            // The board's controllers take the cards in the order in which they are named.
            Cards::OnBoard(_) | Cards::Streams => add("-net", format!("nic,netdev={name},macaddr={mac}")),
        }
        if machine.icount {
            // To the netdev, what goes to the guest is what it sends.
            let buffer = format!("filter-buffer,id=pace-{name},netdev={name},queue=tx");
            add("-object", format!("{buffer},interval={}", ICOUNT_PACE.as_micros()));
        }
    };
    if machine.adapter {
        card(TORUS, &place.torus, 0, ADAPTER_MTU, STATION);
    }
    if let Some(tree) = place.tree.as_ref().filter(|_| machine.adapter) {
        card("tree", tree, 1, TREE_MTU, "02:54:00");
    }
    if machine.icount {
        // With sleep, idle time passes as on the host: the network keeps up with the node's timers.
        add("-icount", "shift=0,sleep=on".into());
    }
    if let Some(image) = &machine.image {
        add("-kernel", image.display().to_string());
    }
    if let Some(tree) = &machine.tree {
        add("-dtb", tree.display().to_string());
    }
    add("-append", place.bootargs.clone());
    if let Some(socket) = &place.gdb {
        add("-gdb", format!("unix:{},server=on,wait=off", value(socket)));
        words.push("-S".into());
    }
    words.push("-nodefaults".into());
    // One that stays is reset between runs, and stands still before the first.
    words.push(if place.line.is_some() { "-S" } else { "-no-reboot" }.into());
    words.extend(machine.options.iter().cloned());
    words
}

/// How an emulator ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal of somebody else's.
    Signal(i32),
    /// Stopped by this tool, at the end of a failed run.
    TornDown,
    /// Where another run has started it.
    Elsewhere,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TornDown => f.write_str("stopped"),
            Self::Elsewhere => f.write_str("elsewhere"),
        }
    }
}

/// Emulators at work, each the leader of its process group; `None` once [`end_all`] was called.
static GUESTS: Mutex<Option<Vec<Pid>>> = Mutex::new(Some(Vec::new()));

/// Ends all guests of this process at once, and lets no more start.
pub fn end_all() {
    let guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner).take();
    // It may have ended by itself.
    guests.iter().flatten().for_each(|&guest| _ = kill_process_group(guest, Signal::KILL));
}

/// An emulator's process. Dropping it kills it.
pub struct Guest {
    child: Child,
    /// What its console hears.
    line: Option<ChildStdin>,
    /// Its personality, for when it asks.
    words: Option<String>,
    /// It has parked, and waits to begin again.
    waits: bool,
    exit: Option<Exit>,
}

impl Guest {
    /// Starts the emulator; its standard input is `input`, or what its console hears. Its standard error goes to the file
    /// `errors`.
    pub fn start(
        machine: &Machine,
        place: &Identity,
        input: Option<OwnedFd>,
        errors: &Path,
    ) -> Result<(Self, ChildStdout)> {
        let mut guest = Self::spawn(
            machine,
            place,
            [input.map_or_else(Stdio::piped, Stdio::from), Stdio::piped()],
            errors,
        )?;
        let stdout = guest.child.stdout.take().context("the emulator has no standard output")?;
        guest.line = guest.child.stdin.take();
        Ok((guest, stdout))
    }

    /// Starts an emulator that stays for further runs: its harts stand still, and its console has no line yet.
    pub fn start_kept(machine: &Machine, place: &Identity, errors: &Path) -> Result<Self> {
        Self::spawn(machine, place, [Stdio::null(), Stdio::null()], errors)
    }

    fn spawn(
        machine: &Machine,
        place: &Identity,
        [input, output]: [Stdio; 2],
        errors: &Path,
    ) -> Result<Self> {
        let errors = File::create(errors).with_context(|| format!("cannot write {}", errors.display()))?;
        let mut command = match &machine.setpriv {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&machine.emulator);
                command
            }
            None => Command::new(&machine.emulator),
        };
        if machine.races {
            let own = std::env::var("TSAN_OPTIONS").unwrap_or_default();
            command.env("TSAN_OPTIONS", format!("{own} halt_on_error=1"));
        }
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let guests = guests.as_mut().context("interrupted")?;
        let child = command
            .args(arguments(machine, place))
            // A group of its own: the terminal's Ctrl-C is for this tool, which then asks the guests how they are.
            .process_group(0)
            .stdin(input)
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", machine.emulator.display()))?;
        guests.push(Pid::from_child(&child));
        Ok(Self { child, line: None, words: None, waits: false, exit: None })
    }

    /// From now on its console is `line`, and its personality `words`, for when it asks. One that waits for it begins again. Returns
    /// what its console says.
    pub fn talk(&mut self, mut line: UnixStream, words: String) -> io::Result<ChildStdout> {
        if std::mem::take(&mut self.waits) {
            line.write_all(&[AGAIN])?;
        }
        self.line = Some(OwnedFd::from(line.try_clone()?).into());
        self.words = Some(words);
        Ok(OwnedFd::from(line).into())
    }

    /// It asks for its personality.
    pub fn tell(&mut self) -> io::Result<()> {
        match (&mut self.line, self.words.take()) {
            (Some(line), Some(words)) => writeln!(line, "{words}"),
            _ => Ok(()),
        }
    }

    /// It has parked, and `waits` to begin again, or does nothing any more.
    pub fn note_parked(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// Whether it waits to begin again.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Nobody speaks with its console from now on.
    pub fn hang_up(&mut self) {
        self.line = None;
    }

    /// How it ended, once it has.
    pub fn exit(&mut self) -> io::Result<Option<Exit>> {
        if self.exit.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            self.forget();
            let signal = status.signal().map(Exit::Signal);
            self.exit = Some(signal.unwrap_or(Exit::Code(status.code().unwrap_or(-1))));
        }
        Ok(self.exit)
    }

    /// It was waited for: its number may be another's.
    fn forget(&self) {
        if let Some(guests) = GUESTS.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            guests.retain(|&guest| guest != Pid::from_child(&self.child));
        }
    }

    /// Kills it from outside, as an accident would; how it ended is seen by [`exit`](Self::exit).
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Has it stand still.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Has it go on.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// What the host says of its threads: the number of each, its state in a letter, what it waits for in the host's kernel. The
    /// first, which is no hart, waits for the others and is left out.
    pub fn threads(&self) -> Vec<(u32, char, String)> {
        let folder = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|thread| thread.path());
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let mut threads: Vec<_> = threads
            .filter_map(|thread| {
                let number = thread.file_name()?.to_str()?.parse().ok()?;
                let stat = read(thread.join("stat"));
                let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
                Some((number, state.unwrap_or('?'), read(thread.join("wchan")).trim().to_owned()))
            })
            .collect();
        threads.retain(|(number, ..)| *number != self.child.id());
        threads.sort();
        threads
    }

    /// Where the program `image` begins in its process, if it runs that.
    pub fn begin_of(&self, image: &Path) -> Option<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).ok()?;
        let image = image.canonicalize().ok()?;
        let line = maps.lines().find(|line| line.ends_with(&format!(" {}", image.display())))?;
        u64::from_str_radix(line.split_once('-')?.0, 16).ok()
    }

    /// Reads `length` bytes of its process's memory, which goes on.
    ///
    /// # Errors
    /// There are not so many; the host does not let this process.
    pub fn memory(&self, address: u64, length: usize) -> Result<Vec<u8>> {
        let read = || {
            let mut bytes = vec![0; length];
            File::open(format!("/proc/{}/mem", self.child.id()))?.read_exact_at(&mut bytes, address)?;
            io::Result::Ok(bytes)
        };
        read().context("the host does not show the memory of its process")
    }

    /// Whether its process is there and does not run: it was stopped, or waits for the host's disk.
    pub fn stands_still(&self) -> bool {
        self.stat(0).is_some_and(|state| "TtD".contains(&state))
    }

    /// Whether its process was stopped on the host.
    pub fn is_stopped(&self) -> bool {
        self.stat(0).is_some_and(|state| "Tt".contains(&state))
    }

    /// Processor time that it has used.
    pub fn processor_time(&self) -> Option<Duration> {
        let ticks = [11, 12].map(|field| self.stat(field)?.parse::<u64>().ok());
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Some(Duration::from_millis((ticks[0]? + ticks[1]?) * 1000 / per_second))
    }

    /// A field of what the host says of its process, counted from its state.
    fn stat(&self, field: usize) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name before the state may hold anything.
        stat.rsplit(')').next()?.split_ascii_whitespace().nth(field).map(str::to_owned)
    }

    /// Asks its kernel whether it lives. Returns whether the question is on its way. To be asked again only when it has answered:
    /// so there is always room for the question.
    pub fn ask(&mut self) -> bool {
        self.line.as_mut().is_some_and(|line| line.write_all(QUESTION).is_ok())
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Its number is its own until it was waited for.
        match self.exit {
            None => Ok(kill_process(Pid::from_child(&self.child), signal)?),
            Some(_) => Ok(()),
        }
    }

    /// Stops it if it still runs, and waits for its end.
    pub fn tear_down(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit()? {
            return Ok(exit);
        }
        self.child.kill()?;
        self.child.wait()?;
        self.forget();
        self.exit = Some(Exit::TornDown);
        Ok(Exit::TornDown)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be killed.
        let _ = self.tear_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_a_node_of_one_hart_is_emulated_with_barriers() {
        let machine = |harts, icount| Machine {
            emulator: PathBuf::new(),
            setpriv: None,
            arch: Arch::Riscv64,
            board: Board::Virt,
            image: None,
            tree: None,
            elf: None,
            harts,
            topology: None,
            memory: 64,
            icount,
            races: false,
            processors: 2,
            cores: Vec::new(),
            places: Vec::new(),
            numa: Vec::new(),
            adapter: true,
            options: Vec::new(),
        };
        assert_eq!(smp(&machine(1, false)), "1,maxcpus=2");
        assert_eq!((smp(&machine(2, false)), smp(&machine(1, true))), ("2".into(), "1".into()));
    }
}
