//! What a node is doing: read out of its memory and its harts' registers, from outside.

use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::qmp::Control;
use crate::symbols::Symbols;

/// `PAMIR_STATE` begins with this.
const MAGIC: u64 = 0x5041_4d49_5253_5442;
/// Bytes of the state block: magic, number of FIFOs, their stride, the address of the first.
const BLOCK_BYTES: usize = 24;
/// Bytes of a FIFO's record: client, task, context, open, then four counters.
const RECORD_BYTES: usize = 20;
/// More FIFO records than any node has; a larger number means that the block is not to be trusted.
const MAX_FIFOS: u32 = 4096;

/// A node keeps no more of what it said before it had a console.
const LAST_WORDS_BYTES: u64 = 1024;

/// How a node is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// While it goes on: it does not see that. To stop it would: the emulator throws packets away that wait at its cards.
    Living,
    /// It stops for good.
    Last,
}

/// Asks a live emulator for the state of its node. Whatever cannot be had is said in the text.
pub fn node(control: &Path, scratch: &Path, symbols: Option<&Symbols>, reading: Reading) -> String {
    let mut text = String::new();
    if let Err(error) = ask(control, scratch, symbols, reading, &mut text) {
        let _ = writeln!(text, "  no more is known: {error:#}");
    }
    text
}

fn ask(
    control: &Path,
    scratch: &Path,
    symbols: Option<&Symbols>,
    reading: Reading,
    text: &mut String,
) -> Result<()> {
    let mut control = Control::connect(control)?;
    if reading == Reading::Last {
        control.stop()?;
    }
    for (hart, pc) in counters(&control.monitor("info registers -a")?) {
        let name = symbols.and_then(|symbols| symbols.name(pc)).unwrap_or_else(|| "outside the image".into());
        writeln!(text, "  hart {hart} pc {pc:#x} ({name})")?;
    }
    if let Some(address) = symbols.and_then(Symbols::last_words) {
        let length = control.memory(address, 8, scratch)?;
        let length = length.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        let length = length.min(LAST_WORDS_BYTES) as usize;
        let words = if length > 0 { control.memory(address + 8, length, scratch)? } else { Vec::new() };
        for line in String::from_utf8_lossy(&words).lines() {
            writeln!(text, "  said to no console: {line}")?;
        }
    }
    let Some(address) = symbols.and_then(Symbols::state_block) else { return Ok(()) };
    match fifos(address, |address, length| control.memory(address, length, scratch))? {
        Some(fifos) => fifos.iter().try_for_each(|fifo| writeln!(text, "  {fifo}"))?,
        None => writeln!(text, "  the message unit has not started")?,
    }
    Ok(())
}

/// The same of a node that goes on, for programs: what each hart does, and how its FIFOs stand.
///
/// # Errors
/// The emulator gives no answer.
pub fn look(control: &Path, scratch: &Path, symbols: &Symbols) -> Result<(Vec<Activity>, Vec<Fifo>)> {
    let mut control = Control::connect(control)?;
    let counters = counters(&control.monitor("info registers -a")?);
    let harts = counters.iter().map(|&(_, pc)| Activity::of(symbols.function(pc).as_deref())).collect();
    let Some(address) = symbols.state_block() else { return Ok((harts, Vec::new())) };
    let fifos = fifos(address, |address, length| control.memory(address, length, scratch))?;
    Ok((harts, fifos.unwrap_or_default()))
}

/// What a hart does, as far as it is seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Activity {
    /// It is in the job's own code, or in what that calls elsewhere than of ours.
    Computing,
    /// It is in PAMI, a module above, a driver or the kernel: it sends, advances, polls.
    Advancing,
    /// It waits for an interrupt.
    Sleeping,
    /// It runs, and where is not known.
    Running,
    /// It is in no code of the image: in firmware, as before its start.
    Outside,
}

impl Activity {
    /// That of a hart in the function of this name.
    fn of(function: Option<&str>) -> Self {
        let Some(function) = function else { return Self::Outside };
        let name = function.trim_start_matches(['<', '&']);
        let owner = name.split("::").next().unwrap_or(name);
        match owner {
            _ if name.starts_with(ASLEEP) => Self::Sleeping,
            _ if LAYERS.contains(&owner) => Self::Advancing,
            _ => Self::Computing,
        }
    }
}

