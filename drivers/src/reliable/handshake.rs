//! How connections begin and end, so that nodes keep something only of the peers that they have to do with now
//! (SPEC R-3). Decisions only: frames, packets and places are their callers'.
//!
//! ```text
//!      A                      B                            A                       B
//! calling a  --connect 0 a-->                         releasing  --release b a 1-->
//!            <-connect a b--  answering b a                                          idle: forgets
//! open a b   -----> b ----->  open b a                 forgets   <--released a b---
//!                                                      or: open  <----keep a 1-----  busy: goes on
//! ```
//!
//! *Numbers.* Each side gives a connection a number that it never gave to another, to whomever. Each frame says the
//! number of the side that it goes to. So a frame that says mine was sent by a peer that has heard of this very
//! connection: it is fresh. All others are of earlier connections, however late or often they come, but for calls: a
//! call knows no number, and is answered with a question (*answering*) before anything of it is believed.
//!
//! *Forgetting.* A side is idle when its packets are all acknowledged and what came was given back. Who is idle may ask
//! the peer for release and sends no new packet until it is answered. A peer that is idle too agrees and forgets, and
//! then the first does; neither side has anything on the way or expects something, so there is nothing to remember. A
//! release is agreed to or refused once and for all, by its number: an old one, come again, finds it decided. Who is
//! asked about a connection that it has not says that it is released: it can only have agreed.
//!
//! *Places.* The connections of a node are fewer than its peers may be. A packet to a node without one waits until there
//! is a place: a connection that is idle is released for it. A call waits likewise at its target, which says so. Of its
//! places a node leaves one at least to its callers ([`may_call`]). So no circle of nodes waits for each other's places:
//! a place that does not call waits for nobody's place, its packets are acknowledged and its buffers given back, then
//! it is idle.

/// A connection's number at one of its nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Number(u32);

impl Number {
    /// None, or none that is known.
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Whether its node gave it out after `other`, not 2^31 connections later.
    fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }

    /// The wire form.
    pub(super) const fn get(self) -> u32 {
        self.0
    }
}

/// The numbers that a node gives to its connections, one by one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Numbers(u32);

impl Numbers {
    pub(super) fn fresh(&mut self) -> Number {
        self.0 = self.0.wrapping_add(1).max(1);
        Number(self.0)
    }
}

/// What a frame says of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Word {
    /// Nothing: a packet or an acknowledgement.
    Plain,
    /// I call, or answer your call.
    Connect,
    /// I would forget.
    Release,
    /// I have forgotten, or never had it.
    Released,
    /// Not now.
    Keep,
    /// You have acknowledged all: I shall not ask again.
    Last,
}

/// That, and which connection it means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Words {
    pub(super) word: Word,
    /// The number of the side that it goes to.
    pub(super) to: Number,
    /// The number of the side that it comes from; in [`Word::Released`] as the other side had it.
    pub(super) own: Number,
    /// The number of the release; of what waits, 0.
    pub(super) attempt: u32,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// It called and has heard nothing.
    Calling,
    /// It heard a call, perhaps an old one.
    Answering,
    /// Both sides know of each other.
    Open,
    /// It would forget, and sends nothing new.
    Releasing,
}

/// What a frame leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// It is of an earlier connection: nothing.
    Stale,
    /// It is of this one: what it says of packets counts.
    Counts,
    /// So it is, and the peer is to hear at once.
    Tell,
    /// The peer, which may be another than thought, is to hear at once; of packets the frame says nothing.
    Ask,
    /// The peer lives and has no place yet, or goes on with the connection.
    Lives,
    /// The peer asks for release: [`decide`](Connection::decide).
    Decide,
    /// The peer is to hear this.
    Reply(Words),
    /// The peer has forgotten the connection, and so may this side.
    Forget,
    /// The peer has forgotten the connection and calls anew, by this number.
    Anew(Number),
}

/// One side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Connection {
    mine: Number,
    theirs: Number,
    phase: Phase,
    /// The last release that this side asked for.
    attempt: u32,
    /// The last one that the peer asked for, and the last that was refused.
    asked: u32,
    refused: u32,
}

impl Connection {
    const fn new(mine: Number, theirs: Number, phase: Phase) -> Self {
        Self { mine, theirs, phase, attempt: 0, asked: 0, refused: 0 }
    }

    /// One that calls.
    pub(super) const fn call(mine: Number) -> Self {
        Self::new(mine, Number::NONE, Phase::Calling)
    }

    /// One that answers the call of number `theirs`.
    pub(super) const fn answer(mine: Number, theirs: Number) -> Self {
        Self::new(mine, theirs, Phase::Answering)
    }

