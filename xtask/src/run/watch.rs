//! The event loop of a run: reads all consoles, judges, and ends it one way or another.

use std::io::{ErrorKind, Read as _};
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mio::unix::pipe::Receiver;
use mio::{Events, Interest, Poll, Token};

use super::afar::Afar;
use super::door::Door;
use super::harm::{Harm, Kill, KillWhen, Victim};
use super::io_nodes::IoNodes;
use super::life::{Life, Turn};
use super::outcome::Ending;
use super::state::State;
use super::watched::{Firmware, Said, Watched};
use crate::fabric::FabricHandle;
use crate::log;
use crate::node::TORUS;
use crate::progress::Voice;
use crate::qmp::Control;

/// After a node has failed, the others may still say what they have to say for this long.
const GRACE: Duration = Duration::from_millis(500);
/// The same if a node died: the others are told, and say so.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So long the failed node itself has to leave: it may be at the middle of its report.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often the clock, Ctrl-C and processes are looked at while the torus forms, and later.
const TICKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(50)];

/// A run under watch.
pub struct Watch<'a> {
    /// The nodes that were started here, by rising rank.
    pub nodes: Vec<Watched>,
    /// Their network.
    pub fabric: &'a FabricHandle,
    /// What acts on the job's files.
    pub io_nodes: &'a IoNodes,
    /// What tells how they are, and who asks that meanwhile.
    pub state: &'a State<'a>,
    /// See [`state`](Self::state).
    pub door: &'a mut Door,
    /// What decodes their words.
    pub firmware: Option<&'a Firmware>,
    /// Who hears them.
    pub voice: &'a Voice,
    /// Set when the user is tired of waiting.
    pub interrupt: &'a AtomicBool,
    /// When the emulators started.
    pub begun: Instant,
    /// How long the run may take.
    pub deadline: Option<Duration>,
    /// After how long without a sign of life a node counts as dead, if ever.
    pub silence: Option<Duration>,
    /// Whether nodes may be asked whether they live.
    pub asks: bool,
    /// Nodes to kill.
    pub kills: Vec<Kill>,
    /// Whether a node's failure leaves the others until the deadline.
    pub go_on: bool,
    /// Those that others have started, if there are any.
    pub afar: Option<Afar>,
    /// When all had joined.
    pub joined: Option<Instant>,
    /// When a node was first killed or cut off.
    pub harmed: Option<Instant>,
    /// When the last one told its final status.
    pub ended: Option<Instant>,
}

