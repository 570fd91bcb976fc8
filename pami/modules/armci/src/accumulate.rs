//! Accumulates: `to += scale * from`, element by element, by messages that the target handles.
//!
//! Each message is one packet and says all of what is to be done with its data, so the target keeps nothing of an
//! accumulate. Elements are updated by atomic operations on their words: it does not matter which thread of the target
//! handles what.
//!
//! ```text
//! header: scale (8 bytes), type (1), zeros (7), then offset and length of up to 14 runs (4 + 4 bytes each)
//! data:   the elements, one behind the other
//! ```

use crate::address::{GlobalAddress, Local};
use crate::error::Error;
use crate::library::Library;
use crate::protocols::Message;
use crate::settings::CHUNK_LIMIT;
use crate::shape::{Plan, Shape};
use heapless::Vec;
use pami::{Node, Shared, Update, Width};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Runs of one message.
const RUNS: usize = 14;

/// What elements are multiplied by before they are added: says their type as well.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scale {
    /// Of integers of 32 bits, which wrap.
    I32(i32),
    /// Of integers of 64 bits, which wrap.
    I64(i64),
    /// Of numbers of 32 bits; product and sum are rounded one after the other.
    F32(f32),
    /// Of numbers of 64 bits; product and sum are rounded one after the other.
    F64(f64),
}

impl Scale {
    /// Bytes of an element.
    pub fn size(self) -> u32 {
        match self {
            Self::I32(_) | Self::F32(_) => 4,
            Self::I64(_) | Self::F64(_) => 8,
        }
    }

    fn encode(self) -> (u8, u64) {
        match self {
            Self::I32(scale) => (0, u64::from(scale as u32)),
            Self::I64(scale) => (1, scale as u64),
            Self::F32(scale) => (2, scale.to_bits().into()),
            Self::F64(scale) => (3, scale.to_bits()),
        }
    }

