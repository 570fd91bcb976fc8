//! One run: builds the firmware, boots the nodes of a torus, watches them, and says how it went.
//!
//! ```no_run
//! use xtask::{Arch, Run};
//! let outcome = Run::new("hello").arch(Arch::Riscv64).torus("2x2").harts(4).run().expect("a run");
//! outcome.expect_success();
//! ```

mod faults;
mod folder;
mod life;
mod outcome;
mod permits;
mod settings;
mod watch;
mod watched;

pub use faults::{Harm, KillWhen};
pub use folder::Folder;
pub use outcome::{Ending, NodeOutcome, Outcome};
pub use settings::Run;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use pami::topology::TorusShape;

use crate::console::MAX_HARTS;
use crate::fabric::{self, Fabric, FabricHandle};
use crate::firmware::{self, Request};
use crate::node::{self, Guest, Machine, Place};
use crate::personality::{HartTopology, Personality, arguments};
use crate::{dump, setup};
use faults::Plan;
use settings::Image;
use watch::Watch;
use watched::{Firmware, Watched};

/// Harts of a node, if nothing is said of them.
const DEFAULT_HARTS: u8 = 2;
/// The port of the first debugger.
const GDB_PORT: u16 = 1234;

impl Run {
    /// Does it. A run that fails is an [`Outcome`] too; an error means that it did not come to a run.
    pub fn run(self) -> Result<Outcome> {
        let shape: TorusShape = self
            .torus
            .parse()
            .map_err(|error| anyhow::anyhow!("the torus {:?} cannot be: {error}", self.torus))?;
        let (harts, topology) = self.node_harts()?;
        self.check(shape, harts)?;
        let plan = Plan::new(&self, shape)?;
        let machine = self.machine(harts, topology)?;
        let firmware = machine.image.as_deref().map(Firmware::load).transpose()?;
        let _permit = permits::Permit::wait(shape.nodes() as usize * usize::from(harts));
        let folder = Folder::create(self.logs.as_deref())?;
        let sockets = short_folder()?;
        let mut config = fabric::Config::new(shape, sockets.path());
        // A test that fails leaves a capture.
        let own = self.voice.is_quiet().then(|| folder.path().join("torus.pcap"));
        config.pcap = self.pcap.clone().or(own);
        config.faults = plan.faults;
        config.links_down = plan.links_down;
        config.tree = self.tree;
        let fabric = Fabric::start(config).context("cannot start the fabric")?;

        let begun = Instant::now();
        let (nodes, consoles, controls) =
            self.start(shape, topology, &machine, &folder, &fabric, sockets.path())?;
        self.voice.busy(&format!("booting {} nodes", nodes.len()));
        let mut watch = Watch {
            nodes,
            fabric: &fabric,
            firmware: firmware.as_ref(),
            voice: &self.voice,
            interrupt: &self.interrupt,
            begun,
            deadline: self.deadline,
            silence: self.silence.filter(|_| self.gdb.is_empty()),
            kills: plan.kills,
            go_on: self.go_on,
            joined: None,
            ended: None,
        };
        let ending = watch.watch(consoles)?;
        self.voice.idle();
        let Watch { mut nodes, joined, ended, .. } = watch;
        let failed = ending != Ending::Finished || nodes.iter().any(|node| node.outcome.failure.is_some());
        let dump = failed.then(|| dump_all(&mut nodes, &controls, firmware.as_ref(), &fabric, &folder));
        for node in &mut nodes {
            node.tear_down()?;
            node.flush()?;
        }
        if let Some(dump) = &dump {
            folder.write("dump.txt", dump)?;
        }
        let statistics = fabric.stop().context("the fabric failed")?;
        let mut outcome = Outcome {
            ending,
            nodes: nodes.into_iter().map(|node| node.outcome).collect(),
            fabric: statistics,
            boot_time: joined.map(|joined| joined - begun),
            job_time: joined.zip(ended).map(|(joined, ended)| ended.saturating_duration_since(joined)),
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
        let Some(words) = &self.topology else { return Ok((self.harts.unwrap_or(DEFAULT_HARTS), None)) };
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

    fn machine(&self, harts: u8, topology: Option<HartTopology>) -> Result<Machine> {
        let emulator = match &self.emulator {
            Some(program) => program.clone(),
            None => setup::emulator(self.arch, &self.voice)?,
        };
        let image = match &self.image {
            Image::Job => {
                let request = Request { arch: self.arch, job: self.job.clone(), log: self.log.clone() };
                Some(firmware::build(&request, &self.voice)?)
            }
            Image::File(file) => Some(file.clone()),
            Image::None => None,
        };
        Ok(Machine {
            emulator,
            setpriv: setup::setpriv(&self.voice)?,
            arch: self.arch,
            image,
            harts,
            topology: topology.filter(|_| self.arch.tree_tells_topology()),
            memory: self.memory,
            icount: self.icount,
            adapter: self.adapter,
            options: self.options.clone(),
        })
    }

    fn start(
        &self,
        shape: TorusShape,
        topology: Option<HartTopology>,
        machine: &Machine,
        folder: &Folder,
        fabric: &FabricHandle,
        sockets: &Path,
    ) -> Result<(Vec<Watched>, Vec<std::process::ChildStdout>, Vec<PathBuf>)> {
        let arguments = arguments(&self.arguments)?;
        let personality = Personality {
            mode: self.mode.into(),
            map: self.map.into(),
            agent: self.agent,
            contexts: self.contexts,
            tree: self.tree && self.adapter,
            topology: topology.filter(|_| !self.arch.tree_tells_topology()),
            job: &self.job,
            arguments: &arguments,
            ..Personality::new(0, shape)
        };
        let (mut nodes, mut consoles, mut controls) = (Vec::new(), Vec::new(), Vec::new());
        let mut commands = String::new();
        for rank in 0..shape.nodes() {
            let bootargs = Personality { node: rank, ..personality }.to_string();
            let bootargs = self.bootargs.get(&rank).cloned().unwrap_or(bootargs);
            let control = sockets.join(format!("control-{rank}.sock"));
            let gdb = self.gdb.contains(&rank).then(|| GDB_PORT.saturating_add(rank as u16));
            let torus = fabric.socket(rank).to_owned();
            let tree = fabric.tree_socket(rank).map(Path::to_owned);
            let place = Place { rank, bootargs, torus, tree, control, gdb };
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
            let (guest, console) = Guest::start(machine, &place, &folder.node(rank, "qemu"))?;
            if let (Some(port), Some(image)) = (gdb, &machine.image) {
                let image = image.display();
                self.voice.say(&format!("node {rank} waits for: gdb {image} -ex 'target remote :{port}'"));
            }
            nodes.push(Watched::new(rank, guest, folder)?);
            consoles.push(console);
            controls.push(place.control);
        }
        folder.write("commands.txt", &commands)?;
        Ok((nodes, consoles, controls))
    }
}

/// A folder for sockets: their paths must be shorter than 108 bytes.
fn short_folder() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("pamir-");
    let long = std::env::temp_dir().as_os_str().len() > 70;
    let folder = if long { builder.tempdir_in("/tmp") } else { builder.tempdir() };
    folder.context("cannot make a folder for sockets")
}

/// Asks all nodes how they are, those that no longer live for their last words.
fn dump_all(
    nodes: &mut [Watched],
    controls: &[PathBuf],
    firmware: Option<&Firmware>,
    fabric: &FabricHandle,
    folder: &Folder,
) -> String {
    let mut text = String::new();
    for (node, control) in nodes.iter_mut().zip(controls) {
        let alive = if node.outcome.suspected { "no sign of life" } else { "alive" };
        let exit = node.outcome.exit.map_or(alive.to_owned(), |exit| format!("gone, exit {exit}"));
        text.push_str(&format!("node {} ({exit})\n", node.rank));
        if node.outcome.exit.is_none() {
            let scratch = folder.node(node.rank, "memory");
            text.push_str(&dump::node(control, &scratch, firmware.map(|firmware| &firmware.symbols)));
        }
        let last = node.outcome.lines.len().saturating_sub(3);
        for line in &node.outcome.lines[last..] {
            text.push_str(&format!("  last words: {}\n", line.plain()));
        }
    }
    text.push_str("fabric\n");
    for line in fabric.state_dump().lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}