impl Watch<'_> {
    /// Watches until all nodes are gone or there is a reason to stop them.
    pub fn watch(mut self, consoles: Vec<ChildStdout>) -> Result<(Self, Ending)> {
        let ending = self.watch_all(consoles)?;
        Ok((self, ending))
    }

    fn watch_all(&mut self, consoles: Vec<ChildStdout>) -> Result<Ending> {
        let mut poll = Poll::new().context("no event loop")?;
        let mut events = Events::with_capacity(256);
        let mut consoles: Vec<Receiver> = consoles.into_iter().map(Receiver::from).collect();
        for (place, console) in consoles.iter_mut().enumerate() {
            console.set_nonblocking(true)?;
            poll.registry().register(console, Token(place), Interest::READABLE)?;
        }
        let mut failed: Option<Instant> = None;
        let mut life = Life::new(self.nodes.len(), self.silence, self.asks);
        let (mut passing, mut begin) = (Vec::new(), Instant::now());
        loop {
            let tick = TICKS[usize::from(self.joined.is_some())];
            match poll.poll(&mut events, Some(tick)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(error).context("waiting for consoles");
                }
                _ => {}
            }
            for event in &events {
                self.listen(event.token().0, &mut consoles[event.token().0])?;
            }
            if self.joined.is_none() && self.fabric.started() && self.nodes.iter().all(Watched::is_up) {
                self.joined = Some(Instant::now());
            }
            for node in &mut self.nodes {
                let failed = node.outcome().failure.is_some();
                node.judge()?;
                // Who ends with an error because another died is not the one to look at.
                let follows = !failed && node.outcome().end().is_some();
                if let Some(dead) = life.first_dead()
                    && follows
                {
                    node.excuse(&format!(", after node {dead} had died"));
                }
            }
            let turn = Turn::new(begin, Instant::now());
            begin = turn.end;
            self.deadline = self.deadline.map(|deadline| deadline.saturating_add(turn.absence));
            failed = failed.map(|since| since + turn.absence);
            self.harm_due(&mut passing, &turn)?;
            life.feel(&turn, &mut self.nodes, self.fabric, self.voice)?;
            life.look(&mut self.nodes, self.fabric)?;
            if let Some(afar) = &mut self.afar {
                afar.turn(&turn, self.nodes.iter().map(Watched::outcome), self.silence);
            }
            self.show();
            let joined = self.joined.is_some();
            self.door.answer(|question| self.state.answer(&mut self.nodes, joined, question));
            let over = self.afar.as_ref().is_none_or(Afar::is_over);
            if over && self.nodes.iter().all(|node| node.outcome().exit.is_some()) {
                return Ok(Ending::Finished);
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(Ending::Interrupted);
            }
            let lost = self.afar.iter().flat_map(Afar::failures).any(|(_, why)| why.is_some());
            if failed.is_none() && (lost || self.nodes.iter().any(|node| node.outcome().failure.is_some())) {
                failed = Some(Instant::now());
            }
            let leaving = |node: &Watched| node.outcome().failure.is_some() && node.outcome().exit.is_none();
            let grace = if life.first_dead().is_some() { LAST_WORDS } else { GRACE };
            let patience = if self.nodes.iter().any(leaving) { FAREWELL } else { grace };
            if !self.go_on && failed.is_some_and(|since| since.elapsed() > patience) {
                return Ok(Ending::NodeFailed);
            }
            if self.deadline.is_some_and(|deadline| self.begun.elapsed() > deadline) {
                return Ok(Ending::Deadline);
            }
        }
    }

    /// Reads a console until it has no more for now: readiness is told once per change.
    fn listen(&mut self, place: usize, console: &mut Receiver) -> Result<()> {
        let mut bytes = [0; 64 * 1024];
        let nodes = self.state.shape.nodes();
        let node = &mut self.nodes[place];
        while !node.is_silent() {
            let length = match console.read(&mut bytes) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // An emulator that was killed had not read all that it was told.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("reading the console of node {}", node.rank()));
                }
            };
            let had_ended = node.outcome().end().is_some();
            for said in node.hear(&bytes[..length], self.firmware)? {
                tell(&said, node.rank(), nodes, self.voice);
                if let Said::Line(line) = &said {
                    for kill in &mut self.kills {
                        kill.heard |= kill.when.is_said_by(&line.text);
                    }
                }
            }
            if !had_ended && node.outcome().end().is_some() {
                let now = Instant::now();
                self.ended = Some(now);
                node.note_end(now);
            }
        }
        Ok(())
    }

    /// Does the harm whose time has come after a turn, and ends what is over of that in `passing`.
    fn harm_due(&mut self, passing: &mut Vec<Passing>, turn: &Turn) -> Result<()> {
        let mut due = Vec::new();
        let joined = self.joined;
        self.kills.retain(|kill| {
            let now = match &kill.when {
                KillWhen::After(time) => joined.is_some_and(|joined| joined.elapsed() >= *time),
                KillWhen::Line(_) => kill.heard,
            };
            if now {
                due.push((kill.victim, kill.harm));
            }
            !now
        });
        for Passing { victim, harm, .. } in passing.extract_if(.., |passing| passing.pass(turn)) {
            let node = match victim {
                Victim::Node(rank) => self.nodes.iter_mut().find(|node| node.rank() == rank),
                Victim::IoNode(number) => {
                    self.io_nodes.resume(number);
                    continue;
                }
            };
            match (node, harm) {
                (Some(node), Harm::Pause(_)) => node.guest().resume()?,
                (Some(node), Harm::Unplug(_)) => set_link(node, true)?,
                _ => {}
            }
        }
        for (victim, harm) in due {
            let left = match harm {
                Harm::Pause(length) | Harm::Unplug(Some(length)) => Some(length),
                _ => None,
            };
            passing.extend(left.map(|left| Passing { victim, harm, left }));
            let rank = match victim {
                Victim::Node(rank) => rank,
                Victim::IoNode(number) => {
                    match harm {
                        Harm::Pause(_) => self.io_nodes.pause(number),
                        _ => self.io_nodes.kill(number),
                    }
                    continue;
                }
            };
            let Some(node) = self.nodes.iter_mut().find(|node| node.rank() == rank) else { continue };
            if left.is_none() {
                self.harmed.get_or_insert_with(Instant::now);
            }
            match harm {
                Harm::Kill => node.guest().kill()?,
                Harm::Cut => self.fabric.cut(rank),
                Harm::Pause(_) => node.guest().pause()?,
                Harm::Unplug(_) => set_link(node, false)?,
            }
        }
        Ok(())
    }

    /// The nodes that give no sign of life, in words.
    fn suspects(&self) -> String {
        let suspects = self.nodes.iter().filter(|node| node.outcome().suspected);
        suspects.map(|node| format!(", node {} gives no sign of life", node.rank())).collect()
    }

    fn show(&self) {
        if self.voice.is_quiet() {
            return;
        }
        let nodes = self.nodes.len();
        let text = if self.joined.is_some() {
            let ended = self.nodes.iter().filter(|node| node.outcome().end().is_some()).count();
            format!("running on {nodes} nodes, {ended} have ended{}", self.suspects())
        } else {
            let up = self.nodes.iter().filter(|node| node.is_up()).count();
            format!("booting {nodes} nodes, {up} are up, {} have joined the torus", self.fabric.joined())
        };
        self.voice.update(text);
    }
}

