//! The service node: who is gone, and who is told (SPEC R-2).
//!
//! A node is alive while its process is and its cable is plugged in. That is seen here, from outside, and needs nothing of its
//! application: it may compute for as long as it likes. When a process ends, or a connection to the torus does and the process
//! does not within [`FAREWELL`], the fabric tells all other nodes, each in the same order: *ended*, if it had told its final
//! status; else *died*. A node that is called dead is dead: what is left of it is killed first.
//!
//! One that is there may be past helping all the same, in two ways:
//!
//! | what | seen by | since |
//! |---|---|---|
//! | its process stands still: somebody stopped it, or the host does not run it | the process's state | it stood still |
//! | its kernel does not take interrupts any more | no answer to a question | the question |
//!
//! It is *suspected* by name then, and everybody goes on waiting: it may come back, and nothing is lost. When that has lasted for
//! as long as the user gives it (`--silence`), it counts as dead. Time in which this tool stood still itself does not count.
//!
//! *A link that is down* its node tells itself: when its card interrupts for that, else at its next sleep or question
//! (`kernel/src/links.rs`). It is named, messages wait and go on when the link is up again. One that says that its link to the
//! torus is still down after as long as `--silence` is dead for all others.
//!
//! *The question* is a byte on the line of its console, which the kernel answers from that line's interrupt, after every hart
//! took it (`kernel/src/question.rs`): a task that computes has no part in it. As it costs the node some instructions, and a loop
//! that nobody asks about is to take the same ones each time (N-8, N-9), a node is asked only when it has said nothing for
//! [`DOUBT`], on torus, tree or console, *and* somebody may be waiting for it: it was sent something since it last said anything,
//! or some node has been asleep all that time. One whose link was down when it last said is asked each [`DOUBT`] whether it
//! still is, as nothing else need make it look. While all compute, nobody is asked; of those that others wait for, each at most
//! once in that time. Nobody is asked either whose instructions are counted, as such a node's time is its own, or in a run with
//! a debugger.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::watched::Watched;
use crate::fabric::{FabricHandle, Fate};
use crate::node::Exit;
use crate::progress::Voice;

/// How long after its connection a process may end.
const FAREWELL: Duration = Duration::from_millis(1000);

/// How long a node's process may stand still before it is suspected; or a quarter of the time after which it counts as dead.
const SUSPICION: Duration = Duration::from_secs(10);
/// How long a node may say nothing before it may be asked whether it lives.
const DOUBT: Duration = Duration::from_secs(4);
/// How long it may take to answer before it is suspected; or that quarter. Twice as long if the host has not let it run for
/// [`TURN`] meanwhile: it could not answer then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
const TURN: Duration = Duration::from_millis(100);
/// Time between two looks for signs of life.
const PULSE: Duration = Duration::from_millis(250);
/// Time between two looks at what nodes say and do.
const GLANCE: Duration = Duration::from_secs(1);
/// A process that uses less of a processor than this, of 1000, is asleep.
const ASLEEP: u128 = 20;
/// Bits of the links that a node may say are down.
const TORUS_LINK: u32 = 1;
const TREE_LINK: u32 = 2;
/// A turn of the watch takes no longer than this, unless this tool did not run.
const ABSENCE: Duration = Duration::from_secs(2);

/// How long a turn of the watch took, the time in which this tool stood still apart: nobody is to pay for that.
pub(super) struct Turn {
    /// When it ended.
    pub(super) end: Instant,
    /// How long it took, if the tool ran.
    pub(super) lasted: Duration,
    /// How long, if it did not.
    pub(super) absence: Duration,
}

impl Turn {
    /// One from `begin` to `end`.
    pub(super) fn new(begin: Instant, end: Instant) -> Self {
        let length = end.saturating_duration_since(begin);
        let (lasted, absence) =
            if length > ABSENCE { (Duration::ZERO, length) } else { (length, Duration::ZERO) };
        Self { end, lasted, absence }
    }
}

/// What is known of the nodes' lives.
pub struct Life {
    /// After how long without a sign of life a node counts as dead, if ever.
    silence: Option<Duration>,
    /// Whether nodes may be asked.
    asks: bool,
    /// When the processes were last looked at, and what they say and do.
    pulse: Instant,
    glance: Instant,
    signs: Vec<Signs>,
    /// When the connection of each ended.
    unplugged: Vec<Option<Instant>>,
    told: Vec<bool>,
    /// The links of each that are down, and since when that on the torus is.
    down: Vec<(u32, Option<Instant>)>,
    /// The first that died.
    first_dead: Option<u32>,
}

