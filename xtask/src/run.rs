//! One run: builds the firmware, boots the nodes of a torus, watches them, and says how it went.
//!
//! ```no_run
//! use xtask::{Arch, Run};
//! let outcome = Run::new("hello").arch(Arch::Riscv64).torus("2x2").harts(4).run().expect("a run");
//! outcome.expect_success();
//! ```

mod addresses;
mod afar;
mod cores;
mod door;
mod explain;
mod faults;
mod folder;
mod geometries;
mod harm;
mod io_nodes;
mod life;
mod look;
mod outcome;
mod partition;
mod permits;
mod record;
mod room;
mod segment;
mod settings;
mod sockets;
mod state;
mod watch;
mod watched;

pub use door::{Door, Living, Question, living, living_run, living_runs};
pub use folder::Folder;
pub use harm::{Harm, KillWhen};
pub use look::{Look, NodeLook, OwnLook};
pub use outcome::{Asked, Ending, NodeOutcome, Outcome};
pub use partition::Partition;
pub use permits::core_count;
pub use segment::Way;
pub use settings::Run;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use kernel::usage::Shape;
use pami::affinity::HartPlace;
use pami::topology::TorusShape;

use crate::board::Board;
use crate::console::MAX_HARTS;
use crate::fabric::{self, Fabric, FabricHandle};
use crate::firmware::{self, Instrument, Request};
use crate::node::{self, Exit, Guest, Identity, Machine};
use crate::personality::{HartTopology, Personality, arguments};
use crate::{image, jobs, setup};
use addresses::Addresses;
use afar::Afar;
use cores::Cores;
use faults::Plan;
use io_nodes::IoNodes;
use segment::Share;
use settings::{Image, Pin};
use sockets::short_folder;
use state::State;
use watch::Watch;
use watched::{Firmware, Watched};

/// Harts of a node, if nothing is said of them.
const DEFAULT_HARTS: u8 = 2;

impl Run {
    /// Does it. A run that fails is an [`Outcome`] too; an error means that it did not come to a run.
    pub fn run(self) -> Result<Outcome> {
        self.go(None)
    }

    /// Does it on nodes that stay, all of which it is to have.
    ///
    /// # Errors
    /// As [`run`](Self::run); or it asks for what nodes that stay are not.
    pub fn run_on(mut self, partition: &mut Partition) -> Result<Outcome> {
        if !self.board.is_emulated() || self.icount || !self.adapter || !self.gdb.is_empty() {
            bail!("nodes that stay are emulated, have adapters, and are neither counted nor debugged");
        }
        self.together = true;
        self.go(Some(partition))
    }

    /// Its torus.
    ///
    /// # Errors
    /// It cannot be.
    pub fn shape(&self) -> Result<TorusShape> {
        self.torus.parse().map_err(|error| anyhow::anyhow!("the torus {:?} cannot be: {error}", self.torus))
    }

