//! Nodes that stay from run to run (SPEC S-1).
//!
//! An emulator is started once and stands still between runs. In each its kernel is told its personality when it asks, and parks at
//! the end; for the next one it begins again by itself, with all of its memory as it was at first (`kernel/src/kept.rs`). A node that
//! cannot, as it has crashed, hangs, or its process is gone, is started anew for the next run.
//!
//! It listens, and the console and the fabric of each run connect to it: what of a run is still on its way ends with these.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::sockets::{Sockets, short_folder};
use super::watched::Watched;
use crate::log::Decoder;
use crate::node::{Guest, Identity, Machine, TORUS};
use crate::qmp::Control;
use anyhow::{Context as _, Result, bail};
use kernel::personality::ASKS;

/// An emulator listens within this time.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks whether it does.
const TICK: Duration = Duration::from_millis(5);

/// A place for a node that stays.
struct Place {
    /// Its number among all of its service: what its sockets are called, and its cards.
    number: u32,
    guest: Option<Guest>,
}

/// What all nodes of a service have in common.
struct Common {
    sockets: Sockets,
    /// The image of all jobs, from the first run on, and what decodes what its nodes say.
    image: OnceLock<(PathBuf, Arc<Decoder>)>,
}

/// Some of the nodes that stay, for one run at a time: its rank 0 is the first.
pub struct Partition {
    common: Arc<Common>,
    places: Vec<Place>,
    /// Emulators that were started for the last run.
    started: u32,
}

impl Partition {
    /// So many nodes, none of which is started yet.
    ///
    /// # Errors
    /// There is no room for their sockets.
    pub fn new(nodes: u32) -> Result<Self> {
        let common = Arc::new(Common { sockets: short_folder()?, image: OnceLock::new() });
        let places = (0..nodes).map(|number| Place { number, guest: None }).collect();
        Ok(Self { common, places, started: 0 })
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> u32 {
        self.places.len() as u32
    }

    /// Takes the first `nodes` of them out, if there are so many.
    pub fn take(&mut self, nodes: u32) -> Option<Self> {
        let taken = (nodes as usize <= self.places.len()).then(|| self.places.drain(..nodes as usize))?;
        Some(Self { common: Arc::clone(&self.common), places: taken.collect(), started: 0 })
    }

    /// Gives back what was taken out.
    pub fn give_back(&mut self, other: Self) {
        self.places.extend(other.places);
        self.places.sort_by_key(|place| place.number);
    }

    /// How many of them are not there.
    pub(super) fn missing(&self) -> u32 {
        self.places.iter().filter(|place| place.guest.is_none()).count() as u32
    }

    /// The numbers of its nodes.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|place| place.number)
    }

    /// Emulators that were started for the last run.
    pub fn started(&self) -> u32 {
        self.started
    }

    /// Ends all emulators: each is started anew when it is next wanted.
    pub fn end(&mut self) {
        self.places.iter_mut().for_each(|place| place.guest = None);
    }

    fn socket(&self, place: &Place, name: &str) -> PathBuf {
        self.common.sockets.path().join(format!("{name}-{}.sock", place.number))
    }

    /// The image that the nodes have, and its decoder, if a run was there before.
    pub(super) fn image(&self) -> Option<&(PathBuf, Arc<Decoder>)> {
        self.common.image.get()
    }

    /// It is this one. The first that is told stays.
    pub(super) fn set_image(&self, image: &Path, decoder: &Arc<Decoder>) {
        // Another run may have been the first just now, with the same.
        let _ = self.common.image.set((image.to_owned(), Arc::clone(decoder)));
    }

    /// Where the nodes of a run listen for the torus, and for the tree if there is one.
    pub(super) fn listeners(&self, tree: bool) -> [Vec<PathBuf>; 2] {
        let of = |name| self.places.iter().map(|place| self.socket(place, name)).collect();
        [of("torus"), if tree { of("tree") } else { Vec::new() }]
    }

