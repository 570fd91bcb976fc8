//! Geometries that configuration establishes (SPEC G-1): their words, and what a client makes of them when it is set up.
//!
//! A word is `CLIENT.NAME:TASKS`, with `:CONTEXTS` and `:ALGORITHMS` behind it if need be, as in
//! `coll.verdict:0-7:0:allreduce=ring`. Words are separated by `;`.
//!
//! | part | form | without it |
//! |---|---|---|
//! | `CLIENT` | the name of the client whose endpoints they are | refused |
//! | `NAME` | what the client's [`geometry`](super::Client::geometry) finds it by | refused |
//! | `TASKS` | `all`; or tasks and ranges of them, with a stride behind `/`, as in `0-3,8-14/2`: ranks are in this order | refused |
//! | `CONTEXTS` | of each task, as in `0` or `0-1` | `0` |
//! | `ALGORITHMS` | an [`AlgorithmList`], as in `broadcast=flat+binomial` | all |
//!
//! All nodes have the same configuration. So such a geometry is there as the world is, from the start of its contexts, and no
//! message is sent for it. It has no class route. If a node has another configuration, what differs is told by the geometry's
//! collectives, with [`OperationError::Mismatch`](crate::OperationError::Mismatch) at all members.

use super::{ClientError, Node};
use crate::collective::{AlgorithmList, UnknownName};
use crate::endpoint::ClientId;
use crate::geometry::{GeometryId, Members, MembersError, Population};
use core::fmt;
use heapless::Vec;

/// Most geometries of one client that configuration may establish.
pub const CONFIGURED: usize = 4;

/// A geometry as configuration has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfiguredGeometry<'a> {
    client: &'a str,
    name: &'a str,
    /// In words that were found good.
    tasks: &'a str,
    contexts: (u8, u8),
    algorithms: AlgorithmList,
}

/// What is wrong with such a word. Who wrote the configuration is at fault, but for `NoLimits` and `Memory`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfiguredError {
    /// It has not the parts that such a word has.
    Form,
    /// No tasks.
    Tasks,
    /// No contexts.
    Contexts,
    /// No list of algorithms.
    Algorithms(UnknownName),
    /// A geometry of that client and name came before.
    Twice,
    /// The job, or the client, has no such members.
    Members(MembersError),
    /// The client has more than [`CONFIGURED`].
    TooMany,
    /// The client was made without [`Limits`](crate::Limits).
    NoLimits,
    /// The task has no memory for a list of so many tasks.
    Memory(usize),
}

impl fmt::Display for ConfiguredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "a geometry is CLIENT.NAME:TASKS, then :CONTEXTS and :ALGORITHMS if need be, as in \
                 coll.verdict:0-7:0:allreduce=ring",
            ),
            Self::Tasks => f.write_str("its tasks are all, or as in 0-3,8-14/2"),
            Self::Contexts => f.write_str("its contexts are as in 0 or 0-1"),
            Self::Algorithms(error) => error.fmt(f),
            Self::Twice => f.write_str("its client has another of that name: name each once"),
            Self::Members(error) => error.fmt(f),
            Self::TooMany => write!(f, "a client has at most {CONFIGURED} geometries of the configuration"),
            Self::NoLimits => {
                f.write_str("its client has no limits for collectives: set them in its builder")
            }
            Self::Memory(len) => write!(f, "the task has no memory for a list of {len} tasks"),
        }
    }
}

