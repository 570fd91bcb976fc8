//! What is done to a node from outside, and when (SPEC X-4).

use std::fmt;
use std::time::Duration;

use crate::fabric::time;

/// When a node shall die.
#[derive(Clone, Debug)]
pub enum KillWhen {
    /// So long after all nodes had joined the torus.
    After(Duration),
    /// When some node's log line contains this.
    Line(String),
}

impl KillWhen {
    /// Whether this is the line that it waits for.
    pub fn is_said_by(&self, line: &str) -> bool {
        matches!(self, Self::Line(text) if line.contains(text))
    }
}

/// What is done to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// Its emulator is killed.
    Kill,
    /// Its cables are pulled.
    Cut,
    /// Its emulator stands still for so long.
    Pause(Duration),
    /// The link of its card on the torus is down for so long, or for ever: the node sees it, as it would a cable that was
    /// pulled; the fabric does not.
    Unplug(Option<Duration>),
    /// An I/O node is killed; the number is its own.
    LoseIo,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill | Self::LoseIo => "kill",
            Self::Cut => "cut",
            Self::Pause(_) => "pause",
            Self::Unplug(_) => "unplug",
        })
    }
}

/// A harm to come.
#[derive(Clone, Debug)]
pub struct Kill {
    /// To whom.
    pub node: u32,
    /// What.
    pub harm: Harm,
    /// When.
    pub when: KillWhen,
    /// Whether the line that it waits for was seen.
    pub heard: bool,
}

impl Kill {
    /// `harm` to `node`.
    pub fn new(node: u32, harm: Harm, when: KillWhen) -> Self {
        Self { node, harm, when, heard: false }
    }

    /// Reads `node=3@2s`; to be killed also `io=0@2s`, an I/O node; of what lasts for a while `node=3@2s+5s`.
    pub fn parse(words: &str, harm: Harm) -> Result<Self, String> {
        let (form, like) = match harm {
            Harm::Kill | Harm::LoseIo | Harm::Cut => ("TIME", "node=3@2s"),
            Harm::Pause(_) => ("TIME+TIME", "node=3@2s+5s"),
            Harm::Unplug(_) => ("TIME, or NODE@TIME+TIME", "node=3@2s+5s"),
        };
        let form = || format!("write node=NODE@{form}, as in {like}");
        let io_node = words.strip_prefix("io=").filter(|_| harm == Harm::Kill);
        let harm = if io_node.is_some() { Harm::LoseIo } else { harm };
        let rest = io_node.or(words.strip_prefix("node="));
        let (node, when) = rest.and_then(|rest| rest.split_once('@')).ok_or_else(form)?;
        let node =
            node.parse().map_err(|_| format!("{node:?} is no node: write its number, as in {like}"))?;
        let (when, harm) = match harm {
            Harm::Pause(_) => {
                let (when, length) = when.split_once('+').ok_or_else(form)?;
                (when, Harm::Pause(time(length)?))
            }
            Harm::Unplug(_) => match when.split_once('+') {
                Some((when, length)) => (when, Harm::Unplug(Some(time(length)?))),
                None => (when, Harm::Unplug(None)),
            },
            harm => (when, harm),
        };
        Ok(Self::new(node, harm, KillWhen::After(time(when)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_an_io_node_is_killed_and_suffers_nothing_else() {
        let kill = Kill::parse("io=1@2s", Harm::Kill).expect("a kill");
        assert_eq!((kill.node, kill.harm), (1, Harm::LoseIo));
        assert!(Kill::parse("io=1@2s", Harm::Cut).is_err());
    }

    #[test]
    fn x4_a_link_is_down_for_a_while_or_for_ever() {
        let unplug = |words| Kill::parse(words, Harm::Unplug(None)).map(|kill| kill.harm);
        assert_eq!(unplug("node=3@2s+5s"), Ok(Harm::Unplug(Some(Duration::from_secs(5)))));
        assert_eq!(unplug("node=3@2s"), Ok(Harm::Unplug(None)));
        assert!(unplug("node=3@2s+").is_err());
        let told = unplug("3@2s").expect_err("no form");
        assert_eq!(told, "write node=NODE@TIME, or NODE@TIME+TIME, as in node=3@2s+5s");
    }
}