/// What one node gives to see.
#[derive(Clone, Debug)]
struct Signs {
    /// Since when its process stands still, if it does.
    still: Option<Instant>,
    /// How much it had said when it last said something, and when that was.
    said: u64,
    heard: Instant,
    /// How much it had been sent by then.
    sent: u64,
    /// Since when there is a question that it has not answered.
    asked: Option<Instant>,
    /// Processor time it had used then, and at the last look, and when it was last awake.
    used_when_asked: Duration,
    used: Duration,
    awake: Instant,
}

impl Signs {
    fn new(now: Instant) -> Self {
        Self {
            still: None,
            said: 0,
            heard: now,
            sent: 0,
            asked: None,
            used_when_asked: Duration::ZERO,
            used: Duration::ZERO,
            awake: now,
        }
    }

    /// What is seen of it `elapsed` after the last time: how much it has said and been sent, and the processor time it has used.
    fn note(&mut self, now: Instant, elapsed: Duration, (said, sent): (u64, u64), used: Duration) {
        if said != self.said {
            (self.said, self.sent, self.heard, self.asked) = (said, sent, now, None);
        }
        if used.saturating_sub(self.used).as_micros() * 1000 >= elapsed.as_micros() * ASLEEP {
            self.awake = now;
        }
        self.used = used;
    }

    /// Whether it has slept through the time that makes one doubt.
    fn sleeps(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.awake) >= DOUBT
    }

    /// Whether it is to be asked, if somebody is `waiting` for something, and it had been `sent` so much.
    fn is_doubted(&self, now: Instant, waiting: bool, sent: u64) -> bool {
        let silent = now.saturating_duration_since(self.heard) >= DOUBT;
        self.asked.is_none() && silent && (waiting || sent != self.sent)
    }

    /// Whether it is to be asked how its links are, if it said at `told` that one is down.
    fn is_off(&self, now: Instant, told: Option<Instant>) -> bool {
        self.asked.is_none() && told.is_some_and(|told| now.saturating_duration_since(told) >= DOUBT)
    }

    /// Its process stands still, or does not. A question does not grow old meanwhile.
    fn stand(&mut self, now: Instant, still: bool) {
        self.asked = self.asked.map(|asked| if still { now } else { asked });
        self.still = still.then(|| self.still.unwrap_or(now));
    }

    /// It has been asked.
    fn ask(&mut self, now: Instant) {
        (self.asked, self.used_when_asked) = (Some(now), self.used);
    }

    /// Since when it gives no sign of life, and after how long that makes it suspect.
    fn lifeless(&self) -> Option<(Instant, Duration)> {
        let still = self.still.map(|since| (since, SUSPICION));
        let had_its_turn = self.used.saturating_sub(self.used_when_asked) >= TURN;
        let timeout = if had_its_turn { ANSWER_TIMEOUT } else { 2 * ANSWER_TIMEOUT };
        still.or(self.asked.map(|since| (since, timeout)))
    }

    /// Time in which this tool stood still does not count.
    fn forgive(&mut self, absence: Duration) {
        for since in
            [&mut self.heard, &mut self.awake].into_iter().chain(&mut self.still).chain(&mut self.asked)
        {
            *since += absence;
        }
    }
}

impl Life {
    /// All of `nodes` live; who gives no sign of life for `silence` counts as dead. `asks`: whether they may be asked.
    pub fn new(nodes: usize, silence: Option<Duration>, asks: bool) -> Self {
        let now = Instant::now();
        Self {
            silence,
            asks,
            pulse: now,
            glance: now,
            signs: vec![Signs::new(now); nodes],
            unplugged: vec![None; nodes],
            told: vec![false; nodes],
            down: vec![(0, None); nodes],
            first_dead: None,
        }
    }

    /// The first that died.
    pub fn first_dead(&self) -> Option<u32> {
        self.first_dead
    }

    /// Looks for signs of life after a turn of the watch.
    pub(super) fn feel(
        &mut self,
        turn: &Turn,
        nodes: &mut [Watched],
        fabric: &FabricHandle,
        voice: &Voice,
    ) -> Result<()> {
        self.forgive(turn.absence);
        let now = turn.end;
        if now - self.pulse < PULSE {
            return Ok(());
        }
        self.pulse = now;
        if self.asks && fabric.started() && now - self.glance >= GLANCE {
            self.doubt(now, nodes, fabric)?;
        }
        for (node, signs) in nodes.iter_mut().zip(&mut self.signs) {
            let suspected = node.outcome().suspected;
            signs.stand(now, node.guest().stands_still());
            let lifeless = signs.lifeless().filter(|_| node.outcome().exit.is_none());
            let Some((since, timeout)) = lifeless else {
                node.clear();
                if suspected && node.outcome().exit.is_none() {
                    node.note("gives signs of life again", voice)?;
                }
                continue;
            };
            let length = now.saturating_duration_since(since);
            if !suspected && length >= self.silence.map_or(timeout, |silence| timeout.min(silence / 4)) {
                node.suspect();
                let end = self.silence.map_or("it counts as dead never".to_owned(), |silence| {
                    format!("it counts as dead after {} s", silence.as_secs_f32())
                });
                let silent =
                    if signs.still.is_some() { length } else { now.saturating_duration_since(signs.heard) };
                node.note(
                    &format!(
                        "has given no sign of life for {:.1} s: all go on waiting, {end}",
                        silent.as_secs_f32()
                    ),
                    voice,
                )?;
            }
            if let Some(silence) = self.silence.filter(|&silence| length >= silence) {
                node.lose(&format!("it gave no sign of life for {} s", silence.as_secs_f32()))?;
            }
        }
        self.feel_links(now, nodes, voice)
    }

