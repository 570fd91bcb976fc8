//! How grave a log line is.

use super::Reason;
use core::fmt;
use core::str::FromStr;

/// The least grave of the log lines that a node sends (SPEC N-12). Lines without a level are sent always.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// None that has a level.
    Off,
    /// What ends a job.
    Error,
    /// What somebody should look at.
    #[default]
    Warn,
    /// The stations of a node's life.
    Info,
    /// What was found on the way there.
    Debug,
    /// All.
    Trace,
}

impl Level {
    /// All, by rising number of lines.
    pub const ALL: [Self; 6] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for Level {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or(Reason::Level)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