    /// Where node `rank` of a run listens for QEMU's control protocol.
    pub(super) fn control(&self, rank: u32) -> PathBuf {
        self.socket(&self.places[rank as usize], "control")
    }

    /// What the emulator of node `rank` of a run complains of, in this run and those before.
    pub(super) fn errors(&self, rank: u32) -> PathBuf {
        self.common.sockets.path().join(format!("qemu-{}.txt", self.places[rank as usize].number))
    }

    /// Has each node be there, and stand still. Who is not there is started, as `machine` says.
    pub(super) fn prepare(&mut self, machine: &Machine, tree: bool) -> Result<()> {
        let began = Instant::now();
        self.started = 0;
        for rank in 0..self.places.len() {
            let guest = self.places[rank].guest.as_mut();
            if guest.map(Guest::exit).transpose()? == Some(None) {
                continue;
            }
            let number = self.places[rank].number;
            let control = self.control(rank as u32);
            let place = &self.places[rank];
            let identity = Identity {
                rank: number,
                before: rank,
                bootargs: ASKS.into(),
                torus: self.socket(place, "torus"),
                tree: tree.then(|| self.socket(place, "tree")),
                line: Some(self.socket(place, "line")),
                segment: None,
                udp: None,
                control,
                gdb: None,
            };
            let errors = self.errors(rank as u32);
            self.places[rank].guest = None;
            for socket in
                [&identity.torus, &identity.control].into_iter().chain(&identity.tree).chain(&identity.line)
            {
                // Whether there was one makes no difference.
                let _ = std::fs::remove_file(socket);
            }
            self.places[rank].guest = Some(Guest::start_kept(machine, &identity, &errors)?);
            self.started += 1;
        }
        for rank in 0..self.places.len() {
            let control = self.control(rank as u32);
            while Control::connect(&control).is_err() {
                let guest = self.places[rank].guest.as_mut();
                if guest.map(Guest::exit).transpose()?.flatten().is_some() || began.elapsed() > START_TIMEOUT
                {
                    let said = std::fs::read_to_string(self.errors(rank as u32)).unwrap_or_default();
                    bail!("the emulator of node {rank} does not start: {}", said.trim());
                }
                std::thread::sleep(TICK);
            }
        }
        Ok(())
    }

    /// Node `rank` begins to run, with a line of its own and this personality.
    pub(super) fn begin(
        &mut self,
        rank: u32,
        personality: String,
    ) -> Result<(Guest, std::process::ChildStdout)> {
        let control = self.control(rank);
        let line = self.socket(&self.places[rank as usize], "line");
        let mut guest = self.places[rank as usize].guest.take().context("a node that was not prepared")?;
        let line = connect(&line)?;
        let console = guest.talk(line, personality)?;
        Control::connect(&control)?.go_on()?;
        Ok((guest, console))
    }

    /// The run is over: nodes that wait to begin again stand still, all others end.
    pub(super) fn stop(&mut self, nodes: &mut [Watched]) {
        for node in nodes {
            let control = node.control().to_owned();
            let stands = node.guest().waits() && Control::connect(&control).and_then(stop).is_ok();
            node.guest().hang_up();
            if !stands {
                // One that cannot be killed now is when it is dropped.
                let _ = node.tear_down();
            }
        }
    }

    /// Takes the node of `rank` back, to stay if it still runs.
    pub(super) fn keep(&mut self, rank: u32, mut guest: Guest) {
        self.places[rank as usize].guest = matches!(guest.exit(), Ok(None)).then_some(guest);
    }
}

/// Has it stand still; a link that was pulled is plugged in.
fn stop(mut control: Control) -> Result<()> {
    control.stop()?;
    control.set_link(TORUS, true)
}

fn connect(socket: &Path) -> Result<UnixStream> {
    UnixStream::connect(socket).with_context(|| format!("{} does not listen", socket.display()))
}
