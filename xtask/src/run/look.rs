//! A run at one moment, for programs: what its door tells `cargo xtask top`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dump::{Activity, Fifo};
use crate::fabric::Traffic;

/// A living run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// What runs, and on what, in words.
    pub words: String,
    /// For how long its nodes have been there.
    pub elapsed: Duration,
    /// Whether all of them have joined.
    pub joined: bool,
    /// By rank.
    pub nodes: Vec<NodeLook>,
    /// The links that carried something, with their names.
    pub links: Vec<(String, Traffic)>,
    /// Why no links are counted, if they are not.
    pub uncounted: Option<String>,
    /// Which of the nodes here the next look is to begin with, as this one took its time.
    pub next: u32,
}

/// A node of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeLook {
    /// Whether it lives, and in words.
    pub lives: bool,
    /// See [`lives`](Self::lives).
    pub life: String,
    /// Frames that it sent and was given on both networks, if they are counted.
    pub frames: Option<[Traffic; 2]>,
    /// What it does itself, if it was read this time.
    pub own: Option<OwnLook>,
}

impl NodeLook {
    /// One that another run has started.
    pub fn elsewhere() -> Self {
        Self { life: "elsewhere".into(), ..Self::default() }
    }
}

/// What a node does, read out of its memory and its harts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OwnLook {
    /// For how long the run's nodes had been there.
    pub elapsed: Duration,
    /// What each hart does.
    pub harts: Vec<Activity>,
    /// The FIFOs of its contexts.
    pub fifos: Vec<Fifo>,
}
