//! Nodes of a job that another run starts, on this machine or another: how they are, as that run says (SPEC H-1, R-2).
//!
//! At the address and port of each of its nodes a run listens for TCP, as the node does for UDP, and tells whoever connects there
//! how the node is, a line each:
//!
//! ```text
//! pamir node=1 life=123 JOB           what it is to run; each run takes the life that is told of node 0
//! alive                               each second
//! ended                               it ended well
//! died WHY                            it did not
//! ```
//!
//! Runs wait for each other before they start nodes, in any order. From then on a node has died that is said to, whose run is gone,
//! or of which nothing was heard for as long as `--silence` says: its machine or the network between is gone. A run is told as this
//! tool sees it ([`Life`](super::life::Life)), so a node is never dead because its application is silent.
//!
//! Nobody proves who he is, and nothing is encrypted, here as in the datagrams: this is for networks that are trusted.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::addresses::Addresses;
use super::life::Turn;
use super::outcome::NodeOutcome;
use crate::fabric::Fate;
use crate::progress::Voice;

/// How long another run is waited for.
const GATHER_TIMEOUT: Duration = Duration::from_secs(600);
/// When it is first said who is waited for; then after twice as long each time.
const TELL: Duration = Duration::from_secs(1);
/// How long a machine may take to answer a call, and the time between two calls.
const CALL_TIMEOUT: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(50);
/// Time between two words that a node is alive.
const PULSE: Duration = Duration::from_secs(1);
/// Words of a node.
const ALIVE: &str = "alive";
const ENDED: &str = "ended";
const DIED: &str = "died ";
/// The longest line.
const MOST_LINE: usize = 16 << 10;

/// A node of this run's.
struct Own {
    rank: u32,
    listener: TcpListener,
    listeners: Vec<TcpStream>,
    /// What was said of its end.
    told: Option<String>,
}

/// A node of another run's.
struct Other {
    rank: u32,
    address: SocketAddr,
    stream: Option<TcpStream>,
    /// What came and is no whole line yet.
    input: Vec<u8>,
    /// The life that its run told.
    life: Option<u32>,
    heard: Instant,
    fate: Option<Fate>,
    failure: Option<String>,
}

/// All nodes, as runs tell each other of them.
pub struct Afar {
    own: Vec<Own>,
    others: Vec<Other>,
    /// What all are to run, in a line.
    job: String,
    life: u32,
    pulse: Instant,
}

impl Afar {
    /// Listens for those that ask after the nodes here. `job`: what all nodes of the job must agree on; `life`: what frames have in
    /// common if node 0 is here.
    ///
    /// # Errors
    /// Somebody else listens there.
    pub fn listen(addresses: &Addresses, job: String, life: u32) -> Result<Self> {
        let now = Instant::now();
        let own = addresses.here.iter().map(|&rank| {
            let address = addresses.of_node(rank);
            let listener = TcpListener::bind(address).and_then(|it| it.set_nonblocking(true).map(|()| it));
            let listener = listener
                .with_context(|| format!("cannot listen at {address} for who asks after node {rank}"))?;
            Ok(Own { rank, listener, listeners: Vec::new(), told: None })
        });
        let others = addresses.elsewhere().map(|rank| Other {
            rank,
            address: addresses.of_node(rank),
            stream: None,
            input: Vec::new(),
            life: None,
            heard: now,
            fate: None,
            failure: None,
        });
        Ok(Self { own: own.collect::<Result<_>>()?, others: others.collect(), job, life, pulse: now })
    }

    /// Waits until all other runs are there. Returns what the frames of all nodes have in common.
    ///
    /// # Errors
    /// One is not for the same job, or does not come in time, by the nodes that are waited for; the user does not want to wait.
    pub fn gather(&mut self, voice: &Voice, interrupt: &AtomicBool) -> Result<u32> {
        let (begun, mut tell, mut next) = (Instant::now(), TELL, 0);
        while let Some(waits) = self.missing() {
            if interrupt.load(Ordering::Relaxed) {
                bail!("interrupted while {waits}");
            }
            if begun.elapsed() > GATHER_TIMEOUT {
                bail!("no answer for {} s, {waits}", GATHER_TIMEOUT.as_secs());
            }
            if begun.elapsed() > tell {
                tell = 2 * begun.elapsed();
                voice.busy(&waits);
            }
            voice.update(waits);
            self.accept();
            next = (next + 1) % self.others.len();
            if !self.others[next].call() {
                std::thread::sleep(PAUSE);
            }
            for other in &mut self.others {
                if !other.listen(&self.job) && other.failure.is_none() {
                    // Its run ended before it began.
                    other.forget();
                }
                if let Some(why) = &other.failure {
                    bail!("{why}");
                }
            }
        }
        voice.idle();
        let now = Instant::now();
        self.others.iter_mut().for_each(|other| other.heard = now);
        Ok(self.others.iter().find(|other| other.rank == 0).and_then(|first| first.life).unwrap_or(self.life))
    }

    /// Who is waited for, in words.
    fn missing(&self) -> Option<String> {
        let missing = self.others.iter().filter(|other| other.life.is_none());
        let names: Vec<_> =
            missing.map(|other| format!("node {} at {}", other.rank, other.address)).collect();
        (!names.is_empty()).then(|| format!("waiting for the command that starts {}", names.join(", ")))
    }

