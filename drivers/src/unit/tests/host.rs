//! Harts that are threads, and a network of fake adapters in one process.

use crate::adapter::{Adapter, AdapterFaults, Lent, Outcome, RX_BUFFERS, ReliableAdapter, RxBuffer};
use crate::platform::Platform;
use crate::virtio::Acknowledge;
use std::boxed::Box;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// Harts of all nodes of one test; node `n` has harts `8 * n..`.
const HARTS: usize = 32;
/// Each test has harts of its own.
const TESTS: usize = 48;
/// From this number on nodes may reach each other's memory.
const NEAR_TESTS: usize = 40;

struct Signals {
    woken: [bool; HARTS],
    interrupted: [bool; HARTS / 8],
}

struct Board {
    signals: Mutex<Signals>,
    changed: Condvar,
}

static BOARDS: [Board; TESTS] = [const {
    Board {
        signals: Mutex::new(Signals { woken: [false; HARTS], interrupted: [false; HARTS / 8] }),
        changed: Condvar::new(),
    }
}; TESTS];

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

std::thread_local! {
    static HART: Cell<usize> = const { Cell::new(0) };
}

/// Memory that no other node reaches.
pub struct OutOfReach {
    address: usize,
    memory: Mutex<Option<&'static mut [u8]>>,
}

impl OutOfReach {
    const BYTES: usize = 1024;

    /// It, once.
    pub fn take(&self) -> &'static mut [u8] {
        self.memory.lock().unwrap().take().unwrap()
    }

    fn contains(&self, address: usize, len: usize) -> bool {
        address < self.address + Self::BYTES && address + len > self.address
    }
}

/// See [`OutOfReach`].
pub static OUT_OF_REACH: LazyLock<OutOfReach> = LazyLock::new(|| {
    let memory = std::vec![0; OutOfReach::BYTES].leak();
    OutOfReach { address: memory.as_ptr().addr(), memory: Mutex::new(Some(memory)) }
});

/// The harts of test number `TEST`.
pub struct Host<const TEST: usize>;

impl<const TEST: usize> Host<TEST> {
    /// This thread is hart `hart` from now on.
    pub fn be(hart: usize) {
        HART.set(hart);
    }

    /// The adapter of `node` interrupts.
    pub fn interrupt(node: usize) {
        let board = &BOARDS[TEST];
        // A node beyond has no harts here.
        if let Some(interrupted) = board.signals.lock().unwrap().interrupted.get_mut(node) {
            *interrupted = true;
        }
        board.changed.notify_all();
    }

    /// Whether hart `hart` was woken since it last waited, or since this was last asked.
    pub fn take_woken(hart: usize) -> bool {
        core::mem::take(&mut BOARDS[TEST].signals.lock().unwrap().woken[hart])
    }
}

impl<const TEST: usize> Platform for Host<TEST> {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    const NEAR: bool = TEST >= NEAR_TESTS;

    fn shares(address: usize, len: usize) -> bool {
        address > 4096 && !OUT_OF_REACH.contains(address, len)
    }

    fn hart() -> usize {
        HART.get()
    }

    fn now_ns() -> u64 {
        START.elapsed().as_nanos() as u64
    }

    fn wake(hart: usize) {
        let board = &BOARDS[TEST];
        board.signals.lock().unwrap().woken[hart] = true;
        board.changed.notify_all();
    }

    fn wait(deadline_ns: Option<u64>, mut acknowledge: impl FnMut()) {
        let board = &BOARDS[TEST];
        let (hart, node) = (Self::hart(), Self::hart() / 8);
        let timeout = deadline_ns.map_or(u64::MAX / 4, |deadline| deadline.saturating_sub(Self::now_ns()));
        let signals = board.signals.lock().unwrap();
        // A lost wake-up shows as a test that fails here.
        let limit = Duration::from_nanos(timeout).min(Duration::from_secs(20));
        let (mut signals, result) = board
            .changed
            .wait_timeout_while(signals, limit, |signals| !signals.woken[hart] && !signals.interrupted[node])
            .unwrap();
        assert!(!result.timed_out() || deadline_ns.is_some(), "hart {hart} slept too long");
        signals.woken[hart] = false;
        if core::mem::take(&mut signals.interrupted[node]) {
            acknowledge();
        }
    }
}