    fn go(self, mut partition: Option<&mut Partition>) -> Result<Outcome> {
        let shape = self.shape()?;
        let (harts, topology) = self.node_harts()?;
        self.check(shape, harts)?;
        self.check_geometries(self.tasks(shape, harts))?;
        if self.refuse_early && matches!(self.image, Image::Job) {
            self.check_job(shape, harts)?;
        }
        let way = Way::of(&self, shape.nodes(), harts);
        let addresses = Addresses::of(&self, shape.nodes())?;
        let here = addresses.as_ref().map_or_else(|| (0..shape.nodes()).collect(), |it| it.here.clone());
        let fresh = partition.as_ref().map_or(here.len() as u32, |partition| partition.missing());
        room::check(shape.nodes(), fresh, self.memory)?;
        let plan = Plan::new(&self, shape)?;
        let (built, decoder) = partition.as_ref().and_then(|partition| partition.image().cloned()).unzip();
        let asked = Instant::now();
        let mut machine = self.machine(here.len(), harts, topology, built)?;
        let image_time = asked.elapsed();
        let load = |elf: &Path| match decoder {
            Some(decoder) => Ok(Firmware::with(decoder, elf, self.board.flat_at())),
            None => Firmware::load(elf, self.board.flat_at()),
        };
        let firmware = machine.elf.as_deref().map(load).transpose()?;
        let mut afar = None;
        let mut life = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ()) as u32;
        if let Some(addresses) = addresses.as_ref().filter(|it| it.elsewhere().next().is_some()) {
            let mut others = Afar::listen(addresses, self.agreed(shape, harts)?, life)?;
            life = others.gather(&self.voice, &self.interrupt)?;
            afar = Some(others);
        }
        // Which jobs of a service run at once it has decided itself; one that is here in part does not wait while its other part
        // does not end.
        let waits = (partition.is_none() || self.voice.is_quiet()) && afar.is_none();
        let _permit = waits.then(|| permits::Permit::wait(here.len() * usize::from(harts)));
        let folder = Folder::create(self.logs.as_deref())?;
        if let Some(tree) = self.board.tree(harts) {
            let path = folder.path().join("tree.dtb");
            std::fs::write(&path, tree).with_context(|| format!("cannot write {}", path.display()))?;
            machine.tree = Some(path);
        }
        let sockets = short_folder()?;
        let mut config = fabric::Config::new(shape, sockets.path());
        // A test that fails leaves a capture.
        let own = self.voice.is_quiet().then(|| folder.path().join("torus.pcap"));
        config.pcap = self.pcap.clone().or(own);
        config.faults = plan.faults;
        let links_down = plan.links_down.clone();
        config.links_down = plan.links_down;
        config.tree = self.tree && !self.plain && self.board.has_tree();
        config.plain = self.plain;
        let begun = Instant::now();
        if let Some(partition) = &mut partition {
            if partition.nodes() != shape.nodes() {
                bail!("the torus {shape} has {} nodes, its partition {}", shape.nodes(), partition.nodes());
            }
            let image = machine.elf.as_deref().zip(firmware.as_ref());
            image.into_iter().for_each(|(elf, firmware)| partition.set_image(elf, firmware.decoder()));
            partition.prepare(&machine, self.board.has_tree())?;
            config.nodes_listen = Some(partition.listeners(config.tree));
        }
        config.io_nodes = plan.io_nodes;
        let fabric = Fabric::start(config).context("cannot start the fabric")?;
        let mut io_nodes = IoNodes::start(&self, plan.io_nodes, &fabric, &folder)?;