/// Where a hart waits for an interrupt.
const ASLEEP: &str = "kernel::wakeup::sleep";
/// The crates below a job.
const LAYERS: [&str; 8] = ["pami", "rings", "drivers", "kernel", "base", "mpi", "armci", "shmem"];

/// Each hart's program counter, from the monitor's register dump.
fn counters(registers: &str) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let mut hart = 0;
    for line in registers.lines() {
        let line = line.trim();
        if let Some(number) = line.strip_prefix("CPU#") {
            hart = number.trim().parse().unwrap_or(hart);
            continue;
        }
        let pc = line.strip_prefix("PC=").or_else(|| line.strip_prefix("pc ").map(str::trim_start));
        let pc = pc.and_then(|rest| rest.split_ascii_whitespace().next());
        if let Some(pc) = pc.and_then(|pc| u64::from_str_radix(pc, 16).ok()) {
            found.push((hart, pc));
        }
    }
    found
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Number of FIFOs, their stride and where the first lies; `None` before the unit's start.
fn block_of(block: &[u8]) -> Result<Option<(u32, usize, u64)>> {
    let magic = long(block, 0).context("the state block is cut")?;
    let (Some(count), Some(stride), Some(first)) = (word(block, 8), word(block, 12), long(block, 16)) else {
        bail!("the state block is cut");
    };
    if count == 0 || first == 0 {
        return Ok(None);
    }
    if magic != MAGIC || count > MAX_FIFOS || (stride as usize) < RECORD_BYTES || stride > 4096 {
        bail!("the state block is damaged: magic {magic:#x}, {count} FIFOs of {stride} bytes");
    }
    Ok(Some((count, stride as usize, first)))
}

/// Nodes that a context waits for, as far as a record names them, each plus 1.
const AWAITED: usize = 8;

/// The FIFOs of a context, as the record of them in its node's memory has them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fifo {
    /// Numbers of its client, of its task in the node, and its own.
    pub client: u8,
    /// See [`client`](Self::client).
    pub task: u8,
    /// See [`client`](Self::client).
    pub context: u8,
    /// Whether it is in use.
    pub open: bool,
    /// Packets put into the injection FIFO, and of those sent, modulo 2^32.
    pub injected: u32,
    /// See [`injected`](Self::injected).
    pub retired: u32,
    /// Packets put into the reception FIFO, and of those whose buffers came back, modulo 2^32.
    pub delivered: u32,
    /// See [`delivered`](Self::delivered).
    pub consumed: u32,
    /// Nodes that must answer before the context, which sleeps, goes on, as far as that is known.
    pub awaited: Vec<u32>,
    /// The node for which the context had a packet last, if that found no place in the injection FIFO.
    pub refused: Option<u32>,
}

/// Those of the node whose state block lies at `address`, if its message unit has started. `memory` reads bytes: from where on,
/// how many.
///
/// # Errors
/// Those of `memory`; the block is damaged.
pub fn fifos(
    address: u64,
    mut memory: impl FnMut(u64, usize) -> Result<Vec<u8>>,
) -> Result<Option<Vec<Fifo>>> {
    let Some((count, stride, first)) = block_of(&memory(address, BLOCK_BYTES)?)? else { return Ok(None) };
    let bytes = memory(first, count as usize * stride)?;
    Ok(Some(bytes.chunks_exact(stride).filter_map(Fifo::read).collect()))
}

impl Fifo {
    /// One that was ever used.
    fn read(record: &[u8]) -> Option<Self> {
        let [client, task, context, open] = record.get(..4)?.try_into().ok()?;
        let counters = [word(record, 4)?, word(record, 8)?, word(record, 12)?, word(record, 16)?];
        if open == 0 && counters == [0; 4] {
            return None;
        }
        let [injected, retired, delivered, consumed] = counters;
        let awaited = (0..AWAITED).map_while(|place| word(record, RECORD_BYTES + 4 * place)?.checked_sub(1));
        let awaited = awaited.collect();
        let [refused, refused_at] = [0, 4].map(|at| word(record, RECORD_BYTES + 4 * AWAITED + at));
        let refused = refused.and_then(|node| node.checked_sub(1)).filter(|_| refused_at == Some(injected));
        let open = open != 0;
        Some(Self { client, task, context, open, injected, retired, delivered, consumed, awaited, refused })
    }

