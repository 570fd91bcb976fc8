//! Credit: how much of a context's memory for unexpected messages each peer may use (SPEC ).
//!
//! That memory is one pool, of units of a chunk. Every peer is granted some of them, and what a sender has left of what it was
//! granted is its credit: a message goes with its data if that is enough, and as an RTS if it is not. As a message leaves the
//! memory its units go back to its sender with the next message, so that one never waits for a word of its own.
//!
//! | when | what becomes of the grants |
//! |---|---|
//! | at first | each peer is sure of an equal share of half the pool, of [`FIRST`] units at most; in a job of so many tasks that this is none, the first message waits for the answer to a question |
//! | an RTS says that credit was short | its sender's grant doubles, but never above what stays free then |
//! | a message leaves that had more than its share | its units stay in the pool if less is free than its sender has |
//! | credit was short, and nothing is free | the one with the most, of some that have more than they are sure of, gives back what it does not use |
//! | a peer's node died | all that it had is free, but for what lies here until that leaves |
//!
//! Nobody is believed: what a peer has lie here counts against what it was granted. A message over that is dropped, and counted as
//! a protocol error; nobody else's place is taken (SPEC D-9).
//!
//! So one busy peer has half the pool, two a third each, and so on; and a peer without credit is held up by nobody: RTS need none.

use super::unexpected::chunks_of;

/// Most units that a peer is sure of.
const FIRST: u16 = 32;
/// Units of the first grant of a peer that is sure of none.
const SOME: u16 = 4;

/// Units that a message of so many bytes takes.
#[inline]
pub(super) fn units_of(len: usize) -> u16 {
    // Longer ones are RTS.
    u16::try_from(chunks_of(len)).unwrap_or(u16::MAX).max(1)
}

/// What a peer is owed at least that is to hear of it by a message of its own: half of what it was granted and has not here.
#[inline]
fn due(granted: u16) -> u16 {
    granted.div_ceil(2)
}

/// Whether a sender may expect credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// It has never asked, and was granted nothing.
    No,
    /// The answer is on its way.
    Waits,
    /// It was, or was sure of some.
    Yes,
}

/// What a peer has of this context's units, and this context of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Credit {
    /// Units of the peer's that are left.
    left: u16,
    asked: Asked,
    /// Units that the peer was granted, but for those in `here`: its credit, what is on its way, and what it is owed.
    granted: u16,
    /// Units that unexpected messages of the peer's take.
    here: u16,
    /// What it may use again, and has not heard of.
    owed: u16,
    /// While it is owed less than this, more that it may use again changes nothing else. At most as much as makes it
    /// [due](Self::is_due), and 0 if it has more than it is sure of, or was told to give back.
    calm: u16,
    /// It was told to give back what it does not use, and has been granted nothing since.
    recalled: bool,
    /// Its node died.
    dead: bool,
}

/// The units of a context.
#[derive(Default)]
pub(super) struct CreditPool {
    /// Granted to nobody.
    free: u32,
    /// What each peer is sure of.
    sure: u16,
}

impl CreditPool {
    /// A pool of so many units, for so many peers.
    pub(super) fn new(units: usize, peers: usize) -> Self {
        let sure = (units / 2 / peers.max(1)).min(FIRST.into());
        Self { free: (units - sure * peers) as u32, sure: sure as u16 }
    }

    /// What is known of a peer at first.
    pub(super) fn first(&self) -> Credit {
        let asked = if self.sure == 0 { Asked::No } else { Asked::Yes };
        let (left, granted, calm) = (self.sure, self.sure, due(self.sure));
        Credit { left, asked, granted, here: 0, owed: 0, calm, recalled: false, dead: false }
    }

    /// Grants more to a peer whose credit was short. Returns whether there was room for that.
    pub(super) fn grant(&mut self, credit: &mut Credit) -> bool {
        if credit.dead {
            return false;
        }
        let has = credit.total();
        let most = self.free.saturating_sub(has.into()) / 2;
        let more = u32::from(has.max(SOME)).min(most).min(u32::from(u16::MAX - has)) as u16;
        self.free -= u32::from(more);
        credit.granted += more;
        credit.owed += more;
        credit.recalled &= more == 0;
        self.calm(credit);
        more > 0
    }

    /// What was granted, or lies here, is another.
    #[inline]
    fn calm(&self, credit: &mut Credit) {
        let calm = credit.total() <= self.sure && !credit.recalled;
        credit.calm = if calm { due(credit.granted) } else { 0 };
    }

    /// A message of a peer's that never lay here needs its units no more. Returns as [`Credit::is_due`].
    pub(super) fn passed(&mut self, credit: &mut Credit, units: u16) -> bool {
        self.left(credit, units);
        credit.is_due()
    }

    /// A message of a peer's that lay here is gone.
    pub(super) fn taken(&mut self, credit: &mut Credit, units: u16) {
        credit.here -= units;
        credit.granted += units;
        if credit.dead {
            return self.take_back(credit, units);
        }
        self.left(credit, units);
    }

