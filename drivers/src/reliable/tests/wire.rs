//! A network in one process that does to frames whatever a seed says, in virtual time.

use super::dice::Dice;
use super::{exempt, now};
use crate::adapter::{Adapter, AdapterFaults, FABRIC, Lent, Outcome, RxBuffer};
use crate::virtio::Acknowledge;
use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec::Vec;

/// What befalls frames; shares are per 1000.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub drop: u64,
    pub corrupt: u64,
    pub duplicate: u64,
    pub reorder: u64,
    /// Least time on the way and most time more, in nanoseconds.
    pub latency: u64,
    pub jitter: u64,
}

impl Faults {
    pub const NONE: Self = Self { drop: 0, corrupt: 0, duplicate: 0, reorder: 0, latency: 20_000, jitter: 0 };
}

struct Frame {
    source: u32,
    bytes: Vec<u8>,
}

/// All that the nodes share.
pub struct Network {
    pub faults: Faults,
    dice: Dice,
    /// By node: frames by arrival and number.
    inboxes: Vec<BTreeMap<(u64, u64), Frame>>,
    serial: u64,
    /// Nodes that neither send nor receive.
    pub cut: Vec<bool>,
    /// Frames lost because a node had no receive buffer.
    pub overflows: u64,
    /// Frames put on the wire.
    pub frames: u64,
    /// Sees each frame before its faults, and says whether it is lost for sure.
    pub watch: Option<fn(source: u32, bytes: &[u8]) -> bool>,
}

impl Network {
    fn send(&mut self, source: u32, node: u32, bytes: Vec<u8>) {
        self.frames += 1;
        if self.cut[source as usize] || self.watch.is_some_and(|watch| watch(source, &bytes)) {
            return;
        }
        if node == FABRIC {
            return;
        }
        let copies = 1 + u64::from(self.dice.per_mille(self.faults.duplicate));
        for _ in 0..copies {
            if self.dice.per_mille(self.faults.drop) {
                continue;
            }
            let mut frame = Frame { source, bytes: bytes.clone() };
            if self.dice.per_mille(self.faults.corrupt) {
                self.damage(&mut frame);
            }
            let mut due = now() + self.faults.latency + self.dice.below(self.faults.jitter + 1);
            if self.dice.per_mille(self.faults.reorder) {
                due += self.dice.below(4 * self.faults.latency + 1);
            }
            self.serial += 1;
            self.inboxes[node as usize].insert((due, self.serial), frame);
        }
    }

    fn damage(&mut self, frame: &mut Frame) {
        match self.dice.below(8) {
            0 => frame.source ^= 1 << self.dice.below(3),
            1 => frame.bytes.truncate(self.dice.below(frame.bytes.len() as u64 + 1) as usize),
            _ => {
                for _ in 0..1 + self.dice.below(3) {
                    let bit = self.dice.below(8 * frame.bytes.len() as u64) as usize;
                    frame.bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }

    /// When the next frame arrives anywhere.
    pub fn next_arrival(&self) -> Option<u64> {
        self.inboxes.iter().filter_map(|inbox| inbox.keys().next()).map(|&(due, _)| due).min()
    }

    /// Puts a frame into a node's inbox, as a hostile neighbour would.
    pub fn inject(&mut self, source: u32, node: u32, bytes: Vec<u8>) {
        self.serial += 1;
        self.inboxes[node as usize].insert((0, self.serial), Frame { source, bytes });
    }
}

/// The network, and the memory of its nodes' receive buffers.
#[derive(Clone)]
pub struct Wire(Arc<Mutex<Network>>);

impl Wire {
    pub fn new(nodes: usize, seed: u64, faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(Network {
            faults,
            dice: Dice::new(seed),
            inboxes: (0..nodes).map(|_| BTreeMap::new()).collect(),
            serial: 0,
            cut: std::vec![false; nodes],
            overflows: 0,
            frames: 0,
            watch: None,
        })))
    }

    /// Other faults, at other times.
    pub fn turn(&self, seed: u64, faults: Faults) {
        let mut network = self.network();
        (network.faults, network.dice) = (faults, Dice::new(seed));
    }

    pub fn network(&self) -> MutexGuard<'_, Network> {
        self.0.lock().unwrap()
    }
}