/// A harm that passes.
struct Passing {
    victim: Victim,
    harm: Harm,
    /// How much longer it lasts.
    left: Duration,
}

impl Passing {
    /// A turn has passed; returns whether the harm is over. What this tool slept through makes it no shorter to who counts how long a
    /// node is still.
    fn pass(&mut self, turn: &Turn) -> bool {
        self.left = self.left.saturating_sub(turn.lasted);
        self.left.is_zero()
    }
}

/// Has the link of a node's card on the torus go up or down, if the node is still there.
fn set_link(node: &mut Watched, up: bool) -> Result<()> {
    if node.guest().exit()?.is_some() {
        return Ok(());
    }
    let control = Control::connect(node.control());
    control.and_then(|mut control| control.set_link(TORUS, up)).with_context(|| {
        format!("the link of node {} cannot be set {}", node.rank(), if up { "up" } else { "down" })
    })
}

fn tell(said: &Said, rank: u32, nodes: u32, voice: &Voice) {
    match said {
        Said::Line(line) => voice.print(&line.styled(nodes)),
        Said::Report { hart, text } => {
            voice.print(&format!("{} {}", log::label(rank, Some(*hart), nodes), console::style(text).red()));
        }
        Said::Status => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_a_pause_lasts_as_long_for_a_tool_that_stands_still_meanwhile() {
        let (seconds, now) = (Duration::from_secs, Instant::now());
        let mut passing =
            Passing { victim: Victim::Node(2), harm: Harm::Pause(seconds(3)), left: seconds(3) };
        let mut pass = |length| passing.pass(&Turn::new(now, now + seconds(length)));
        // Of these only turns in which it did not stand still count, the last one among all: nobody looked at the node in the others.
        assert_eq!([1, 12, 1, 45].map(&mut pass), [false; 4]);
        assert!(pass(1));
    }
}
