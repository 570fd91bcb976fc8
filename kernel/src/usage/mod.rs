//! What arguments and shapes jobs take (SPEC N-4): one description of each job, by which the host tool helps and refuses
//! before anything boots, by which a node refuses before the job starts, and by which the job reads its
//! [`Arguments`]. A job that is not described takes anything, and finds it in `Task::args`.

mod arguments;

pub use arguments::Arguments;

use core::fmt;
use core::ops::RangeInclusive;

/// What an argument's value may be.
#[derive(Clone, Copy)]
pub enum Value {
    /// There is none: the argument's presence says all.
    Flag,
    /// A number in these bounds, both allowed.
    Number(u64, u64),
    /// A number in bounds that the machine sets; the text says of what.
    Within(&'static str, fn(&Shape) -> RangeInclusive<u64>),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A word of which this is true; the text stands for it in the help.
    Such(&'static str, fn(&str) -> bool),
    /// Words between commas of which this is true; the text stands for them in the help.
    List(&'static str, fn(&str) -> bool, &'static str),
}

/// An argument of a job.
#[derive(Clone, Copy)]
pub struct Argument {
    /// As in `--rounds`.
    pub name: &'static str,
    /// What follows it.
    pub value: Value,
    /// What it is for.
    pub help: &'static str,
}

/// The machine that a job is to run on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Nodes of the torus.
    pub nodes: u32,
    /// Harts of a node that tasks have.
    pub harts: u32,
    /// Tasks of the job.
    pub tasks: u32,
    /// Most contexts of a client and task.
    pub contexts: u32,
    /// Whether the nodes are on the tree network.
    pub tree: bool,
}

/// What a job takes.
#[derive(Clone, Copy)]
pub struct Usage {
    /// The job's name.
    pub job: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// Words without a name before them that it takes, in this order; the first is needed if there are any.
    pub words: &'static [Value],
    /// The shape of the torus it runs on if none is said.
    pub torus: &'static str,
    /// If neither torus nor mode is said, it runs on a single node in virtual-node mode instead.
    pub alone: bool,
    /// What is wrong with a shape for it.
    pub refuses: fn(&Shape) -> Option<&'static str>,
    /// It counts instructions, which takes nodes that do.
    pub counts: bool,
    /// Geometries that it has from the start if the node's personality has none of these names, in words as
    /// [`ConfiguredGeometry`](pami::client::ConfiguredGeometry) reads them.
    pub geometries: &'static str,
}

/// A word that cannot be, and what would be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong<'a> {
    /// The word.
    pub word: &'a str,
    /// In words that follow it.
    pub problem: Problem,
}

/// What is wrong with a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// No argument of the job.
    Unknown,
    /// It wants a value behind it.
    NoValue,
    /// There is no word, and the job needs one.
    NoWord,
    /// No value for the argument of this name, or for a word without one, and in words why.
    Value(&'static str, &'static str),
    /// No value for the argument of this name on this machine: it wants a number in these bounds, both allowed.
    Range(&'static str, u64, u64),
}

/// What is wrong with a value that is no list.
pub const NO_VALUE: &str = "is no value that its argument takes";

impl Problem {
    /// In a few words that follow the word.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "is no argument of this job",
            Self::NoValue => "wants a value behind it",
            Self::NoWord => "is one word too few: this job wants to be told what to do",
            Self::Value(_, why) => why,
            Self::Range(..) => "is more than this machine has",
        }
    }
}

impl Value {
    /// Whether `word` is such a value, on some machine at least.
    pub fn takes(&self, word: &str) -> bool {
        match self {
            Self::Flag => false,
            Self::Number(from, to) => word.parse().is_ok_and(|number| (*from..=*to).contains(&number)),
            Self::Within(..) => word.parse::<u64>().is_ok(),
            Self::Word(words) => words.iter().any(|known| known.eq_ignore_ascii_case(word)),
            Self::Such(_, good) => good(word),
            Self::List(_, good, _) => word.split(',').all(good),
        }
    }
}