    /// Time in which this tool stood still does not count.
    fn forgive(&mut self, absence: Duration) {
        self.signs.iter_mut().for_each(|signs| signs.forgive(absence));
        let links = self.down.iter_mut().filter_map(|(_, since)| since.as_mut());
        links.chain(self.unplugged.iter_mut().flatten()).for_each(|since| *since += absence);
    }

    /// Names the links that have gone down or come up, and gives up nodes that have been off the torus for too long.
    fn feel_links(&mut self, now: Instant, nodes: &mut [Watched], voice: &Voice) -> Result<()> {
        for (node, (was, since)) in nodes.iter_mut().zip(&mut self.down) {
            if node.outcome().exit.is_some() {
                continue;
            }
            let down = node.outcome().links_down;
            let changed = down ^ std::mem::replace(was, down);
            for (bit, network) in [(TORUS_LINK, "torus"), (TREE_LINK, "tree")] {
                if changed & bit != 0 {
                    node.note(&format!("has {}", link_news(network, down & bit == 0, self.silence)), voice)?;
                }
            }
            *since = since.or(Some(now)).filter(|_| down & TORUS_LINK != 0);
            // Up to its last word of it: it may be up again since.
            let length = since.zip(node.links_heard());
            let length = length.map_or(Duration::ZERO, |(since, told)| told.saturating_duration_since(since));
            if let Some(silence) = self.silence.filter(|&silence| length >= silence) {
                node.lose(&format!("its link to the torus was down for {} s", silence.as_secs_f32()))?;
            }
        }
        Ok(())
    }

    /// Looks at what the nodes say and do, and asks those that are doubted whether they live.
    fn doubt(&mut self, now: Instant, nodes: &mut [Watched], fabric: &FabricHandle) -> Result<()> {
        let elapsed = now - std::mem::replace(&mut self.glance, now);
        let traffic = fabric.traffic();
        for (signs, (node, &(said, sent))) in self.signs.iter_mut().zip(nodes.iter_mut().zip(&traffic)) {
            let used = node.guest().processor_time().unwrap_or_default();
            signs.note(now, elapsed, (said + node.heard(), sent), used);
        }
        let waiting = self.signs.iter().zip(&*nodes);
        let waiting =
            waiting.filter(|(_, node)| node.outcome().exit.is_none()).any(|(signs, _)| signs.sleeps(now));
        for (signs, (node, (_, sent))) in self.signs.iter_mut().zip(nodes.iter_mut().zip(traffic)) {
            let there = node.answers() && node.outcome().exit.is_none() && signs.still.is_none();
            let off = node.links_heard().filter(|_| node.outcome().links_down != 0);
            let is_asked = signs.is_doubted(now, waiting, sent) || signs.is_off(now, off);
            if there && is_asked && node.guest().ask() {
                node.note_question();
                signs.ask(now);
            }
        }
        Ok(())
    }

    /// Looks who is gone, and has it told.
    pub fn look(&mut self, nodes: &mut [Watched], fabric: &FabricHandle) -> Result<()> {
        for rank in fabric.departed() {
            if let Some(since) = self.unplugged.get_mut(rank as usize) {
                since.get_or_insert_with(Instant::now);
            }
        }
        for (node, since) in nodes.iter_mut().zip(&self.unplugged) {
            // Who has told its end may take its time to leave: on a busy host that is seconds.
            let leaves = node.outcome().exit.is_some() || node.outcome().end().is_some();
            if !leaves && since.is_some_and(|since| since.elapsed() > FAREWELL) {
                node.lose("its connection to the torus has ended")?;
            }
        }
        // Of several that are found at once, those that died go first: who ended did so in time.
        for fate in [Fate::Died, Fate::Ended] {
            for (place, node) in nodes.iter_mut().enumerate() {
                if self.told[place] || fate_of(node) != Some(fate) {
                    continue;
                }
                self.told[place] = true;
                node.clear();
                fabric.announce(node.rank(), fate);
                // One that has parked would hold its connections open, as no process does that has ended.
                if node.outcome().exit.is_some() {
                    fabric.cut(node.rank());
                }
                if fate == Fate::Died && self.first_dead.is_none() {
                    self.first_dead = Some(node.rank());
                }
            }
        }
        Ok(())
    }
}

