//! What is done to a node or an I/O node from outside, and when (SPEC X-4).

use std::fmt;
use std::time::Duration;

use crate::fabric::time;

/// When it shall be done.
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
    /// Its emulator, or an I/O node's process, is killed.
    Kill,
    /// Its cables are pulled.
    Cut,
    /// Its emulator, or an I/O node's process, stands still for so long.
    Pause(Duration),
    /// The link of its card on the torus is down for so long, or for ever: the node sees it, as it would a cable that was
    /// pulled; the fabric does not.
    Unplug(Option<Duration>),
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Cut => "cut",
            Self::Pause(_) => "pause",
            Self::Unplug(_) => "unplug",
        })
    }
}

/// To whom it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// A node, by its rank.
    Node(u32),
    /// An I/O node, by its number.
    IoNode(u32),
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(rank) => write!(f, "node {rank}"),
            Self::IoNode(number) => write!(f, "I/O node {number}"),
        }
    }
}

/// A harm to come.
#[derive(Clone, Debug)]
pub struct Kill {
    /// To whom.
    pub victim: Victim,
    /// What.
    pub harm: Harm,
    /// When.
    pub when: KillWhen,
    /// Whether the line that it waits for was seen.
    pub heard: bool,
}

impl Kill {
    /// `harm` to `victim`.
    pub fn new(victim: Victim, harm: Harm, when: KillWhen) -> Self {
        Self { victim, harm, when, heard: false }
    }

    /// Reads `node=3@2s`, or of what lasts for a while `node=3@2s+5s`; an I/O node, `io=0@2s`, can be killed and paused.
    pub fn parse(words: &str, harm: Harm) -> Result<Self, String> {
        let (whom, form, like) = match harm {
            Harm::Kill => ("node=NODE@TIME or io=NUMBER", "TIME", "node=3@2s"),
            Harm::Cut => ("node=NODE", "TIME", "node=3@2s"),
            Harm::Pause(_) => ("node=NODE@TIME+TIME or io=NUMBER", "TIME+TIME", "node=3@2s+5s"),
            Harm::Unplug(_) => ("node=NODE", "TIME, or NODE@TIME+TIME", "node=3@2s+5s"),
        };
        let form = || format!("write {whom}@{form}, as in {like}");
        let (kind, rest) = words.split_once('=').ok_or_else(form)?;
        let (number, when) = rest.split_once('@').ok_or_else(form)?;
        let number =
            || number.parse().map_err(|_| format!("{number:?} is no node: write its number, as in {like}"));
        let victim = match (kind, harm) {
            ("node", _) => Victim::Node(number()?),
            ("io", Harm::Kill | Harm::Pause(_)) => Victim::IoNode(number()?),
            _ => return Err(form()),
        };
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
        Ok(Self::new(victim, harm, KillWhen::After(time(when)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_an_io_node_is_killed_and_paused_and_suffers_nothing_else() {
        let harmed = |words, harm| Kill::parse(words, harm).map(|kill| (kill.victim, kill.harm));
        let (io, pause) = (Victim::IoNode(1), Harm::Pause(Duration::from_secs(5)));
        assert_eq!(harmed("io=1@2s", Harm::Kill), Ok((io, Harm::Kill)));
        assert_eq!(harmed("io=1@2s+5s", Harm::Pause(Duration::ZERO)), Ok((io, pause)));
        assert_eq!(harmed("io=1@2s", Harm::Cut), Err("write node=NODE@TIME, as in node=3@2s".to_owned()));
        assert!(harmed("io=1@2s", Harm::Unplug(None)).is_err());
        assert!(harmed("disk=1@2s", Harm::Kill).is_err_and(|why| why.contains("io=NUMBER@TIME")));
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