    /// A node's to itself.
    pub(super) const fn to_self(mine: Number) -> Self {
        Self::new(mine, mine, Phase::Open)
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// How often this side asked for release.
    pub(super) fn attempts(&self) -> u32 {
        self.attempt
    }

    /// Whether packets may be given to it. While it calls, they wait.
    #[inline]
    pub(super) fn takes_packets(&self) -> bool {
        self.phase != Phase::Releasing
    }

    /// Whether it waits for no answer of the handshake.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether a frame without words of the handshake is of this connection, which is open.
    #[inline]
    pub(super) fn is_meant(&self, to: Number) -> bool {
        self.is_open() && to == self.mine
    }

    /// What a frame says now that is sent anyhow.
    #[inline]
    pub(super) fn says(&self) -> Words {
        let word = match self.phase {
            Phase::Open => Word::Plain,
            Phase::Calling | Phase::Answering => Word::Connect,
            Phase::Releasing => Word::Release,
        };
        Words { word, to: self.theirs, own: self.mine, attempt: self.attempt }
    }

    /// Takes in what a frame says.
    pub(super) fn hear(&mut self, words: Words) -> Heard {
        let Words { word, to, own, attempt } = words;
        let (is_fresh, is_known) = (to == self.mine, own == self.theirs);
        match (word, self.phase) {
            (Word::Plain | Word::Last, Phase::Calling) => Heard::Stale,
            (Word::Plain | Word::Last, _) if is_fresh => self.open(),
            // The peer answers: it has heard of this side.
            (Word::Connect, Phase::Calling | Phase::Answering) if is_fresh => {
                self.theirs = own;
                self.open();
                Heard::Tell
            }
            (Word::Connect, _) if is_fresh => {
                if is_known {
                    Heard::Tell
                } else {
                    Heard::Stale
                }
            }
            // The peer calls, perhaps long ago. Of two calls the later has the higher number.
            (Word::Connect, phase) if to == Number::NONE => match phase {
                Phase::Calling => {
                    (self.theirs, self.phase) = (own, Phase::Answering);
                    Heard::Ask
                }
                Phase::Answering if !self.theirs.is_after(own) => {
                    self.theirs = own;
                    Heard::Ask
                }
                Phase::Releasing if own.is_after(self.theirs) => Heard::Anew(own),
                _ => Heard::Stale,
            },
            (Word::Release, Phase::Answering | Phase::Open | Phase::Releasing) if is_fresh && is_known => {
                self.open();
                if attempt > self.refused {
                    self.asked = attempt;
                    return Heard::Decide;
                }
                Heard::Reply(self.keep(attempt))
            }
            // It means a connection that this side had and has no longer.
            (Word::Connect | Word::Release, _) if !is_fresh => Heard::Reply(released(&words)),
            (Word::Released, Phase::Releasing) if is_fresh && is_known => Heard::Forget,
            (Word::Released, Phase::Answering) if is_fresh && is_known => Heard::Forget,
            (Word::Keep, Phase::Calling) if is_fresh => Heard::Lives,
            (Word::Keep, Phase::Releasing) if is_fresh && attempt == self.attempt => {
                self.phase = Phase::Open;
                Heard::Lives
            }
            _ => Heard::Stale,
        }
    }

    /// The peer has heard of this side.
    fn open(&mut self) -> Heard {
        if matches!(self.phase, Phase::Calling | Phase::Answering) {
            self.phase = Phase::Open;
        }
        Heard::Counts
    }

    /// The call that this answers was an old one, but this side has packets: it calls itself. False if it answers none.
    pub(super) fn call_again(&mut self) -> bool {
        let answers = self.phase == Phase::Answering;
        if answers {
            (self.theirs, self.phase) = (Number::NONE, Phase::Calling);
        }
        answers
    }

    /// This side is idle and would forget.
    pub(super) fn release(&mut self) {
        self.attempt += 1;
        self.phase = Phase::Releasing;
    }

    /// Agrees to the release that the peer asked for last, unless it was refused, or refuses it; the peer is to hear. Who
    /// agrees, as the first result says, forgets.
    pub(super) fn decide(&mut self, agrees: bool) -> (bool, Words) {
        if agrees && self.asked > self.refused {
            return (true, Words { word: Word::Released, ..self.keep(0) });
        }
        self.refused = self.asked;
        (false, self.keep(self.asked))
    }

    fn keep(&self, attempt: u32) -> Words {
        Words { word: Word::Keep, to: self.theirs, own: self.mine, attempt }
    }
}

/// What a frame of a node without a connection leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stranger {
    /// It is of an earlier connection.
    Stale,
    /// It calls, by this number.
    Calls(Number),
    /// It is to hear this.
    Reply(Words),
}

/// Takes in what a node says to which there is no connection.
pub(super) fn hear_stranger(words: &Words) -> Stranger {
    match words.word {
        Word::Connect if words.to == Number::NONE => Stranger::Calls(words.own),
        Word::Connect | Word::Release => Stranger::Reply(released(words)),
        Word::Plain | Word::Released | Word::Keep | Word::Last => Stranger::Stale,
    }
}

/// Says that the connection a frame means is no more.
fn released(words: &Words) -> Words {
    Words { word: Word::Released, to: words.own, own: words.to, attempt: 0 }
}

/// Has a caller wait.
pub(super) fn wait(caller: Number) -> Words {
    Words { word: Word::Keep, to: caller, own: Number::NONE, attempt: 0 }
}

/// Whether a node of `places` places, `calling` of which call, may call with one more that is free.
pub(super) fn may_call(calling: usize, places: usize) -> bool {
    calling + 1 < places.max(2)
}