    /// Packets that wait to be sent.
    pub fn unsent(&self) -> u32 {
        self.injected.wrapping_sub(self.retired)
    }
}

impl fmt::Display for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, task, context, injected, retired, delivered, consumed, .. } = self;
        write!(
            f,
            "FIFOs of client {client} task {task} context {context}{}: injected {injected}, retired {retired} ({} waiting); \
             delivered {delivered}, consumed {consumed} ({} waiting)",
            if self.open { "" } else { " (closed)" },
            self.unsent(),
            delivered.wrapping_sub(*consumed),
        )?;
        if !self.awaited.is_empty() {
            let awaited: Vec<_> = self.awaited.iter().map(u32::to_string).collect();
            write!(f, "; sleeps until node {} answers", awaited.join(", "))?;
        }
        if let Some(node) = self.refused.filter(|_| self.unsent() > 0) {
            write!(f, "; had no place for more to node {node}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_program_counters_are_found_in_the_dumps_of_both_architectures() {
        let arm = "\nCPU#0\n PC=0000000040201234 X00=0000000000000000\nX01=0\n\nCPU#1\n PC=0000000040205678 X00=1\n";
        assert_eq!(counters(arm), [(0, 0x4020_1234), (1, 0x4020_5678)]);
        let riscv = "\nCPU#0\n V      =   0\n pc       0000000080200042\n mhartid  0\n\nCPU#1\n pc 0000000080200010\n";
        assert_eq!(counters(riscv), [(0, 0x8020_0042), (1, 0x8020_0010)]);
        assert!(counters("").is_empty());
    }

    #[test]
    fn x1_fifo_counters_are_read_from_the_state_block() {
        let mut block = MAGIC.to_le_bytes().to_vec();
        block.extend(3u32.to_le_bytes());
        block.extend(20u32.to_le_bytes());
        block.extend(0x4030_0000u64.to_le_bytes());
        assert_eq!(block_of(&block).expect("sound"), Some((3, 20, 0x4030_0000)));
        assert!(block_of(&block[..20]).is_err());
        assert_eq!(block_of(&[0; 24]).expect("not started"), None);
        block[0] ^= 1;
        assert!(block_of(&block).is_err());

        let mut record = vec![1, 0, 2, 1];
        for counter in [7u32, 5, 3, 3] {
            record.extend(counter.to_le_bytes());
        }
        let line = Fifo::read(&record).expect("in use").to_string();
        assert!(line.contains("client 1 task 0 context 2: injected 7, retired 5 (2 waiting)"), "{line}");
        assert_eq!(Fifo::read(&[0; 20]), None);
        for node in [4u32, 1, 0, 9] {
            record.extend(node.to_le_bytes());
        }
        let line = |record: &[u8]| Fifo::read(record).expect("in use").to_string();
        let sleeps = "(0 waiting); sleeps until node 3, 0 answers";
        assert!(line(&record).ends_with(sleeps), "{}", line(&record));
        record.resize(RECORD_BYTES + 4 * AWAITED, 0);
        let refused = |node: u32, at: u32| [&record[..], &node.to_le_bytes(), &at.to_le_bytes()].concat();
        assert!(line(&refused(6, 7)).ends_with(&format!("{sleeps}; had no place for more to node 5")));
        // Since then one had.
        assert!(line(&refused(6, 6)).ends_with(sleeps) && line(&refused(0, 7)).ends_with(sleeps));
    }

    #[test]
    fn s3_what_a_hart_does_is_told_by_the_function_that_it_is_in() {
        for (function, does) in [
            (None, Activity::Outside),
            (Some("alive::compute"), Activity::Computing),
            (Some("<npb_ft::Grid>::step"), Activity::Computing),
            (Some("compiler_builtins::mem::memcpy"), Activity::Computing),
            (Some("<pami::context::Context<P>>::advance"), Activity::Advancing),
            (Some("<mpi::Mpi as core::ops::Drop>::drop"), Activity::Advancing),
            (Some("kernel::relax"), Activity::Advancing),
            (Some("kernel::wakeup::sleep"), Activity::Sleeping),
        ] {
            assert_eq!(Activity::of(function), does, "{function:?}");
        }
    }
}
