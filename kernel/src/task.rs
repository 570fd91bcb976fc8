//! What a job sees of the node it runs on (SPEC N-4, N-6, P-13).

use crate::arena::{Arena, OutOfMemory};
use crate::hardware::{self, Tree, Unit};
use crate::instructions::Instructions;
use crate::personality::{Mode, Personality};
use crate::segments::{Refused, SEGMENTS, Segments};
use crate::usage::{Arguments, Usage};
use crate::{arch, clock, console, status, wakeup};
use core::fmt;
use core::str::SplitAsciiWhitespace;
use pami::affinity::{Affinities, HartPlace};
use pami::client::{Clients, ConfiguredGeometry};
use pami::mapping::TaskMap;
use pami::topology::{TorusCoord, TorusShape};
use pami::{Buffer, Shared};
use spin::Mutex;

/// What the tasks of this node share.
static SHARED: Mutex<Segments<Shared>> = Mutex::new(Segments::new());

/// One task of the job, on this node.
pub struct Task {
    pub(crate) personality: &'static Personality<'static>,
    pub(crate) map: TaskMap,
    pub(crate) number: u32,
    pub(crate) local: u32,
    pub(crate) coord: TorusCoord,
    pub(crate) harts: usize,
    /// Of the node's harts, by number.
    pub(crate) places: &'static [HartPlace],
    pub(crate) memory: Arena,
    pub(crate) unit: &'static Unit,
    pub(crate) clients: Mutex<Clients>,
}

/// What the serial line has not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// Bytes that wait for it.
    pub bytes: usize,
    /// Log lines that were dropped since the node's start, as there was no room for more.
    pub unlogged: u32,
}

/// Why there is no such segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentError {
    /// The task that asked first has not so much memory.
    Memory(OutOfMemory),
    /// Another task has asked for the same name with another length.
    Length {
        /// Bytes that the segment has.
        has: usize,
    },
    /// The node has as many segments as it can.
    NoneLeft,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Length { has } => write!(f, "a segment of that name has {has} bytes: ask for as many"),
            Self::NoneLeft => write!(f, "the node has {SEGMENTS} segments of other names, and no more"),
        }
    }
}

impl core::error::Error for SegmentError {}

impl Task {
    /// Its number, unique in the job.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Number of tasks of the job.
    pub fn tasks(&self) -> u32 {
        self.map.tasks()
    }

    /// Rank of its node in the torus.
    pub fn node(&self) -> u32 {
        self.personality.node
    }

    /// Its node's place in the torus.
    pub fn coord(&self) -> TorusCoord {
        self.coord
    }

    /// The machine.
    pub fn shape(&self) -> TorusShape {
        self.personality.shape
    }

    /// Whether nodes reach each other's memory (SPEC H-5): what goes to another one then goes by that, and not by the network, as
    /// long as the client has [local paths](crate::ClientBuilder::local_paths).
    pub fn shares_memory(&self) -> bool {
        arch::near().is_some()
    }

    /// Which node and local number each task has.
    pub fn map(&self) -> &TaskMap {
        &self.map
    }

    /// Its number among the tasks of its node.
    pub fn local(&self) -> u32 {
        self.local
    }

    /// Number of harts that it may run threads on, its first included.
    pub fn harts(&self) -> usize {
        self.harts
    }

    /// How often its hart `hart` has slept and been woken again (SPEC N-8); wraps.
    pub fn sleeps(&self, hart: usize) -> u32 {
        wakeup::sleeps(self.local as usize * self.harts + hart)
    }

    /// Where the job's threads run (SPEC A-1), provided that a thread on hart `n` of a task that has its node to itself
    /// drives context `n`.
    pub fn affinities(&self) -> Affinities {
        let harts = self.map.tasks_per_node() as usize * self.harts;
        Affinities { map: self.map, harts: self.places.get(..harts).unwrap_or(self.places) }
    }

    /// Where the thread runs that asks.
    pub fn place(&self) -> HartPlace {
        self.places.get(arch::hart()).copied().unwrap_or_default()
    }