/// What a node has that said that its link to a network is up again, or down.
fn link_news(network: &str, up: bool, silence: Option<Duration>) -> String {
    match (up, network) {
        (true, _) => format!("its link to the {network} up again"),
        // Nothing that is lost there goes again.
        (false, "tree") => "its link to the tree down: what is lost there stays lost".to_owned(),
        (false, _) => {
            let end =
                silence.map_or("never".to_owned(), |silence| format!("after {} s", silence.as_secs_f32()));
            format!("its link to the {network} down: messages wait, it counts as dead {end}")
        }
    }
}

/// How a node went, if it did.
fn fate_of(node: &Watched) -> Option<Fate> {
    if node.is_lost() {
        return Some(Fate::Died);
    }
    match node.outcome().exit? {
        Exit::Code(_) if node.outcome().end().is_some() => Some(Fate::Ended),
        _ => Some(Fate::Died),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Signs of a node that says nothing for so many seconds, uses so much of a processor meanwhile, of 1000, and is sent so much.
    fn after(seconds: u32, share: u32, sent: u64) -> (Signs, Instant) {
        let mut now = Instant::now();
        let mut signs = Signs::new(now);
        for second in 1..=seconds {
            now += SECOND;
            signs.note(now, SECOND, (0, sent), SECOND * second * share / 1000);
        }
        (signs, now)
    }

    #[test]
    fn n9_who_is_quiet_is_not_asked_while_nobody_waits() {
        let (signs, now) = after(3600, 1000, 0);
        assert!(!signs.sleeps(now) && !signs.is_doubted(now, false, 0));
    }

    #[test]
    fn r2_who_says_nothing_is_asked_when_somebody_waits_and_once() {
        let (mut signs, now) = after(5, 1000, 0);
        assert!(signs.is_doubted(now, true, 0), "another sleeps");
        assert!(signs.is_doubted(now, false, 1), "it was sent something");
        signs.ask(now);
        assert!(!signs.is_doubted(now + 10 * SECOND, true, 1), "it was asked");
        // It has a longer time while the host does not let it run.
        assert_eq!(signs.lifeless(), Some((now, 2 * ANSWER_TIMEOUT)));
        signs.note(now + SECOND, SECOND, (0, 7), 6 * SECOND);
        assert_eq!(signs.lifeless(), Some((now, ANSWER_TIMEOUT)));
        // Any word of its is an answer.
        signs.note(now + SECOND, SECOND, (1, 7), 6 * SECOND);
        assert_eq!(signs.lifeless(), None);
        assert!(!signs.is_doubted(now + 2 * SECOND, true, 7));
        assert!(signs.is_doubted(now + 6 * SECOND, false, 8));
        let (early, now) = after(3, 1000, 0);
        assert!(!early.is_doubted(now, true, 1));
    }

    #[test]
    fn r2_who_said_that_a_link_is_down_is_asked_again_whatever_all_do() {
        let (mut signs, now) = after(3, 1000, 0);
        // It speaks, and nobody waits: that says nothing of its link.
        signs.note(now, SECOND, (7, 0), 3 * SECOND);
        assert!(!signs.is_doubted(now, false, 0));
        assert!(!signs.is_off(now, None));
        assert!(!signs.is_off(now, Some(now - SECOND)));
        assert!(signs.is_off(now, Some(now - DOUBT)));
        signs.ask(now);
        assert!(!signs.is_off(now + SECOND, Some(now - DOUBT)));
    }

    #[test]
    fn r2_who_uses_no_processor_for_long_sleeps() {
        let (signs, now) = after(5, 19, 0);
        assert!(signs.sleeps(now));
        let (signs, now) = after(5, 21, 0);
        assert!(!signs.sleeps(now));
    }

    #[test]
    fn r2_a_question_to_one_that_stands_still_does_not_grow_old() {
        let (mut signs, now) = after(5, 1000, 0);
        signs.ask(now);
        signs.stand(now + SECOND, true);
        signs.stand(now + 60 * SECOND, true);
        assert_eq!(signs.lifeless(), Some((now + SECOND, SUSPICION)));
        signs.stand(now + 61 * SECOND, false);
        assert_eq!(signs.lifeless(), Some((now + 60 * SECOND, 2 * ANSWER_TIMEOUT)));
    }

    #[test]
    fn r2_what_the_tool_slept_through_is_forgiven() {
        let (mut signs, now) = after(2, 0, 0);
        signs.ask(now);
        signs.forgive(60 * SECOND);
        let later = now + 61 * SECOND;
        assert!(!signs.sleeps(later));
        assert_eq!(signs.lifeless(), Some((now + 60 * SECOND, 2 * ANSWER_TIMEOUT)));
    }
}
