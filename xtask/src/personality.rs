//! What a node is told at boot (SPEC N-4): the command line's words for it. The kernel's own type writes the text.

use anyhow::{Result, bail};
use clap::ValueEnum;
use pami::mapping::MapOrder;

pub use kernel::personality::{HartTopology, Level, Personality};

/// How a node's harts are divided among tasks (SPEC N-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Mode {
    /// One task per node, on all its harts.
    #[default]
    Smp,
    /// One task per hart, each with its share of the memory.
    Vn,
}

impl From<Mode> for kernel::personality::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Smp => Self::Smp,
            Mode::Vn => Self::VirtualNode,
        }
    }
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

impl From<Map> for MapOrder {
    fn from(map: Map) -> Self {
        match map {
            Map::Xyzt => Self::NodesFirst,
            Map::Txyz => Self::TasksFirst,
        }
    }
}

/// The job's arguments in one text. A blank separates two, so none may hold one.
pub fn arguments(words: &[String]) -> Result<String> {
    for word in words {
        if word.is_empty() || word.contains(|c: char| c.is_ascii_whitespace() || c.is_control()) {
            bail!("a job's argument must be one word, {word:?} is not");
        }
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n4_arguments_are_single_words() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(arguments(&words(&["--class", "W"])).expect("single words"), "--class W");
        assert!(arguments(&words(&["two words"])).is_err());
        assert!(arguments(&words(&[""])).is_err());
    }

    #[test]
    fn n6_modes_and_orders_are_spelled_as_on_the_command_line() {
        for mode in Mode::value_variants() {
            let text = kernel::personality::Mode::from(*mode).to_string();
            assert!(mode.to_possible_value().is_some_and(|value| value.matches(&text, false)), "{text}");
        }
        for map in Map::value_variants() {
            let text = MapOrder::from(*map).to_string();
            assert!(map.to_possible_value().is_some_and(|value| value.matches(&text, false)), "{text}");
        }
    }
}