    /// How harts make tasks.
    pub fn mode(&self) -> Mode {
        self.personality.mode
    }

    /// The most contexts that it has for each client.
    pub fn contexts(&self) -> u8 {
        self.personality.contexts
    }

    /// The job's name.
    pub fn job(&self) -> &'static str {
        self.personality.job
    }

    /// The job's description, if it has one.
    pub(crate) fn usage(&self) -> Option<&'static Usage> {
        Usage::of(self.job(), arch::job(self.job())?.usage)
    }

    /// Geometries that are there from the start (SPEC G-1): those of the node's personality, and those of the job's description
    /// that the personality has no others in the place of.
    pub fn geometries(&self) -> impl Iterator<Item = ConfiguredGeometry<'static>> + use<> {
        let personality: &'static Personality<'static> = self.personality;
        let told = move || personality.geometries().map(|(_, geometry)| geometry);
        let usual = self.usage().map_or("", |usage| usage.geometries);
        let usual = ConfiguredGeometry::all(usual).flatten().map(|(_, geometry)| geometry);
        let is_told = move |usual: &ConfiguredGeometry<'_>| told().any(|told| told.is_named_as(usual));
        told().chain(usual.filter(move |usual| !is_told(usual)))
    }

    /// The job's arguments, by its description.
    pub fn arguments(&self) -> Arguments {
        Arguments::new(self.usage(), self.args())
    }

    /// The job's arguments, word by word.
    pub fn args(&self) -> SplitAsciiWhitespace<'static> {
        self.personality.arguments()
    }

    /// Its memory.
    pub fn memory(&self) -> &Arena {
        &self.memory
    }

    /// `len` bytes of memory that all tasks of this node share that ask for `name`. They are 0 at first; whoever asks first
    /// has them taken out of his own memory (SPEC N-7).
    ///
    /// # Errors
    /// [`SegmentError`]
    pub fn segment(&self, name: &'static str, len: usize) -> Result<Shared, SegmentError> {
        let make = || self.memory.buffer(len).map(Buffer::share);
        let segment = SHARED.lock().open(name, make).map_err(|refused| match refused {
            Refused::NoneLeft => SegmentError::NoneLeft,
            Refused::Unmade(error) => SegmentError::Memory(error),
        })?;
        if segment.len() == len { Ok(segment) } else { Err(SegmentError::Length { has: segment.len() }) }
    }

    /// Nanoseconds since the node started.
    pub fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    /// How the node's log is behind its serial line (SPEC N-12).
    pub fn backlog(&self) -> Backlog {
        Backlog { bytes: console::waiting(), unlogged: console::dropped() }
    }

    /// Keeps the serial line from all other harts for so many nanoseconds: for the job that tests reports.
    #[doc(hidden)]
    pub fn keep_line(&self, ns: u64) {
        console::keep(ns);
    }

    /// Rate of the clock's counter.
    pub fn clock_hz(&self) -> u64 {
        arch::counter_hz()
    }

    /// The count of instructions of the hart that calls; `None` if it has none. See [`Instructions`] for when it is
    /// exact.
    pub fn instructions(&self) -> Option<Instructions> {
        Instructions::start()
    }

    /// The node's message unit.
    pub fn unit(&self) -> &'static Unit {
        self.unit
    }

    /// The collective network, if the node is on it. All tasks of the node share it.
    pub fn tree(&self) -> Option<&'static Tree> {
        hardware::tree()
    }

    /// The clients that it has.
    pub(crate) fn clients(&self) -> &Mutex<Clients> {
        &self.clients
    }

    /// Has this node's tasks go on when another node dies (SPEC R-2). Without this the first death that the node hears of ends
    /// it, with an error that names the dead node. With it operations to that node end with errors, waits are woken to look,
    /// and [`dead_node`](pami::context::Active::dead_node) tells.
    pub fn survive_deaths(&self) {
        status::live_on();
    }
}
