//! Network cards of a process: streams to the fabric, or datagrams to the other nodes, by the words that it was started with
//! (SPEC H-1).

use crate::arch::{self, Alone};
use crate::devicetree::{Interrupt, Machine};
use core::fmt;
use drivers::Either::{self, First, Second};
use drivers::linux::{self, StreamInterrupt, UdpCard};
use drivers::nic::Hal;
use drivers::torus;

/// A network card.
pub(crate) type Card<H> = Either<linux::Card<H>, UdpCard>;
/// What serves a card's interrupts.
pub(crate) type CardInterrupt = Either<StreamInterrupt, StreamInterrupt>;

/// The words that name the cards, in their order; the torus is one of the first two.
const WORDS: [&str; 3] = [UDP, "torus", "tree"];
/// That of a card whose frames are datagrams.
const UDP: &str = "udp";

/// Why a card cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CardError {
    /// Its word is not `MTU,PATH`, or `MTU,RANK,ADDRESS,ADDRESS,..` of datagrams.
    Word,
    /// It cannot be reached.
    Card(linux::CardError),
    /// There are more than can interrupt.
    Deaf,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word => f.write_str(
                "it is to be named by an MTU and a path, or an MTU, a rank and all nodes' addresses, with commas between",
            ),
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
    words: core::array::IntoIter<&'static str, { WORDS.len() }>,
}

impl Cards {
    /// All of them. To be made once.
    pub(crate) fn new(_: &'static Machine) -> Self {
        Self { words: WORDS.into_iter() }
    }

    /// The next one.
    pub(crate) fn next<H: Hal>(&mut self) -> Option<Result<Found<H>, CardError>> {
        self.words.by_ref().find_map(|name| Some(find(name, arch::word(name)?)))
    }
}

fn find<H: Hal>(name: &str, word: &str) -> Result<Found<H>, CardError> {
    let (mtu, place) = word.split_once(',').ok_or(CardError::Word)?;
    let mtu = mtu.parse().map_err(|_| CardError::Word)?;
    let (card, line, way) = if name == UDP {
        let (rank, nodes) = place.split_once(',').ok_or(CardError::Word)?;
        let rank = rank.parse().map_err(|_| CardError::Word)?;
        let nodes = nodes.split(',').map(str::parse).collect::<Result<_, _>>();
        let nodes = nodes.map_err(|_| CardError::Word)?;
        let card = UdpCard::bind(rank, nodes, mtu, torus::rank).map_err(CardError::Card)?;
        let line = card.line();
        (Second(card), line, "datagrams")
    } else {
        let card = linux::Card::connect(place, mtu).map_err(CardError::Card)?;
        let line = card.line();
        (First(card), line, "stream")
    };
    let number = arch::events().and_then(|events| events.attach(line)).ok_or(CardError::Deaf)?;
    Ok(Found { card, interrupt: Interrupt { number, edge: false }, way })
}
