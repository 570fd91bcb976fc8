//! One thread, one epoll: waits for readiness and commands, then runs rounds of the switch.

use super::awake::Rounds as _;
use super::pcap::Capture;
use super::statistics::Statistics;
use super::switch::Switch;
use super::tree::TreeSwitch;
use super::{Config, Fate};
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the handle asks of the thread; an answer goes to the enclosed sender.
pub enum Command {
    /// A snapshot of the counters.
    Statistics(Sender<Statistics>),
    /// A text on all queues.
    Dump(Sender<String>),
    /// All other nodes are to hear that a node is gone.
    Announce(u32, Fate),
    /// A node's connections end.
    Cut(u32),
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
    /// Nodes whose connection has ended.
    pub departed: Mutex<Vec<u32>>,
}

/// The state of the fabric's thread.
pub struct EventLoop {
    poll: Poll,
    /// Of both networks, by rank; none where it listens itself, or has connected.
    listeners: [Vec<Option<UnixListener>>; 2],
    switch: Switch<UnixStream, BufWriter<File>>,
    tree: Option<TreeSwitch<UnixStream>>,
    commands: Receiver<Command>,
    progress: Arc<Progress>,
}

const WAKE: Token = Token(usize::MAX);

/// What an event is about.
#[derive(Clone, Copy)]
struct Source {
    rank: usize,
    network: usize,
    stream: bool,
}

/// Index of a network among the listeners.
const TREE: usize = 1;

impl Source {
    fn token(self) -> Token {
        Token(self.rank * 4 + self.network * 2 + usize::from(self.stream))
    }

    fn of(Token(token): Token) -> Self {
        Self { rank: token / 4, network: token / 2 % 2, stream: token % 2 == 1 }
    }
}

impl EventLoop {
    /// Gets everything ready; the waker makes the thread look at its commands.
    ///
    /// # Errors
    /// No epoll, or the capture file cannot be made (the message names it).
    pub fn new(
        config: &Config,
        mut listeners: [Vec<Option<UnixListener>>; 2],
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
        for (network, listeners) in listeners.iter_mut().enumerate() {
            for (rank, listener) in listeners.iter_mut().enumerate() {
                let Some(listener) = listener else { continue };
                let source = Source { rank, network, stream: false };
                poll.registry().register(listener, source.token(), Interest::READABLE)?;
            }
        }
        let switch = Switch::new(config, capture.transpose()?);
        let tree = config.tree.then(|| {
            TreeSwitch::new(config.shape.nodes(), config.io_nodes, config.queue_room, config.faults)
        });
        let mut event_loop = Self { poll, listeners, switch, tree, commands, progress };
        for (network, sockets) in config.nodes_listen.iter().flatten().enumerate() {
            for (rank, socket) in sockets.iter().enumerate() {
                let stream = UnixStream::connect(socket).map_err(|error| named(socket, error))?;
                event_loop.join(Source { rank, network, stream: true }, stream)?;
            }
        }
        Ok((event_loop, waker))
    }

    /// A node has connected, or was connected to.
    fn join(&mut self, source: Source, mut stream: UnixStream) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, source.token(), both)?;
        match (source.network, &mut self.tree) {
            (TREE, Some(tree)) => tree.connect(source.rank as u32, stream),
            _ => self.switch.connect(source.rank as u32, stream),
        }
        Ok(())
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
            let tree_due = self.tree.as_ref().and_then(TreeSwitch::due);
            let due = [self.switch.due(), tree_due].into_iter().flatten().min();
            let due = if busy { Some(Duration::ZERO) } else { due };
            match self.poll.poll(&mut events, due.map(|due| due.saturating_sub(begun.elapsed()))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if event.token() == WAKE {
                    continue;
                }
                let source = Source::of(event.token());
                // An end of the stream is read as one, after all that came before it.
                let readable = event.is_readable() || event.is_read_closed() || event.is_error();
                let writable = event.is_writable() || event.is_write_closed() || event.is_error();
                match (source, &mut self.tree) {
                    (Source { stream: false, .. }, _) => self.accept(source)?,
                    (Source { network: TREE, rank, .. }, Some(tree)) => {
                        tree.ready(rank as u32, readable, writable)
                    }
                    (Source { rank, .. }, _) => self.switch.ready(rank as u32, readable, writable),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                // Whoever asked may have gone.
                let _ = match command {
                    Command::Statistics(reply) => reply.send(self.statistics()).is_ok(),
                    Command::Dump(reply) => reply.send(self.dump()).is_ok(),
                    Command::Announce(node, fate) => self.announce(node, fate),
                    Command::Cut(node) => self.cut(node),
                    Command::Stop => return self.finish(),
                };
            }
            busy = self.switch.exchange(begun.elapsed());
            if let Some(tree) = &mut self.tree {
                busy |= tree.exchange(begun.elapsed(), &mut |frame| self.switch.record(frame));
            }
            // Before the last Hello is answered, so that who sees a Go sees that all have started.
            self.progress.joined.store(self.switch.muster().count(), Ordering::Release);
            self.progress.started.store(self.switch.muster().started(), Ordering::Release);
            let registry = self.poll.registry();
            let mut retire = |mut stream: UnixStream| {
                // Closing it takes it out of the epoll as well.
                let _ = registry.deregister(&mut stream);
            };
            busy |= self.switch.deliver(&mut retire);
            let departed = self.switch.take_departed();
            if !departed.is_empty() {
                self.progress.departed.lock().unwrap_or_else(PoisonError::into_inner).extend(departed);
            }
            if let Some(tree) = &mut self.tree {
                busy |= tree.deliver(&mut retire);
            }
        }
    }

    fn announce(&mut self, node: u32, fate: Fate) -> bool {
        self.switch.announce(node, fate);
        if let Some(tree) = self.tree.as_mut().filter(|_| fate == Fate::Died) {
            tree.blame(node);
        }
        true
    }

    fn cut(&mut self, node: u32) -> bool {
        let streams = [self.switch.stream(node), self.tree.as_ref().and_then(|tree| tree.stream(node))];
        for stream in streams.into_iter().flatten() {
            // Whether it ended by itself just now makes no difference.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        true
    }

    fn accept(&mut self, source: Source) -> io::Result<()> {
        let Source { rank, network, .. } = source;
        let place = self.listeners[network].get_mut(rank);
        let Some(listener) = place.and_then(Option::as_mut) else { return Ok(()) };
        match listener.accept() {
            Ok((stream, _)) => {
                self.poll.registry().deregister(listener)?;
                self.listeners[network][rank] = None;
                self.join(Source { stream: true, ..source }, stream)?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => {
                let name = ["torus", "tree"][network];
                self.switch.complain(rank as u32, || format!("its connection to the {name} failed: {error}"));
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        with_tree(self.switch.statistics(), self.tree.as_ref())
    }

    fn dump(&self) -> String {
        self.switch.dump() + &self.tree.as_ref().map(TreeSwitch::dump).unwrap_or_default()
    }

    /// The last snapshot, with the capture complete.
    fn finish(self) -> io::Result<Statistics> {
        Ok(with_tree(self.switch.finish()?, self.tree.as_ref()))
    }
}

fn with_tree(mut statistics: Statistics, tree: Option<&TreeSwitch<UnixStream>>) -> Statistics {
    if let Some(tree) = tree {
        statistics.complaints.extend_from_slice(tree.complaints());
        statistics.looks += tree.looks();
        statistics.tree = Some(tree.statistics());
    }
    statistics
}
