//! Who says that all nodes are up: the network itself, where it has a fabric that gathers them; on a plain Ethernet node 0, by
//! words that are of no connection (SPEC R-7).
//!
//! ```text
//!      node 3                             node 0
//!        --Hello, in incarnation 7, words-->     again and again, less and less often
//!        <--Go, incarnation 7---------------     once all have said Hello; again and again
//!        --Hello, started------------------>     whenever it hears Go
//!        <--Go, refused, words--------------     or so, if the words are not those of node 0
//! ```
//!
//! A node that starts anew says Hello in another incarnation, and is answered. Nothing is lost with the one before: until a node
//! has heard Go, it lets no peer connect. One that was told Go, and has said so, has died if it says Hello anew, and is refused. All
//! words carry what must be alike at all nodes of a job, as [`JobWords`].

use crate::gathering::{Gathering, Identity, JobWords, Missing};
use alloc::boxed::Box;
use pami::packet::{Envelope, Kind, REFUSED, STARTED};
use spin::Mutex;

/// The node that gathers all others where no fabric does.
pub(crate) const GATHERER: u32 = 0;
/// Most nodes that gather so.
pub const MOST_GATHERED: u32 = 1 << 14;
/// A word that this node owes another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    pub(crate) kind: Kind,
    pub(crate) dispatch: u8,
    pub(crate) incarnation: u32,
}

/// What a word leads to.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Heard {
    /// What its sender is to hear.
    pub(crate) reply: Option<Word>,
    /// All are up.
    pub(crate) go: bool,
    /// The sender has lost what it had of the job.
    pub(crate) died: bool,
    /// What somebody is to know of.
    pub(crate) news: Option<Gathering>,
}

/// What node 0 knows of a node.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// In which incarnation it said Hello last; 0 before it did.
    incarnation: u32,
    /// It has heard Go.
    started: bool,
}

struct Book {
    /// By rank; at other nodes than 0 there are none.
    entries: Box<[Entry]>,
    /// Nodes that have not said Hello, and those that have not heard Go.
    missing: u32,
    unheard: u32,
}

/// The nodes that are up, as they told it.
pub(crate) struct Muster {
    node: u32,
    own: Identity,
    book: Mutex<Book>,
}

impl Muster {
    /// Of `nodes` nodes [`GATHERER`] alone is up. Allocates.
    pub(crate) fn new(node: u32, nodes: u32, own: Identity) -> Self {
        let entries = if node == GATHERER { nodes } else { 0 };
        let entries = (0..entries).map(|_| Entry::default()).collect();
        let others = if node == GATHERER { nodes.saturating_sub(1) } else { 0 };
        Self { node, own, book: Mutex::new(Book { entries, missing: others, unheard: others }) }
    }

    pub(crate) fn words(&self) -> &[u8] {
        self.own.words.as_bytes()
    }

    /// What this node says until it hears Go.
    pub(crate) fn hello(&self) -> Word {
        Word { kind: Kind::Hello, dispatch: 0, incarnation: self.own.incarnation }
    }

    /// Takes in a word of another node, with its words; `None` if it makes no sense.
    #[cold]
    pub(crate) fn hear(&self, word: &Envelope, words: &[u8]) -> Option<Heard> {
        let words = JobWords::of(words);
        let mut book = self.book.lock();
        match word.kind {
            Kind::Hello if self.node == GATHERER => book.hear_hello(word, words, &self.own),
            Kind::Go if (word.origin.task(), word.message) == (GATHERER, self.own.incarnation) => {
                if word.dispatch == REFUSED {
                    let own = self.own.words;
                    let differs = Gathering::Refused { told: words, own };
                    let news = Some(if words == own { Gathering::Late } else { differs });
                    return Some(Heard { news, ..Heard::default() });
                }
                let reply = Word { dispatch: STARTED, ..self.hello() };
                Some(Heard { reply: Some(reply), go: true, ..Heard::default() })
            }
            _ => None,
        }
    }

    /// Who has not said Hello, if anybody.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let book = self.book.lock();
        let mut missing = Missing::new(book.missing);
        let is_missing = |&(rank, entry): &(u32, &Entry)| rank != GATHERER && entry.incarnation == 0;
        let mut ranks = (0..).zip(&book.entries).filter(is_missing).map(|(rank, _)| rank);
        ranks.all(|rank| missing.name(rank));
        (book.missing > 0).then_some(missing)
    }

    /// Whether some have not heard Go.
    pub(crate) fn owes_go(&self) -> bool {
        self.book.lock().unheard > 0
    }

    /// The first node from `from` on that has not heard Go, and what to tell it.
    pub(crate) fn next_to_go(&self, from: u32) -> Option<(u32, Word)> {
        let book = self.book.lock();
        let mut all = (0..).zip(&book.entries).skip(from as usize);
        let (rank, entry) = all.find(|&(rank, entry)| rank != GATHERER && !entry.started)?;
        Some((rank, entry.go()))
    }
}

impl Entry {
    fn go(&self) -> Word {
        Word { kind: Kind::Go, dispatch: 0, incarnation: self.incarnation }
    }
}

impl Book {
    fn hear_hello(&mut self, word: &Envelope, words: JobWords, own: &Identity) -> Option<Heard> {
        let (node, incarnation) = (word.origin.task(), word.message);
        let refused = Word { kind: Kind::Go, dispatch: REFUSED, incarnation };
        let is_known = node != GATHERER && incarnation != 0 && words == own.words;
        let Some(entry) = self.entries.get_mut(node as usize).filter(|_| is_known) else {
            let news = Some(Gathering::Differs { node, told: words, own: own.words });
            return Some(Heard { reply: Some(refused), news, ..Heard::default() });
        };
        if word.dispatch == STARTED {
            // One that an earlier life of this node has told Go.
            if entry.incarnation != incarnation {
                return None;
            }
            self.unheard -= u32::from(!entry.started);
            entry.started = true;
            return Some(Heard::default());
        }
        let is_anew = ![0, incarnation].contains(&entry.incarnation);
        let news = is_anew.then_some(Gathering::Anew(node));
        if entry.incarnation != incarnation {
            if entry.started {
                return Some(Heard { reply: Some(refused), go: false, died: true, news });
            }
            self.missing -= u32::from(entry.incarnation == 0);
            entry.incarnation = incarnation;
        }
        let go = self.missing == 0;
        Some(Heard { reply: go.then(|| entry.go()), go, died: false, news })
    }
}

#[cfg(test)]
mod tests;