        if !self.board.is_emulated() && shape.nodes() > 1 {
            self.voice.say(&way.to_string());
        }
        if self.explains {
            let addresses = addresses.as_ref();
            let plan = explain::Plan { nodes: shape.nodes(), here: &here, machine: &machine, way, addresses };
            plan.lines(&Cores::of_this_machine()?).iter().for_each(|line| self.voice.say(line));
        }
        let mut door = Door::open(sockets.path(), folder.path())?;
        let places = Places {
            folder: &folder,
            fabric: &fabric,
            sockets: sockets.path(),
            way,
            here: &here,
            addresses: addresses.as_ref(),
            life,
        };
        let (nodes, consoles) = self.start(shape, topology, &machine, &places, partition.as_deref_mut())?;
        self.voice.busy(&format!("booting {} nodes", nodes.len()));
        let state = State {
            words: format!("{} on board {}, {}, torus {shape}", self.job, self.board, self.arch),
            shape,
            emulated: self.board.is_emulated(),
            begun,
            program: &machine.emulator,
            way,
            fabric: &fabric,
            folder: &folder,
            firmware: firmware.as_ref(),
        };
        let watch = Watch {
            nodes,
            fabric: &fabric,
            io_nodes: &io_nodes,
            state: &state,
            door: &mut door,
            firmware: firmware.as_ref(),
            voice: &self.voice,
            interrupt: &self.interrupt,
            begun,
            deadline: self.deadline,
            silence: self.silence.filter(|_| self.gdb.is_empty()),
            asks: self.gdb.is_empty() && !self.icount,
            kills: plan.kills,
            go_on: self.go_on,
            afar,
            joined: None,
            harmed: None,
            ended: None,
        };
        let (watch, ending) = watch.watch(consoles)?;
        self.voice.idle();
        let waited = watch.joined.map(|joined| joined.elapsed());
        let mut remarks = faults::not_taken(&watch.kills, &links_down, waited.unwrap_or_default());
        let Watch { mut nodes, afar, joined, harmed, ended, .. } = watch;
        let failed = ending != Ending::Finished || nodes.iter().any(|node| node.outcome().failure.is_some());
        let dump = failed.then(|| {
            self.voice.busy("asking all nodes for their state");
            let dump = state.dump(&mut nodes, &self.voice);
            self.voice.idle();
            dump
        });
        if let Some(partition) = &mut partition {
            partition.stop(&mut nodes);
        }
        remarks.extend(io_nodes.lost());
        for node in &mut nodes {
            if partition.is_none() {
                node.tear_down()?;
            }
            remarks.extend(node.complete());
        }
        // A full disk costs the file, not the end of the run.
        if let Some(Err(error)) = dump.as_ref().map(|dump| folder.write("dump.txt", dump)) {
            remarks.push(format!("{error:#}"));
        }
        let statistics = fabric.stop().context("the fabric failed")?;
        let mut outcomes = vec![NodeOutcome::default(); shape.nodes() as usize];
        for (rank, failure) in afar.iter().flat_map(Afar::failures) {
            let (exit, failure) = (Some(Exit::Elsewhere), failure.cloned());
            outcomes[rank as usize] = NodeOutcome { exit, failure, ..NodeOutcome::default() };
        }
        for node in nodes {
            let rank = node.rank();
            let (outcome, guest) = node.into_parts();
            outcomes[rank as usize] = outcome;
            if let Some(partition) = &mut partition {
                partition.keep(rank, guest);
            }
        }
        let asked = Asked {
            job: self.job,
            arguments: self.arguments,
            board: self.board,
            arch: self.arch,
            torus: shape,
            harts,
            mode: self.mode,
        };
        let mut outcome = Outcome {
            asked,
            ending,
            nodes: outcomes,
            way,
            fabric: statistics,
            image_time,
            boot_time: joined.map(|joined| joined - begun),
            job_time: joined.zip(ended).map(|(joined, ended)| ended.saturating_duration_since(joined)),
            waited,
            harmed,
            remarks,
            dump,
            logs: Arc::new(folder),
        };
        let passing = self.voice.is_quiet() && self.logs.is_none() && outcome.success();
        if let (true, Some(folder)) = (passing, Arc::get_mut(&mut outcome.logs)) {
            folder.set_passing();
        }
        Ok(outcome)
    }

    /// How many harts a node has, and how they make it up, if that was said.
    fn node_harts(&self) -> Result<(u8, Option<HartTopology>)> {
        let Some(words) = &self.topology else {
            let most = *self.board.harts().end();
            return Ok((self.harts.unwrap_or(DEFAULT_HARTS.min(most)), None));
        };
        let topology: HartTopology =
            words.parse().map_err(|error| anyhow::anyhow!("the topology {words:?} cannot be: {error}"))?;
        let harts = topology.harts() as u8;
        match self.harts {
            Some(other) if other != harts => bail!("the topology {words} has {harts} harts, not {other}"),
            _ => Ok((harts, Some(topology))),
        }
    }

    fn check(&self, shape: TorusShape, harts: u8) -> Result<()> {
        if harts == 0 || harts > MAX_HARTS {
            bail!("a node has 1 to {MAX_HARTS} harts, not {harts}");
        }
        let board = self.board;
        board.check(self.arch)?;
        let (least, most) = board.harts().into_inner();
        if !board.harts().contains(&harts) {
            bail!("a node of board {board} has {least} to {most} harts, not {harts}");
        }
        if !board.is_emulated() && (!self.gdb.is_empty() || !self.options.is_empty() || self.icount) {
            bail!("nodes of board {board} are not emulated: nothing can be told an emulator");
        }
        if !board.is_emulated() && self.harm_words.iter().any(|(_, harm)| matches!(harm, Harm::Unplug(_))) {
            bail!(
                "nodes of board {board} have streams, without a link that could be down: --cut closes them"
            );
        }
        if !board.is_emulated() && self.job == jobs::INSTRUCTIONS {
            bail!(
                "{} asks each hart for a count of its instructions, which the host does not give to threads: \
                 `cargo xtask bench instructions` counts on emulated nodes",
                self.job
            );
        }
        if self.races && (self.arch != crate::Arch::Native || self.trace.is_some()) {
            bail!("data races are looked for in processes of this machine's own, without a timeline");
        }
        if self.agent && harts < 2 {
            bail!("an agent core takes a hart of its own: at least 2 harts per node are needed");
        }
        if !self.adapter && shape.nodes() > 1 {
            bail!("nodes without an adapter cannot talk: only a torus of one node does without");
        }
        if let Some(node) = self.gdb.iter().max()
            && *node >= shape.nodes()
        {
            bail!("there is no node {node}: the last one of {shape} is {}", shape.nodes() - 1);
        }
        Ok(())
    }

    /// Refuses what the job itself would, before anything boots.
    /// Tasks of the job.
    fn tasks(&self, shape: TorusShape, harts: u8) -> u32 {
        let harts = u32::from(harts) - u32::from(self.agent);
        shape.nodes() * if self.mode == crate::Mode::Vn { harts } else { 1 }
    }

    fn check_job(&self, shape: TorusShape, harts: u8) -> Result<()> {
        jobs::check(&self.job)?;
        let Some(usage) = jobs::usage(&self.job) else { return Ok(()) };
        let (nodes, tasks) = (shape.nodes(), self.tasks(shape, harts));
        let harts = u32::from(harts) - u32::from(self.agent);
        let (contexts, tree) = (u32::from(self.contexts), self.has_tree());
        let machine = Shape { nodes, harts, tasks, contexts, tree };
        if let Err(wrong) = usage.check(self.arguments.iter().map(String::as_str), &machine) {
            bail!("{}", jobs::explain(usage, wrong));
        }
        match (usage.refuses)(&machine) {
            Some(problem) => bail!("{} {problem}; {shape} makes {tasks} tasks", self.job),
            None => Ok(()),
        }
    }

    /// What runs must agree on that start nodes of one job, in a line.
    fn agreed(&self, shape: TorusShape, harts: u8) -> Result<String> {
        let (mode, map): (kernel::personality::Mode, pami::mapping::MapOrder) =
            (self.mode.into(), self.map.into());
        let Self { job, contexts, agent, .. } = self;
        let addresses = self.udp.as_deref().unwrap_or_default();
        let (geometries, arguments) = (self.geometries(), arguments(&self.arguments)?);
        Ok(format!(
            "{job} torus={shape} udp={addresses} harts={harts} mode={mode} map={map} contexts={contexts} agent={agent} geometries={geometries} -- {arguments}"
        ))
    }

    /// Whether nodes are on the tree.
    fn has_tree(&self) -> bool {
        self.tree && !self.plain && self.adapter && self.board.has_tree()
    }

    /// The cores that the harts of so many nodes are bound to, if they are.
    fn cores(&self, nodes: usize, harts: u8) -> Result<Bound> {
        if matches!(self.pin, Pin::Nowhere) || self.board.is_emulated() {
            return Ok(Bound::default());
        }
        let (machine, harts) = (Cores::of_this_machine()?, usize::from(harts));
        let mut cores = match &self.pin {
            Pin::To(list) => machine.listed(list, nodes * harts).context("--pin")?,
            Pin::IfEnough | Pin::Nowhere => machine.enough(nodes, harts),
        };
        let places = machine.places(&mut cores, harts);
        let numa = machine.numa_nodes(&cores, harts);
        Ok(Bound { cores, places, numa })
    }

    /// That of so many nodes. `built`: the image of all jobs, if it was built before.
    fn machine(
        &self,
        nodes: usize,
        harts: u8,
        topology: Option<HartTopology>,
        built: Option<PathBuf>,
    ) -> Result<Machine> {
        let Bound { cores, places, numa } = self.cores(nodes, harts)?;
        let image = match &self.image {
            Image::Job if built.is_some() => built,
            Image::Job => {
                let (arch, job, together) = (self.arch, self.job.clone(), self.together);
                let instrument = match (self.races, &self.trace) {
                    (true, _) => Instrument::Races,
                    (false, Some(_)) => Instrument::Events,
                    (false, None) => Instrument::Nothing,
                };
                let request = Request { arch, job, together, instrument };
                Some(firmware::build(&request, &self.voice)?)
            }
            Image::File(file) => {
                let image = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                if !self.arch.runs(&image) {
                    bail!("{} is no image for {}: is --arch right?", file.display(), self.arch);
                }
                Some(file.clone())
            }
            Image::None => None,
        };
        let emulator = match (&self.emulator, &image) {
            (Some(program), _) => program.clone(),
            (None, Some(image)) if self.arch == crate::Arch::Native => image.clone(),
            (None, _) => setup::emulator(self.arch, &self.voice)?,
        };
        let given = match (&image, self.board.flat_at()) {
            (Some(elf), Some(_)) => Some(firmware::flat(elf)?),
            _ => image.clone(),
        };
        Ok(Machine {
            emulator,
            setpriv: setup::setpriv(),
            arch: self.arch,
            board: self.board,
            image: given,
            tree: None,
            elf: image,
            harts,
            topology: topology.filter(|_| self.board.tree_tells_topology(self.arch)),
            memory: self.memory,
            icount: self.icount,
            races: self.races,
            processors: core_count(),
            cores,
            places,
            numa,
            adapter: self.adapter,
            options: self.options.clone(),
        })
    }

    fn start(
        &self,
        shape: TorusShape,
        topology: Option<HartTopology>,
        machine: &Machine,
        &Places { folder, fabric, sockets, way, here, addresses, life }: &Places<'_>,
        mut partition: Option<&mut Partition>,
    ) -> Result<(Vec<Watched>, Vec<std::process::ChildStdout>)> {
        let (arguments, geometries) = (arguments(&self.arguments)?, self.geometries());
        let personality = Personality {
            mode: self.mode.into(),
            map: self.map.into(),
            agent: self.agent,
            contexts: self.contexts,
            tree: self.has_tree(),
            topology: topology.filter(|_| !self.board.tree_tells_topology(self.arch)),
            life,
            peers: self.peers,
            fabric: !self.plain,
            lossless: self.lossless,
            baud: self.baud,
            log: self.log,
            trace: self.trace,
            geometries: &geometries,
            job: &self.job,
            arguments: &arguments,
            ..Personality::new(0, shape)
        };
        let (mut nodes, mut consoles) = (Vec::new(), Vec::new());
        let mut commands = String::new();
        let nodes_of_segment = (way == Way::Segment).then(|| shape.nodes());
        let share =
            nodes_of_segment.map(|nodes| Share::new(nodes, machine.harts, self.memory)).transpose()?;
        for (before, &rank) in here.iter().enumerate() {
            let bootargs = Personality { node: rank, ..personality }.to_string();
            let bootargs = self.bootargs.get(&rank).cloned().unwrap_or(bootargs);
            if let Some(partition) = &mut partition {
                let (guest, console) = partition.begin(rank, bootargs)?;
                nodes.push(Watched::new(
                    rank,
                    guest,
                    partition.control(rank),
                    folder,
                    partition.errors(rank),
                )?);
                consoles.push(console);
                continue;
            }
            let control = sockets.join(format!("control-{rank}.sock"));
            let gdb = self.gdb.contains(&rank).then(|| sockets.join(format!("gdb-{rank}.sock")));
            let torus = fabric.socket(rank).to_owned();
            let tree = fabric.tree_socket(rank).map(Path::to_owned);
            let place = Identity {
                rank,
                before,
                bootargs,
                torus,
                tree,
                line: None,
                segment: nodes_of_segment,
                udp: addresses.map(Addresses::words),
                control,
                gdb,
            };
            commands.push_str(&machine.emulator.display().to_string());
            for word in node::arguments(machine, &place) {
                let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:,".contains(c));
                commands.push_str(&if plain {
                    format!(" {word}")
                } else {
                    format!(" '{}'", word.replace('\'', "'\\''"))
                });
            }
            commands.push('\n');
            let input = share.as_ref().map(Share::input).transpose()?;
            let (guest, console) = Guest::start(machine, &place, input, &folder.node(rank, "qemu"))?;
            if let (Some(socket), Some(elf)) = (&place.gdb, &machine.elf) {
                let moved = image::moved_by(&std::fs::read(elf)?, self.board.flat_at())?;
                let words = debugger_words(self.board, elf, moved, socket);
                let said = match debugger(self.arch) {
                    Some(gdb) => format!("{gdb} {words}"),
                    None => format!(
                        "a debugger for {}, and none was found; with gdb-multiarch: gdb-multiarch {words}",
                        self.arch
                    ),
                };
                self.voice.say(&format!("node {rank} waits for: {said}"));
            }
            nodes.push(Watched::new(rank, guest, place.control, folder, folder.node(rank, "qemu"))?);
            consoles.push(console);
        }
        folder.write("commands.txt", &commands)?;
        Ok((nodes, consoles))
    }
}