/// A number, without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The first and the last of `A` or `A-B`.
fn bounds(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// Some tasks: the first, and every `stride`th up to the last.
#[derive(Clone, Copy)]
struct TaskRange {
    first: u32,
    last: u32,
    stride: u32,
}

impl TaskRange {
    fn parse(text: &str) -> Option<Self> {
        let (text, stride) = text.split_once('/').unwrap_or((text, "1"));
        let ((first, last), stride) = (bounds(text)?, number(stride)?);
        (stride > 0).then_some(Self { first, last, stride })
    }

    /// Of a number of tasks up to `u32::MAX`; one more is none that a job has.
    fn count(self) -> u32 {
        ((self.last - self.first) / self.stride).saturating_add(1)
    }

    fn tasks(self) -> impl Iterator<Item = u32> {
        (0..self.count()).map(move |place| self.first + place * self.stride)
    }
}

impl<'a> ConfiguredGeometry<'a> {
    /// Reads a word.
    ///
    /// # Errors
    /// [`ConfiguredError`]
    pub fn parse(word: &'a str) -> Result<Self, ConfiguredError> {
        let mut parts = word.splitn(4, ':');
        let owner = parts.next().and_then(|owner| owner.split_once('.'));
        let (client, name) = owner
            .filter(|(client, name)| !client.is_empty() && !name.is_empty())
            .ok_or(ConfiguredError::Form)?;
        let tasks = parts.next().ok_or(ConfiguredError::Form)?;
        if tasks != "all" && tasks.split(',').any(|range| TaskRange::parse(range).is_none()) {
            return Err(ConfiguredError::Tasks);
        }
        let contexts = parts.next().map_or(Some((0, 0)), bounds).ok_or(ConfiguredError::Contexts)?;
        let context = |offset| u8::try_from(offset).ok().filter(|&offset| offset < u8::MAX);
        let contexts = context(contexts.0).zip(context(contexts.1)).ok_or(ConfiguredError::Contexts)?;
        let algorithms = parts.next().map_or(Ok(AlgorithmList::ALL), str::parse);
        let algorithms = algorithms.map_err(ConfiguredError::Algorithms)?;
        Ok(Self { client, name, tasks, contexts, algorithms })
    }

    /// Those of a text, each with its word, or what is wrong with it.
    pub fn all(
        text: &'a str,
    ) -> impl Iterator<Item = Result<(&'a str, Self), (&'a str, ConfiguredError)>> + use<'a> {
        let words = text.split(';').filter(|word| !word.is_empty());
        words.enumerate().map(move |(place, word)| {
            let read = Self::parse(word).map_err(|error| (word, error))?;
            let before = text.split(';').filter(|word| !word.is_empty()).take(place);
            let mut before = before.filter_map(|word| Self::parse(word).ok());
            if before.any(|one| one.is_named_as(&read)) {
                return Err((word, ConfiguredError::Twice));
            }
            Ok((word, read))
        })
    }

    /// The name of its client.
    pub fn client(&self) -> &'a str {
        self.client
    }

    /// Its name among those of the client.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Whether both have one client and one name.
    pub fn is_named_as(&self, other: &ConfiguredGeometry<'_>) -> bool {
        (self.client, self.name) == (other.client, other.name)
    }

    /// Whether a job of so many tasks, with at most so many contexts of each client, has the members.
    ///
    /// # Errors
    /// [`ConfiguredError::Members`]
    pub fn check(&self, tasks: u32, contexts: u8) -> Result<(), ConfiguredError> {
        if self.contexts.1 >= contexts {
            return Err(ConfiguredError::Members(MembersError::UnknownContext(self.contexts.1)));
        }
        let unknown = self.ranges().find(|range| range.last >= tasks);
        unknown.map_or(Ok(()), |range| Err(ConfiguredError::Members(MembersError::UnknownTask(range.last))))
    }

    /// The tasks, if they are not all.
    fn ranges(&self) -> impl Iterator<Item = TaskRange> + Clone + use<'a> {
        self.tasks.split(',').filter_map(TaskRange::parse)
    }

    /// The members, of endpoints that there are. A list of them is in the node's memory.
    fn members(&self, node: &impl Node, population: Population) -> Result<Members<'static>, ConfiguredError> {
        self.check(population.tasks, population.contexts)?;
        let contexts = self.contexts.0..self.contexts.1 + 1;
        let mut ranges = self.ranges();
        let members = match (ranges.next(), ranges.next()) {
            (None, _) => Members::world(population, contexts),
            (Some(only), None) => Members::range(population, contexts, only.first, only.count(), only.stride),
            _ => {
                let count = self.ranges().map(|range| range.count() as usize).sum();
                let memory = ConfiguredError::Memory(count);
                let mut tasks = self.ranges().flat_map(TaskRange::tasks);
                let list = node.memory(count, || tasks.next().unwrap_or_default()).ok_or(memory)?;
                let index = node.memory(count, || 0).ok_or(memory)?;
                Members::tasks(population, contexts, list, index)
            }
        };
        members.map_err(ConfiguredError::Members)
    }
}

/// Such a geometry as a client has it.
#[derive(Clone, Copy)]
pub(super) struct Established {
    pub(super) name: &'static str,
    pub(super) id: GeometryId,
    pub(super) members: Members<'static>,
    pub(super) algorithms: AlgorithmList,
}

/// All those of a client.
pub(super) type Configured = Vec<Established, CONFIGURED>;

