//! Network cards of a process: streams to the fabric, by the words that it was started with (SPEC H-1).

use crate::arch::{self, Alone};
use crate::devicetree::{Interrupt, Machine};
use core::fmt;
use drivers::linux;
use drivers::nic::Hal;

/// A network card.
pub(crate) type Card<H> = linux::Card<H>;
/// What serves a card's interrupts.
pub(crate) type CardInterrupt = linux::StreamInterrupt;

/// The words that name the cards, in their order.
const WORDS: [&str; super::ADAPTERS] = ["torus", "tree"];

/// Why a card cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CardError {
    /// Its word is not `MTU,PATH`.
    Word,
    /// It cannot be reached.
    Card(linux::CardError),
    /// There are more than can interrupt.
    Deaf,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word => f.write_str("it is to be named by an MTU, a comma and a path"),
            Self::Card(error) => error.fmt(f),
            Self::Deaf => f.write_str("there are more than can interrupt"),
        }
    }
}

/// A network card that was found, and its interrupt.
pub(crate) struct Found<H> {
    pub(crate) card: Card<H>,
    pub(crate) interrupt: Interrupt,
    /// How that comes.
    pub(crate) way: &'static str,
}

/// No card writes to memory by itself.
pub(super) fn rest(_: &'static Machine, _: &Alone) -> bool {
    true
}

/// The process' network cards.
pub(crate) struct Cards {
    words: core::array::IntoIter<&'static str, { super::ADAPTERS }>,
}

impl Cards {
    /// All of them. To be made once.
    pub(crate) fn new(_: &'static Machine) -> Self {
        Self { words: WORDS.into_iter() }
    }

    /// The next one.
    pub(crate) fn next<H: Hal>(&mut self) -> Option<Result<Found<H>, CardError>> {
        self.words.by_ref().find_map(arch::word).map(find)
    }
}

fn find<H: Hal>(word: &str) -> Result<Found<H>, CardError> {
    let (mtu, path) = word.split_once(',').ok_or(CardError::Word)?;
    let mtu = mtu.parse().map_err(|_| CardError::Word)?;
    let card = linux::Card::connect(path, mtu).map_err(CardError::Card)?;
    let number = arch::events().and_then(|events| events.attach(card.line())).ok_or(CardError::Deaf)?;
    Ok(Found { card, interrupt: Interrupt { number, edge: false }, way: "stream" })
}