/// What harts are bound to: as [`Machine`] has it.
#[derive(Default)]
struct Bound {
    cores: Vec<usize>,
    places: Vec<HartPlace>,
    numa: Vec<Option<usize>>,
}

/// What the nodes of a run have around them.
struct Places<'a> {
    folder: &'a Folder,
    fabric: &'a FabricHandle,
    sockets: &'a Path,
    way: Way,
    /// The nodes that are to be started.
    here: &'a [u32],
    addresses: Option<&'a Addresses>,
    /// What frames have in common.
    life: u32,
}

/// What a debugger is told to come to a node's harts by `socket`; its image is `moved` against where it is linked for.
fn debugger_words(board: Board, elf: &Path, moved: u64, socket: &Path) -> String {
    let (elf, socket) = (elf.display(), socket.display());
    match (board, moved) {
        // The monitor core is a process by itself, the first, of another instruction set than the image.
        (Board::SifiveU, _) => format!(
            "-ex 'target extended-remote {socket}' -ex 'add-inferior -exec {elf}' -ex 'inferior 2' -ex 'attach 2' \
             -ex 'set schedule-multiple on'"
        ),
        (_, 0) => format!("{elf} -ex 'target remote {socket}'"),
        _ => format!("-ex 'symbol-file {elf} -o {moved:#x}' -ex 'target remote {socket}'"),
    }
}