impl Value {
    /// What is wrong with `word`, or with the first of those in it, as the value of the argument `name`.
    fn wrong<'a>(&self, word: &'a str, name: &'static str) -> Wrong<'a> {
        match self {
            Self::List(_, good, why) => {
                let word = word.split(',').find(|one| !good(one)).unwrap_or(word);
                Wrong { word, problem: Problem::Value(name, why) }
            }
            _ => Wrong { word, problem: Problem::Value(name, NO_VALUE) },
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => Ok(()),
            Self::Such(what, _) | Self::Within(what, _) => f.write_str(what),
            Self::Number(from, to) if *to >= u64::from(u32::MAX) => write!(f, "a number from {from} up"),
            Self::Number(from, to) => write!(f, "a number from {from} to {to}"),
            Self::Word(words) => {
                for (index, word) in words.iter().enumerate() {
                    let between = if index == 0 {
                        ""
                    } else if index + 1 == words.len() {
                        " or "
                    } else {
                        ", "
                    };
                    write!(f, "{between}{word}")?;
                }
                Ok(())
            }
            Self::List(what, ..) => write!(f, "{what}, with commas between them"),
        }
    }
}

impl Usage {
    /// A job that runs on any shape, by default on eight nodes.
    pub const fn new(job: &'static str, arguments: &'static [Argument]) -> Self {
        let (words, torus) = (&[], "2x2x2");
        Self { job, arguments, words, torus, alone: false, refuses: |_| None, counts: false, geometries: "" }
    }

    /// The same on another shape of the torus by default.
    pub const fn on(self, torus: &'static str) -> Self {
        Self { torus, ..self }
    }

    /// The same, but not on every shape.
    pub const fn refusing(self, refuses: fn(&Shape) -> Option<&'static str>) -> Self {
        Self { refuses, ..self }
    }

    /// What the job of this name takes, if it is one of those described.
    pub fn of(job: &str, described: &'static [Self]) -> Option<&'static Self> {
        described.iter().find(|usage| usage.job == job)
    }

    /// Looks at the arguments of a job that is to run on `shape`.
    ///
    /// # Errors
    /// The first word that cannot be.
    pub fn check<'a>(
        &'static self,
        words: impl IntoIterator<Item = &'a str>,
        shape: &Shape,
    ) -> Result<(), Wrong<'a>> {
        let mut needs_word = !self.words.is_empty();
        for item in self.items(words.into_iter()) {
            match item? {
                Item::Plain(_) => needs_word = false,
                Item::Named(&Argument { name, value: Value::Within(_, bounds), .. }, word) => {
                    let bounds = bounds(shape);
                    if !word.parse().is_ok_and(|number| bounds.contains(&number)) {
                        let problem = Problem::Range(name, *bounds.start(), *bounds.end());
                        return Err(Wrong { word, problem });
                    }
                }
                Item::Named(..) => {}
            }
        }
        if needs_word { Err(Wrong { word: "", problem: Problem::NoWord }) } else { Ok(()) }
    }

    /// What the words are, one argument after the other.
    fn items<'a, I: Iterator<Item = &'a str>>(&'static self, words: I) -> Items<I> {
        Items { usage: self, words, plain: self.words.iter() }
    }
}

/// What one or two words of a job are.
#[derive(Clone, Copy)]
enum Item<'a> {
    /// An argument, with its value; a flag has none.
    Named(&'static Argument, &'a str),
    /// A word without a name before it.
    Plain(&'a str),
}

/// The parse: of words, arguments.
#[derive(Clone)]
struct Items<I> {
    usage: &'static Usage,
    words: I,
    /// Words without a name that are still taken.
    plain: core::slice::Iter<'static, Value>,
}

impl<'a, I: Iterator<Item = &'a str>> Iterator for Items<I> {
    type Item = Result<Item<'a>, Wrong<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let word = self.words.next()?;
        Some(match self.usage.arguments.iter().find(|argument| argument.name == word) {
            None => match self.plain.next() {
                Some(value) if value.takes(word) => Ok(Item::Plain(word)),
                Some(value) => Err(value.wrong(word, "")),
                None => Err(Wrong { word, problem: Problem::Unknown }),
            },
            Some(argument) if matches!(argument.value, Value::Flag) => Ok(Item::Named(argument, "")),
            Some(argument) => match self.words.next() {
                None => Err(Wrong { word, problem: Problem::NoValue }),
                Some(value) if argument.value.takes(value) => Ok(Item::Named(argument, value)),
                Some(value) => Err(argument.value.wrong(value, argument.name)),
            },
        })
    }
}