/// What configuration has for the client of this name.
///
/// # Errors
/// [`ClientError::Configured`].
pub(super) fn establish<N: Node>(
    node: &N,
    (client, id): (&'static str, ClientId),
    contexts: u8,
    has_limits: bool,
) -> Result<Configured, ClientError> {
    let population = Population { client: id, tasks: node.tasks(), contexts };
    let mut all = Configured::new();
    // The highest numbers are theirs: applications count from the lowest.
    for (number, geometry) in (0..u32::MAX).rev().zip(node.geometries()) {
        if geometry.client != client {
            continue;
        }
        let ConfiguredGeometry { name, algorithms, .. } = geometry;
        let refused = |error| ClientError::Configured(name, error);
        if !has_limits {
            return Err(refused(ConfiguredError::NoLimits));
        }
        let members = geometry.members(node, population).map_err(refused)?;
        let one = Established { name, id: GeometryId(number), members, algorithms };
        all.push(one).map_err(|_| refused(ConfiguredError::TooMany))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn tasks(text: &str) -> Vec<u32> {
        text.split(',').filter_map(TaskRange::parse).flat_map(TaskRange::tasks).collect()
    }

    #[test]
    fn g1_a_word_names_client_tasks_contexts_and_algorithms() {
        let read = ConfiguredGeometry::parse("mpi.row:0-3,8-14/2:1-2:broadcast=flat,barrier=n-ary").unwrap();
        assert_eq!((read.client, read.name, read.contexts), ("mpi", "row", (1, 2)));
        assert_eq!(tasks(read.tasks), [0, 1, 2, 3, 8, 10, 12, 14]);
        assert_eq!(read.algorithms.to_string(), "barrier=n-ary,broadcast=flat");
        let read = ConfiguredGeometry::parse("a.b:all").unwrap();
        assert_eq!((read.contexts, read.algorithms, read.ranges().count()), ((0, 0), AlgorithmList::ALL, 0));
        assert_eq!(tasks("5,4,3-3,7-9/5"), [5, 4, 3, 7]);
        let both: Vec<_> =
            ConfiguredGeometry::all("a.b:0;;c.d:1-2").map(|one| one.unwrap().1.client).collect();
        assert_eq!(both, ["a", "c"]);
        assert_eq!(ConfiguredGeometry::all("").count(), 0);
    }

    #[test]
    fn g1_a_bad_word_is_told_with_what_would_be_right() {
        for (word, error, right) in [
            ("row:0-3", ConfiguredError::Form, "CLIENT.NAME:TASKS"),
            (".row:0-3", ConfiguredError::Form, "CLIENT.NAME:TASKS"),
            ("mpi.:0-3", ConfiguredError::Form, "CLIENT.NAME:TASKS"),
            ("mpi.row", ConfiguredError::Form, "CLIENT.NAME:TASKS"),
            ("mpi.row:", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:3-0", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:0-4/0", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:0,+1", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:0-4294967296", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:all,1", ConfiguredError::Tasks, "0-3,8-14/2"),
            ("mpi.row:all:", ConfiguredError::Contexts, "0-1"),
            ("mpi.row:all:1-0", ConfiguredError::Contexts, "0-1"),
            ("mpi.row:all:256", ConfiguredError::Contexts, "0-1"),
            ("mpi.row:all:0:", ConfiguredError::Algorithms(UnknownName::Pair), "allreduce=ring"),
            ("mpi.row:all:0:scan=fast", ConfiguredError::Algorithms(UnknownName::Algorithm), "binomial"),
        ] {
            assert_eq!(ConfiguredGeometry::parse(word), Err(error), "{word}");
            assert!(error.to_string().contains(right), "{error}");
        }
        let twice = ConfiguredGeometry::all("a.b:0;a.c:0;a.b:1").last();
        assert_eq!(twice, Some(Err(("a.b:1", ConfiguredError::Twice))));
    }

    #[test]
    fn g1_members_that_the_job_has_not_are_told_by_number() {
        let check = |word, tasks, contexts| ConfiguredGeometry::parse(word).unwrap().check(tasks, contexts);
        assert_eq!(check("a.b:0-3,7:0-1", 8, 2), Ok(()));
        assert_eq!(check("a.b:all:0-1", 8, 2), Ok(()));
        let unknown = |error| Err(ConfiguredError::Members(error));
        assert_eq!(check("a.b:0-3,7", 7, 1), unknown(MembersError::UnknownTask(7)));
        assert_eq!(check("a.b:0-4294967295", 7, 1), unknown(MembersError::UnknownTask(u32::MAX)));
        assert_eq!(check("a.b:all:0-2", 8, 2), unknown(MembersError::UnknownContext(2)));
    }
}