/// A debugger of this machine that knows the instruction set. Debian's plain `gdb` knows only the host's own.
fn debugger(arch: crate::Arch) -> Option<String> {
    let own = (std::env::consts::ARCH == arch.name()).then(|| "gdb".to_owned());
    let names = ["gdb-multiarch".to_owned(), format!("{arch}-elf-gdb"), format!("{arch}-none-elf-gdb")];
    let more = [format!("{arch}-unknown-elf-gdb"), format!("{arch}-linux-gnu-gdb")];
    names.into_iter().chain(more).chain(own).find(|name| crate::workspace::on_path(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b6_a_debugger_is_led_to_the_harts_that_run_the_image() {
        let words = |board, moved| debugger_words(board, Path::new("job"), moved, Path::new("/a/gdb"));
        assert_eq!(words(Board::Virt, 0), "job -ex 'target remote /a/gdb'");
        assert_eq!(
            words(Board::Versal, 0x20_0000),
            "-ex 'symbol-file job -o 0x200000' -ex 'target remote /a/gdb'"
        );
        // The monitor core is asked first, and refuses an image that it could not run.
        let monitored = words(Board::SifiveU, 0);
        let [target, image, attach] =
            ["extended-remote", "-exec job", "attach 2"].map(|word| monitored.find(word).expect("all of it"));
        assert!(target < image && image < attach, "{monitored}");
    }
}