/// Frames on their way to one node.
#[derive(Default)]
struct Inbox {
    packets: VecDeque<Vec<u8>>,
    armed: bool,
    /// The node takes nothing in: its senders keep a window of packets each, and send others theirs.
    stopped: bool,
}

/// A network of a few nodes; each holds at most `LINK` packets on the way, then the senders wait.
#[derive(Clone)]
pub struct Net(Arc<Mutex<Vec<Inbox>>>);

/// Packets on their way to one node.
const LINK: usize = 16;
/// Packets that a sender keeps for a node that is stopped.
pub const STOPPED: usize = 4;

impl Net {
    pub fn new(nodes: usize) -> Self {
        Self(Arc::new(Mutex::new((0..nodes).map(|_| Inbox::default()).collect())))
    }

    /// Puts bytes into a node's inbox, as a hostile neighbour would.
    pub fn inject(&self, node: usize, bytes: &[u8]) {
        self.0.lock().unwrap()[node].packets.push_back(bytes.to_vec());
    }

    /// Takes the next packet out of a node's inbox.
    pub fn take(&self, node: usize) -> Option<Vec<u8>> {
        self.0.lock().unwrap()[node].packets.pop_front()
    }

    /// Stops a node, or lets it go on.
    pub fn stop(&self, node: usize, stopped: bool) {
        self.0.lock().unwrap()[node].stopped = stopped;
    }

    /// Whether the next packet for a node interrupts it.
    pub fn is_armed(&self, node: usize) -> bool {
        self.0.lock().unwrap()[node].armed
    }

    /// What interrupts a node is spent.
    pub fn disarm(&self, node: usize) {
        self.0.lock().unwrap()[node].armed = false;
    }

    pub fn on_the_way(&self, node: usize) -> usize {
        self.0.lock().unwrap()[node].packets.len()
    }
}

#[derive(Clone, Copy)]
pub struct NoInterrupt;
impl Acknowledge for NoInterrupt {
    fn acknowledge(&self) {}
}

/// A packet that was queued and not read yet.
struct Queued {
    node: usize,
    head: Vec<u8>,
    lent: [Lent; 2],
    cookie: u16,
}

/// An adapter on a [`Net`]. Reads what it was lent as late as it can.
pub struct FakeAdapter<const TEST: usize> {
    net: Net,
    node: usize,
    mtu: usize,
    most: usize,
    deadline: Option<u64>,
    linger: u64,
    gone: Vec<u32>,
    queued: VecDeque<Queued>,
    buffers: Vec<&'static mut [u8]>,
    sent_armed: bool,
}

// SAFETY: the pointers in `queued` stay good until their cookie comes back, on whatever thread.
unsafe impl<const TEST: usize> Send for FakeAdapter<TEST> {}

impl<const TEST: usize> FakeAdapter<TEST> {
    pub fn new(net: &Net, node: usize, mtu: usize) -> Self {
        let buffers = (0..RX_BUFFERS).map(|_| &mut *Box::leak(std::vec![0; mtu + 32].into_boxed_slice()));
        Self {
            net: net.clone(),
            node,
            mtu,
            most: usize::MAX,
            deadline: None,
            linger: 0,
            gone: Vec::new(),
            queued: VecDeque::new(),
            buffers: buffers.collect(),
            sent_armed: false,
        }
    }