    fn decode(kind: u8, bits: u64) -> Option<Self> {
        Some(match kind {
            0 => Self::I32(bits as u32 as i32),
            1 => Self::I64(bits as i64),
            2 => Self::F32(f32::from_bits(bits as u32)),
            3 => Self::F64(f64::from_bits(bits)),
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    scale: U64,
    kind: u8,
    zeros: [u8; 7],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Run {
    offset: U32,
    len: U32,
}

const _: () = assert!(size_of::<Head>() + RUNS * size_of::<Run>() <= pami::send::HEADER_LIMIT);

/// A message that is being put together.
struct Packing {
    data: Vec<u8, CHUNK_LIMIT>,
    runs: Vec<Run, RUNS>,
}

impl<N: Node> Library<N> {
    /// Sends the messages of an accumulate.
    pub(crate) fn send_accumulate(
        &self,
        scale: Scale,
        from: Local,
        to: GlobalAddress,
        shape: Shape,
    ) -> Result<(), Error> {
        let (plan, size) = (Plan::new(shape)?, scale.size());
        self.check(from, to, &plan)?;
        if !to.offset.is_multiple_of(size) || !plan.is_multiple_of(size) {
            return Err(Error::Unaligned { size });
        }
        let target = self.endpoint(to.task)?;
        let lane = self.lane()?;
        let header = size_of::<Head>() + RUNS * size_of::<Run>();
        let limit = lane.with(|context| context.immediate_limit())?.saturating_sub(header);
        let most = self.settings().accumulate_chunk.min(limit) & !7;
        let (kind, bits) = scale.encode();
        let head = Head { scale: bits.into(), kind, zeros: [0; 7] };
        lane.note_accumulate(to.task);
        let send = |packing: &mut Packing| {
            let mut header: Vec<u8, { pami::send::HEADER_LIMIT }> = Vec::new();
            let _ = header.extend_from_slice(head.as_bytes());
            let _ = header.extend_from_slice(packing.runs.as_bytes());
            let sent = self.attempt(|active| {
                self.inner.protocols.send(active, target, Message::Accumulate, &header, &packing.data)
            });
            packing.data.clear();
            packing.runs.clear();
            sent
        };
        let mut packing = Packing { data: Vec::new(), runs: Vec::new() };
        plan.runs(|local, remote, len| {
            let mut done = 0;
            while done < len {
                if packing.data.len() >= most || packing.runs.is_full() {
                    send(&mut packing)?;
                }
                let (start, room) = (packing.data.len(), most - packing.data.len());
                let now = (len - done).min(room as u32);
                let run = Run { offset: (to.offset + remote + done).into(), len: now.into() };
                // There is room for both.
                let _ = packing.data.resize_default(start + now as usize);
                let _ = packing.runs.push(run);
                let at = from.offset + (local + done) as usize;
                let _ = from.memory.read(at, &mut packing.data[start..]);
                done += now;
            }
            Ok::<_, Error>(())
        })?;
        if packing.data.is_empty() { Ok(()) } else { send(&mut packing) }
    }
}

/// Carries out what a message asks for. Of one that makes no sense nothing, or what makes sense in front, is done: its
/// sender has checked it.
pub(crate) fn apply(slab: &Shared, message: &pami::Message<'_>) {
    let Ok((head, runs)) = Head::read_from_prefix(message.header) else { return };
    let Ok(runs) = <[Run]>::ref_from_bytes(runs) else { return };
    let Some(scale) = Scale::decode(head.kind, head.scale.get()).filter(|_| message.is_whole()) else {
        return;
    };
    let mut rest = message.data;
    for run in runs {
        let (offset, len) = (run.offset.get() as usize, run.len.get() as usize);
        let Some((elements, later)) = rest.split_at_checked(len) else { return };
        rest = later;
        if !add(slab, scale, offset, elements) {
            return;
        }
    }
}

/// Adds elements in a row. Returns whether all were inside, whole and aligned.
fn add(slab: &Shared, scale: Scale, offset: usize, elements: &[u8]) -> bool {
    match scale {
        Scale::I32(scale) => each(offset, elements, |at, value| {
            let product = scale.wrapping_mul(i32::from_le_bytes(value));
            slab.update(at, Width::Four, Update::Add(u64::from(product as u32))).is_ok()
        }),
        Scale::I64(scale) => each(offset, elements, |at, value| {
            let product = scale.wrapping_mul(i64::from_le_bytes(value));
            slab.update(at, Width::Eight, Update::Add(product as u64)).is_ok()
        }),
        Scale::F32(scale) => each(offset, elements, |at, value| {
            let product = scale * f32::from_le_bytes(value);
            replace(slab, at, Width::Four, |old| (f32::from_bits(old as u32) + product).to_bits().into())
        }),
        Scale::F64(scale) => each(offset, elements, |at, value| {
            let product = scale * f64::from_le_bytes(value);
            replace(slab, at, Width::Eight, |old| (f64::from_bits(old) + product).to_bits())
        }),
    }
}

/// Calls `change` with the place and the bytes of each element, while it says yes.
fn each<const SIZE: usize>(
    offset: usize,
    elements: &[u8],
    mut change: impl FnMut(usize, [u8; SIZE]) -> bool,
) -> bool {
    let (elements, rest) = elements.as_chunks::<SIZE>();
    rest.is_empty() && elements.iter().zip((offset..).step_by(SIZE)).all(|(&value, at)| change(at, value))
}

/// Replaces a word by what `new` makes of it, atomically. Returns whether there is such a word.
fn replace(slab: &Shared, at: usize, width: Width, new: impl Fn(u64) -> u64) -> bool {
    // An update that changes nothing says what the word is.
    let Ok(mut old) = slab.update(at, width, Update::Or(0)) else { return false };
    loop {
        let swap = Update::CompareSwap { expected: old, new: new(old) };
        match slab.update(at, width, swap) {
            Ok(was) if was == old => return true,
            Ok(was) => old = was,
            Err(_) => return false,
        }
    }
}