    /// Units of a peer are not used any more.
    #[inline]
    fn left(&mut self, credit: &mut Credit, mut units: u16) {
        let has = credit.total();
        if has > self.sure && u32::from(has) > self.free {
            let over = units.min(has - self.sure);
            self.take_back(credit, over);
            units -= over;
        }
        if units > 0 {
            credit.owe(units);
        }
        self.calm(credit);
    }

    /// A peer gave back what it did not use.
    pub(super) fn take_back(&mut self, credit: &mut Credit, units: u16) {
        // A peer cannot give back what it has not.
        let units = units.min(credit.granted - credit.owed);
        credit.granted -= units;
        self.free += u32::from(units);
        self.calm(credit);
    }

    /// A peer's node died: nothing more comes from there, and nothing is owed to it.
    pub(super) fn peer_died(&mut self, credit: &mut Credit) {
        (credit.dead, credit.owed) = (true, 0);
        self.take_back(credit, u16::MAX);
    }

    /// Whether a peer has more than it is sure of.
    #[inline]
    pub(super) fn is_over(&self, credit: &Credit) -> bool {
        credit.total() > self.sure
    }

    /// What a peer has that it could be told to give back, if it does not use it.
    pub(super) fn excess(&self, credit: &Credit) -> u16 {
        if credit.recalled || credit.dead { 0 } else { credit.total().saturating_sub(self.sure) }
    }

    /// What is not used of a peer's units, over what this context is sure of.
    pub(super) fn unused(&self, credit: &Credit) -> u16 {
        credit.left.saturating_sub(self.sure)
    }

    /// So many units are the peer's again.
    pub(super) fn gave_back(&self, credit: &mut Credit, units: u16) {
        credit.left -= units;
        if self.sure == 0 {
            credit.asked = Asked::No;
        }
    }
}

impl Credit {
    /// All that the peer was granted.
    #[inline]
    fn total(&self) -> u16 {
        self.granted + self.here
    }

    /// The peer may use so many units of its grant again, more than none.
    #[inline]
    fn owe(&mut self, units: u16) {
        // A peer has no more than it was granted.
        self.owed = self.granted.min(self.owed.saturating_add(units));
        // It may have what it does not use again.
        self.recalled = false;
    }

    /// A message of the peer's is to lie here. Returns whether it was granted that.
    pub(super) fn keep(&mut self, units: u16) -> bool {
        let may = units <= self.granted - self.owed;
        if may {
            self.granted -= units;
            self.here += units;
            self.calm = self.calm.min(due(self.granted));
        }
        may
    }

    /// A message of one unit that never lay here needs that no more, if nothing else is to be done then, as mostly. Returns
    /// whether that is so: if not, nothing was done.
    #[inline(always)]
    pub(super) fn pass_unit(&mut self) -> bool {
        let owed = u32::from(self.owed) + 1;
        let passes = owed < self.calm.into();
        if passes {
            self.owed = owed as u16;
        }
        passes
    }

    /// Whether there is enough for a message of so many units.
    #[inline]
    pub(super) fn has(&self, units: u16) -> bool {
        self.left >= units
    }

    /// What is left behind a message of so many units, if there is enough for it.
    #[inline]
    pub(super) fn behind(&self, units: u16) -> Option<u16> {
        self.left.checked_sub(units)
    }

    /// A message went that told the peer of all that it is owed, and so much is [left behind](Self::behind) it.
    #[inline]
    pub(super) fn went(&mut self, left: u16) {
        (self.left, self.owed) = (left, 0);
    }

    /// A message of so many units went.
    #[inline]
    pub(super) fn spend(&mut self, units: u16) {
        self.left = self.left.saturating_sub(units);
    }

    /// The peer says that so many more may be used.
    #[inline]
    pub(super) fn gain(&mut self, units: u16) {
        self.left = self.left.saturating_add(units);
        self.asked = Asked::Yes;
    }

    /// The peer has answered, whether or not there was any.
    pub(super) fn answered(&mut self) {
        self.asked = Asked::Yes;
    }

    /// Whether short of credit a message goes as an RTS, and waits for no answer.
    pub(super) fn is_known(&self) -> bool {
        self.asked == Asked::Yes
    }

    /// Whether the peer is still to be asked; it is taken to be asked then.
    pub(super) fn asks(&mut self) -> bool {
        self.asked == Asked::No && {
            self.asked = Asked::Waits;
            true
        }
    }

    /// What the peer is owed, to be told with a message that goes to it.
    #[inline]
    pub(super) fn owed(&self) -> u16 {
        self.owed
    }

    /// The peer was told of so much of it.
    #[inline]
    pub(super) fn told(&mut self, units: u16) {
        self.owed -= units;
    }

    /// Whether the peer should be told what it is owed by a message of its own.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.owed > 0 && self.owed >= due(self.granted)
    }

    /// It is told to give back what it does not use.
    pub(super) fn recall(&mut self) {
        (self.recalled, self.calm) = (true, 0);
    }
}

#[cfg(test)]
#[path = "credit_tests.rs"]
mod tests;
