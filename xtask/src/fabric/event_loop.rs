//! One thread, one epoll: waits for readiness and commands, then runs rounds of the switch.

use super::Config;
use super::pcap::Capture;
use super::statistics::Statistics;
use super::switch::Switch;
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// What the handle asks of the thread; an answer goes to the enclosed sender.
pub enum Command {
    /// A snapshot of the counters.
    Statistics(Sender<Statistics>),
    /// A text on all queues.
    Dump(Sender<String>),
    /// The thread ends.
    Stop,
}

/// What can be read without asking the thread.
#[derive(Default)]
pub struct Progress {
    /// Nodes that have said Hello.
    pub joined: AtomicUsize,
    /// Go was given.
    pub started: AtomicBool,
}

/// The state of the fabric's thread.
pub struct EventLoop {
    poll: Poll,
    /// By rank; gone once its node has connected.
    listeners: Vec<Option<UnixListener>>,
    switch: Switch<UnixStream, BufWriter<File>>,
    commands: Receiver<Command>,
    progress: Arc<Progress>,
}

const WAKE: Token = Token(usize::MAX);

/// Listeners have even tokens, streams odd ones.
fn listener_token(rank: usize) -> Token {
    Token(rank * 2)
}

fn stream_token(rank: usize) -> Token {
    Token(rank * 2 + 1)
}

impl EventLoop {
    /// Gets everything ready; the waker makes the thread look at its commands.
    ///
    /// # Errors
    /// No epoll, or the capture file cannot be made (the message names it).
    pub fn new(
        config: &Config,
        mut listeners: Vec<UnixListener>,
        commands: Receiver<Command>,
        progress: Arc<Progress>,
    ) -> io::Result<(Self, Waker)> {
        let named = |path: &std::path::Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let capture =
            config.pcap.as_deref().map(|path| Capture::create(path).map_err(|error| named(path, error)));
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        for (rank, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, listener_token(rank), Interest::READABLE)?;
        }
        let switch = Switch::new(config, capture.transpose()?);
        let listeners = listeners.into_iter().map(Some).collect();
        Ok((Self { poll, listeners, switch, commands, progress }, waker))
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// Epoll fails, or the capture could not be written.
    pub fn run(mut self) -> io::Result<Statistics> {
        let mut events = Events::with_capacity(256);
        let begun = Instant::now();
        let mut busy = true;
        loop {
            if !busy {
                self.switch.flush_capture();
            }
            let due = if busy { Some(Duration::ZERO) } else { self.switch.due() };
            match self.poll.poll(&mut events, due.map(|due| due.saturating_sub(begun.elapsed()))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKE => {}
                    Token(token) if token % 2 == 0 => self.accept(token / 2)?,
                    // An end of the stream is read as one, after all that came before it.
                    Token(token) => self.switch.ready(
                        token / 2,
                        event.is_readable() || event.is_read_closed() || event.is_error(),
                        event.is_writable() || event.is_write_closed() || event.is_error(),
                    ),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                // Whoever asked may have gone.
                let _ = match command {
                    Command::Statistics(reply) => reply.send(self.switch.statistics()).is_ok(),
                    Command::Dump(reply) => reply.send(self.switch.dump()).is_ok(),
                    Command::Stop => return self.switch.finish(),
                };
            }
            busy = self.switch.exchange(begun.elapsed());
            // Before the last Hello is answered, so that who sees a Go sees that all have started.
            self.progress.joined.store(self.switch.muster().count(), Ordering::Release);
            self.progress.started.store(self.switch.muster().started(), Ordering::Release);
            let registry = self.poll.registry();
            busy |= self.switch.deliver(|mut stream| {
                // Closing it takes it out of the epoll as well.
                let _ = registry.deregister(&mut stream);
            });
        }
    }

    fn accept(&mut self, rank: usize) -> io::Result<()> {
        let Some(listener) = self.listeners.get_mut(rank).and_then(Option::as_mut) else { return Ok(()) };
        match listener.accept() {
            Ok((mut stream, _)) => {
                let both = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, stream_token(rank), both)?;
                self.poll.registry().deregister(listener)?;
                self.listeners[rank] = None;
                self.switch.connect(rank as u32, stream);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.switch.complain(rank as u32, || format!("its connection failed: {error}")),
        }
        Ok(())
    }
}