    /// After a turn of the watch: tells how the nodes here are, by rising rank, and hears how the others are. One of which nothing was
    /// heard for `silence` has died.
    pub(super) fn turn<'a>(
        &mut self,
        turn: &Turn,
        here: impl Iterator<Item = &'a NodeOutcome>,
        silence: Option<Duration>,
    ) {
        self.accept();
        for (own, outcome) in self.own.iter_mut().zip(here) {
            own.tell(outcome);
        }
        if turn.end - self.pulse >= PULSE {
            self.pulse = turn.end;
            self.own.iter_mut().for_each(|own| own.say(ALIVE));
        }
        for other in self.others.iter_mut().filter(|other| other.fate.is_none()) {
            other.heard += turn.absence;
            let (rank, address) = (other.rank, other.address);
            if !other.listen(&self.job) {
                other.die(format!("node {rank} is dead: the command that started it at {address} is gone"));
            }
            let length = turn.end.saturating_duration_since(other.heard);
            if let Some(silence) = silence.filter(|&silence| length >= silence) {
                let seconds = silence.as_secs_f32();
                other.die(format!("node {rank} is dead: nothing was heard from {address} for {seconds} s"));
            }
        }
    }

    /// Whether all others have ended or died.
    pub fn is_over(&self) -> bool {
        self.others.iter().all(|other| other.fate.is_some())
    }

    /// Those elsewhere, with what went wrong with each, if it did.
    pub fn failures(&self) -> impl Iterator<Item = (u32, Option<&String>)> {
        self.others.iter().map(|other| (other.rank, other.failure.as_ref()))
    }

    /// Greets who has come to listen.
    fn accept(&mut self) {
        for own in &mut self.own {
            while let Ok((mut stream, _)) = own.listener.accept() {
                let greeting = format!("pamir node={} life={} {}\n", own.rank, self.life, self.job);
                let words = own.told.iter().fold(greeting, |words, told| format!("{words}{told}\n"));
                // One that does not take even this is none that listens.
                if stream.set_nonblocking(true).is_ok() && stream.write_all(words.as_bytes()).is_ok() {
                    own.listeners.push(stream);
                }
            }
        }
    }
}

impl Own {
    /// Says how the node went, once it did.
    fn tell(&mut self, outcome: &NodeOutcome) {
        let told = match (&outcome.failure, outcome.exit) {
            (Some(why), _) => format!("{DIED}{}", why.replace(char::is_control, " ")),
            (None, Some(_)) => ENDED.to_owned(),
            (None, None) => return,
        };
        if self.told.is_none() {
            self.say(&told);
            self.told = Some(told);
        }
    }

    fn say(&mut self, line: &str) {
        // Who does not read, for days, misses a word; who is gone hears no more.
        self.listeners.retain_mut(|stream| match stream.write_all(format!("{line}\n").as_bytes()) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
    }
}

impl Other {
    /// Asks after the node, unless it is asked after already. Returns whether it was tried.
    fn call(&mut self) -> bool {
        if self.stream.is_some() {
            return false;
        }
        let stream = TcpStream::connect_timeout(&self.address, CALL_TIMEOUT);
        let stream = stream.and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        self.stream = stream.ok();
        self.stream.is_some()
    }

    fn forget(&mut self) {
        (self.stream, self.life) = (None, None);
        self.input.clear();
    }

    fn die(&mut self, why: String) {
        if self.fate.is_none() {
            (self.fate, self.failure) = (Some(Fate::Died), Some(why));
        }
    }

    /// Takes in what was said. False if nothing comes any more.
    fn listen(&mut self, job: &str) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let mut bytes = [0; 4096];
        let goes_on = loop {
            match stream.read(&mut bytes) {
                Ok(0) => break false,
                Ok(length) => self.input.extend(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
            if self.input.len() > MOST_LINE {
                break true;
            }
        };
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.take(&String::from_utf8_lossy(&line[..end]), job);
        }
        if self.input.len() > MOST_LINE {
            self.take("a line without an end", job);
        }
        goes_on
    }

    /// Takes in a line.
    fn take(&mut self, line: &str, job: &str) {
        let (rank, address) = (self.rank, self.address);
        self.heard = Instant::now();
        let greeting = line.strip_prefix("pamir node=").and_then(|rest| {
            let (node, rest) = rest.split_once(" life=")?;
            let (life, job) = rest.split_once(' ')?;
            Some((node.parse().ok()?, life.parse().ok()?, job))
        });
        match (self.life, greeting) {
            (None, Some((node, life, theirs))) if (node, theirs) == (rank, job) => self.life = Some(life),
            (None, Some((node, _, theirs))) => self.die(format!(
                "{address} is node {node} of `{theirs}`, and to this command node {rank} of `{job}`"
            )),
            (Some(_), None) if line == ALIVE => {}
            (Some(_), None) if line == ENDED => self.fate = Some(Fate::Ended),
            (Some(_), None) if line.starts_with(DIED) => {
                self.die(format!("{}, at {address}", &line[DIED.len()..]));
            }
            _ => self.die(format!(
                "what listens at {address} is no command that starts node {rank}: it says {line:?}"
            )),
        }
    }
}

#[cfg(test)]
#[path = "afar_tests.rs"]
mod tests;
