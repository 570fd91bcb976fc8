//! What shall go wrong in a run: faults of the network, links that go down, nodes that die (SPEC X-4).

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use pami::topology::TorusShape;

use super::settings::Run;
use crate::fabric::{Faults, LinkDown, time};

/// When a node shall die.
#[derive(Clone, Debug)]
pub enum KillWhen {
    /// So long after all nodes had joined the torus.
    After(Duration),
    /// When some node's log line contains this.
    Line(String),
}

/// A death to come.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Who dies.
    pub node: u32,
    /// When.
    pub when: KillWhen,
    /// Whether the line that it waits for was seen.
    pub heard: bool,
}

impl Kill {
    /// The death of `node`.
    pub fn new(node: u32, when: KillWhen) -> Self {
        Self { node, when, heard: false }
    }

    /// Reads `node=3@2s`.
    fn parse(words: &str) -> Result<Self, String> {
        let form = || "write node=NODE@TIME, as in node=3@2s".to_owned();
        let (node, when) =
            words.strip_prefix("node=").and_then(|rest| rest.split_once('@')).ok_or_else(form)?;
        let node =
            node.parse().map_err(|_| format!("{node:?} is no node: write its number, as in node=3@2s"))?;
        Ok(Self::new(node, KillWhen::After(time(when)?)))
    }

    /// Looks whether this is the line it waits for.
    pub fn hear(&mut self, line: &str) {
        self.heard |= matches!(&self.when, KillWhen::Line(text) if line.contains(text));
    }
}

/// All that shall go wrong in a run, checked against its torus.
pub struct Plan {
    /// For the fabric.
    pub faults: Option<Faults>,
    /// For the fabric.
    pub links_down: Vec<LinkDown>,
    /// For the watch.
    pub kills: Vec<Kill>,
}

impl Plan {
    /// Reads the words a run was given.
    ///
    /// # Errors
    /// The bad word and what would be right.
    pub fn new(run: &Run, shape: TorusShape) -> Result<Self> {
        let faults = run.faults.as_deref().map(|words| {
            words.parse().map_err(|why: String| anyhow!("the faults {words:?} cannot be: {why}"))
        });
        let link_down = |words: &String| -> Result<LinkDown> {
            let down = words.parse::<LinkDown>().and_then(|down| down.check(shape).map(|()| down));
            down.map_err(|why| anyhow!("the link {words:?} cannot go down: {why}"))
        };
        let kill = |words: &String| Kill::parse(words).map_err(|why| anyhow!("cannot kill {words:?}: {why}"));
        let mut kills = run.kills.clone();
        for words in &run.kill_words {
            kills.push(kill(words)?);
        }
        if let Some(kill) = kills.iter().find(|kill| kill.node >= shape.nodes()) {
            bail!("there is no node {} to kill: the last one of {shape} is {}", kill.node, shape.nodes() - 1);
        }
        let links_down = run.links_down.iter().map(link_down).collect::<Result<_>>()?;
        Ok(Self { faults: faults.transpose()?, links_down, kills })
    }
}