    /// It lets at most so many nodes have something under way at once.
    pub fn with_most_peers(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// It wants to be looked after again then, whatever happens.
    pub fn with_deadline(self, deadline: u64) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Until then peers may have to hear of it.
    pub fn with_linger(self, linger: u64) -> Self {
        Self { linger, ..self }
    }
}

impl<const TEST: usize> Adapter for FakeAdapter<TEST> {
    type Interrupt = NoInterrupt;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn has_room(&self) -> bool {
        let net = self.net.0.lock().unwrap();
        let stopped = |queued: &&Queued| net.get(queued.node).is_some_and(|inbox| inbox.stopped);
        self.queued.len() - self.queued.iter().filter(stopped).count() < 32
    }

    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        assert!(self.queued.iter().all(|queued| queued.cookie != cookie), "cookie {cookie} twice");
        if self.gone.contains(&node) {
            return false;
        }
        let head = [header, inline].concat();
        self.queued.push_back(Queued { node: node as usize, head, lent, cookie });
        true
    }

    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        if let Some(at) = self.queued.iter().position(|queued| self.gone.contains(&(queued.node as u32))) {
            return self.queued.remove(at).map(|queued| (queued.cookie, Outcome::Failed));
        }
        let mut net = self.net.0.lock().unwrap();
        let going = |queued: &Queued| net.get(queued.node).is_none_or(|inbox| !inbox.stopped);
        let at = self.queued.iter().position(going)?;
        self.queued.make_contiguous()[..=at].rotate_right(1);
        let queued = self.queued.front()?;
        let Some(inbox) = net.get_mut(queued.node) else {
            return self.queued.pop_front().map(|queued| (queued.cookie, Outcome::Sent));
        };
        if inbox.packets.len() >= LINK {
            return None;
        }
        let Queued { node, mut head, lent, cookie } = self.queued.pop_front()?;
        for Lent { pointer, len } in lent.into_iter().filter(|lent| lent.len > 0) {
            // SAFETY: `transmit`'s caller promised it.
            head.extend_from_slice(unsafe { core::slice::from_raw_parts(pointer, len) });
        }
        inbox.packets.push_back(head);
        if core::mem::take(&mut inbox.armed) {
            Host::<TEST>::interrupt(node);
        }
        Some((cookie, Outcome::Sent))
    }

    fn receive(&mut self) -> Option<RxBuffer> {
        let mut net = self.net.0.lock().unwrap();
        if net[self.node].packets.is_empty() {
            return None;
        }
        let memory = self.buffers.pop()?;
        let packet = net[self.node].packets.pop_front()?;
        memory[..packet.len()].copy_from_slice(&packet);
        // Any sender may go on now; which of them asked is not worth knowing.
        for node in 0..net.len() {
            Host::<TEST>::interrupt(node);
        }
        Some(RxBuffer::new(memory, 0, packet.len() as u16))
    }

    fn recycle(&mut self, buffer: RxBuffer) {
        self.buffers.push(buffer.into_memory());
    }

    fn flush(&mut self) {}

    fn arm(&mut self, sent: bool) -> bool {
        self.sent_armed = sent;
        let mut net = self.net.0.lock().unwrap();
        net[self.node].armed = true;
        let can_send = self
            .queued
            .front()
            .is_some_and(|queued| net.get(queued.node).is_none_or(|inbox| inbox.packets.len() < LINK));
        can_send || (!net[self.node].packets.is_empty() && !self.buffers.is_empty())
    }

    fn interrupt(&self) -> NoInterrupt {
        NoInterrupt
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults::default()
    }
}

impl<const TEST: usize> ReliableAdapter for FakeAdapter<TEST> {
    fn has_room_for(&mut self, node: u32) -> bool {
        let stopped = self.net.0.lock().unwrap().get(node as usize).is_some_and(|inbox| inbox.stopped);
        let most = if stopped { STOPPED } else { 24 };
        self.gone.contains(&node)
            || self.queued.iter().filter(|queued| queued.node == node as usize).count() < most
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn most_peers(&self) -> usize {
        self.most
    }

    fn linger_until(&self) -> u64 {
        self.linger
    }

    fn node_died(&mut self, node: u32) {
        self.gone.push(node);
    }
}
