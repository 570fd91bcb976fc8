//! What a node is told at boot: the words of `/chosen/bootargs` (SPEC N-4).

use anyhow::{Result, bail};
use clap::ValueEnum;
use pami::topology::TorusShape;

/// How a node's harts are divided among tasks (SPEC N-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Mode {
    /// One task per node, on all its harts.
    #[default]
    Smp,
    /// One task per hart, each with its share of the memory.
    Vn,
}

/// The order in which tasks are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Map {
    /// All nodes first, then the next hart of each.
    #[default]
    Xyzt,
    /// All harts of a node first, then the next node.
    Txyz,
}

/// What all nodes of a run are told alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Personality {
    /// The torus.
    pub shape: TorusShape,
    /// How harts are divided.
    pub mode: Mode,
    /// The order of tasks.
    pub map: Map,
    /// Whether the last hart runs the message unit only.
    pub agent: bool,
    /// The largest number of contexts per client and task.
    pub contexts: u8,
    /// The job's name.
    pub job: String,
    /// The job's arguments.
    pub arguments: Vec<String>,
}

impl Personality {
    /// The boot arguments of the node with rank `node`.
    pub fn bootargs(&self, node: u32) -> Result<String> {
        use std::fmt::Write as _;
        let mode = match self.mode {
            Mode::Smp => "smp",
            Mode::Vn => "vn",
        };
        let map = match self.map {
            Map::Xyzt => "xyzt",
            Map::Txyz => "txyz",
        };
        let mut text = format!(
            "node={node} torus={} mode={mode} map={map} agent={} contexts={} job={}",
            self.shape,
            u8::from(self.agent),
            self.contexts,
            self.job
        );
        if !self.arguments.is_empty() {
            text.push_str(" --");
        }
        for argument in &self.arguments {
            if argument.is_empty() || argument.contains(|c: char| c.is_ascii_whitespace() || c.is_control()) {
                bail!("a job's argument must be one word, {argument:?} is not");
            }
            let _ = write!(text, " {argument}");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n4_a_node_is_told_its_place_its_torus_and_its_job() {
        let mut personality = Personality {
            shape: "4x2m".parse().expect("a shape"),
            mode: Mode::Vn,
            map: Map::Txyz,
            agent: true,
            contexts: 2,
            job: "npb-is".into(),
            arguments: vec!["--class".into(), "W".into()],
        };
        let text = personality.bootargs(7).expect("single words");
        assert_eq!(text, "node=7 torus=4x2m mode=vn map=txyz agent=1 contexts=2 job=npb-is -- --class W");
        personality.arguments = vec!["two words".into()];
        assert!(personality.bootargs(0).is_err());
    }
}