/// Memory that is handed out as if it lived for ever.
pub struct Memory(Vec<*mut [u8]>);

impl Memory {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    fn buffers(&mut self, count: usize, len: usize) -> Vec<&'static mut [u8]> {
        let start = self.0.len();
        self.0.extend((0..count).map(|_| Box::into_raw(std::vec![0; len].into_boxed_slice())));
        // SAFETY: fresh boxes, each handed out once; `Memory` outlives the adapters that use them.
        self.0[start..].iter().map(|&memory| unsafe { &mut *memory }).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for memory in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw`; whoever had it is gone.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

#[derive(Clone, Copy)]
pub struct NoInterrupt;
impl Acknowledge for NoInterrupt {
    fn acknowledge(&self) {}
}

/// A packet that was queued and not read yet.
struct Queued {
    node: u32,
    head: Vec<u8>,
    lent: [Lent; 2],
    cookie: u16,
}

/// An adapter on a [`Wire`]. Reads what it was lent as late as it can, and sometimes later.
pub struct Lossy {
    wire: Wire,
    node: u32,
    mtu: usize,
    dice: Dice,
    queued: VecDeque<Queued>,
    buffers: Vec<&'static mut [u8]>,
    count: usize,
}

// SAFETY: the pointers in `queued` stay good until their cookie comes back, on whatever thread.
unsafe impl Send for Lossy {}

/// Packets that a device takes before it has sent one.
const QUEUE: usize = 24;

impl Lossy {
    pub fn new(wire: &Wire, memory: &mut Memory, node: u32, mtu: usize, buffers: usize) -> Self {
        Self {
            wire: wire.clone(),
            node,
            mtu,
            dice: Dice::new(u64::from(node)),
            queued: VecDeque::new(),
            buffers: memory.buffers(buffers, mtu + 32),
            count: buffers,
        }
    }

    /// Buffers that nobody has.
    pub fn free(&self) -> usize {
        self.buffers.len()
    }
}

impl Adapter for Lossy {
    type Interrupt = NoInterrupt;

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn buffers(&self) -> usize {
        self.count
    }

    fn has_room(&self) -> bool {
        self.queued.len() < QUEUE
    }

    unsafe fn transmit(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        exempt(|| {
            assert!(self.queued.iter().all(|queued| queued.cookie != cookie), "cookie {cookie} twice");
            let head = [header, inline].concat();
            assert!(head.len() + lent[0].len + lent[1].len <= self.mtu + 32);
            self.queued.push_back(Queued { node, head, lent, cookie });
        });
        true
    }

    fn reclaim(&mut self) -> Option<(u16, Outcome)> {
        if self.dice.per_mille(200) {
            return None;
        }
        let Queued { node, mut head, lent, cookie } = self.queued.pop_front()?;
        exempt(|| {
            for Lent { pointer, len } in lent.into_iter().filter(|lent| lent.len > 0) {
                // SAFETY: `transmit`'s caller promised it.
                head.extend_from_slice(unsafe { core::slice::from_raw_parts(pointer, len) });
            }
            self.wire.network().send(self.node, node, head);
        });
        Some((cookie, Outcome::Sent))
    }

    fn receive(&mut self) -> Option<RxBuffer> {
        exempt(|| {
            loop {
                let mut network = self.wire.network();
                let first = network.inboxes[self.node as usize].first_entry()?;
                if first.key().0 > now() {
                    return None;
                }
                let frame = first.remove();
                if network.cut[self.node as usize] {
                    continue;
                }
                let Some(memory) = self.buffers.pop() else {
                    network.overflows += 1;
                    continue;
                };
                memory[..frame.bytes.len()].copy_from_slice(&frame.bytes);
                return Some(RxBuffer::new(memory, 0, frame.bytes.len() as u16).sent_by(frame.source));
            }
        })
    }

    fn recycle(&mut self, buffer: RxBuffer) {
        exempt(|| self.buffers.push(buffer.into_memory()));
    }

    fn flush(&mut self) {}

    fn arm(&mut self, _sent: bool) -> bool {
        !self.queued.is_empty()
    }

    fn interrupt(&self) -> NoInterrupt {
        NoInterrupt
    }

    fn faults(&self) -> AdapterFaults {
        AdapterFaults::default()
    }
}
