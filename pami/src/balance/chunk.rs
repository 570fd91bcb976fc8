//! Chunks on the wire: each carries its own instruction (SPEC L-3, L-4).

use super::recipe::{Recipe, SubOperations};
use crate::packet::Envelope;
use crate::region::RegionId;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most bytes that a chunk has in a packet, besides its header: whole words.
pub const CHUNK_BYTES: u32 = 4096;

/// Set in [`ChunkHeader::left`] of the last chunk that a target gets of a message: its origin wants an answer.
const LAST: u8 = 0x80;
/// Set there if the chunk's data are [`LentChunk`]s: the message's, and the operand's if there is one.
const LENT: u8 = 0x40;

/// Header of a chunk. With its twenty-four bytes the elements behind it are as aligned as the packet's header before it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChunkHeader {
    region: RegionId,
    /// Where the first byte of the message, not of the chunk, belongs in the region.
    offset: U32,
    recipe: [u8; 2],
    /// The sub-operations that are left for the target, with flags.
    left: u8,
    /// Those that are left for it in any chunk of the message.
    wanted: u8,
    factor: U64,
}

/// Where a chunk lies that is processed out of its origin's memory.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LentChunk {
    pub(crate) region: RegionId,
    pub(crate) offset: U32,
    pub(crate) len: U32,
}

/// A chunk's instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Instruction {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    pub(crate) recipe: Recipe,
    pub(crate) left: SubOperations,
    /// What the target has to have for the whole message. As each chunk says so, all of them are refused if one would be, and
    /// the answer to the last is true of all.
    pub(crate) wanted: SubOperations,
    pub(crate) last: bool,
    pub(crate) lent: bool,
}

impl Instruction {
    pub(crate) fn encode(&self) -> ChunkHeader {
        let flag = |set: bool, flag| if set { flag } else { 0 };
        ChunkHeader {
            region: self.region,
            offset: self.offset.into(),
            recipe: self.recipe.code(),
            left: self.left.bits() as u8 | flag(self.last, LAST) | flag(self.lent, LENT),
            wanted: self.wanted.bits() as u8,
            factor: self.recipe.factor().into(),
        }
    }

    /// `None` for what no origin sends.
    pub(crate) fn decode(header: &[u8]) -> Option<Self> {
        let header = ChunkHeader::read_from_bytes(header).ok()?;
        let recipe = Recipe::decode(header.recipe, header.factor.get())?;
        let left = SubOperations::from_bits_retain((header.left & !(LAST | LENT)).into());
        let wanted = SubOperations::from_bits_retain(header.wanted.into());
        let sane = recipe.may_be_left(left) && recipe.may_be_left(wanted) && wanted.contains(left);
        sane.then_some(Self {
            region: header.region,
            offset: header.offset.get(),
            recipe,
            left,
            wanted,
            last: header.left & LAST != 0,
            lent: header.left & LENT != 0,
        })
    }

    /// What the origin has done.
    pub(crate) fn done(&self) -> SubOperations {
        self.recipe.sub_operations().difference(self.left)
    }
}

/// Whether `len` bytes of elements at the envelope's offset are a piece of whole elements of its message. A last one may have none: its
/// origin only wants the answer.
pub(crate) fn is_piece(envelope: &Envelope, instruction: &Instruction, len: usize) -> bool {
    let size = instruction.recipe.element().bytes();
    let end = u64::from(envelope.offset) + len as u64;
    let whole = (envelope.offset as usize).is_multiple_of(size) && len.is_multiple_of(size);
    whole && (len > 0 || instruction.last && !instruction.lent) && end <= u64::from(envelope.total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::recipe::RecipeElement;
    use crate::endpoint::{ClientId, ContextOffset, Endpoint};
    use crate::packet::Kind;
    use proptest::prelude::*;

    #[test]
    fn l3_headers_keep_elements_aligned() {
        assert_eq!((size_of::<ChunkHeader>(), size_of::<LentChunk>()), (24, 16));
        assert!(CHUNK_BYTES.is_multiple_of(8));
    }

    #[test]
    fn d9_l3_an_instruction_asks_for_what_its_recipe_has_and_no_less_than_its_chunk_does() {
        let region = RegionId::read_from_bytes(&[0; size_of::<RegionId>()]).unwrap();
        let (recipe, add) = (Recipe::sum(RecipeElement::I32), SubOperations::ADD);
        let sane = Instruction { region, offset: 8, recipe, left: add, wanted: add, last: true, lent: false };
        assert_eq!(Instruction::decode(sane.encode().as_bytes()), Some(sane));
        for (left, wanted) in [
            (add, SubOperations::empty()),
            (add, add | SubOperations::SCALE),
            (add | SubOperations::SCALE, add | SubOperations::SCALE),
        ] {
            let wrong = Instruction { left, wanted, ..sane };
            assert_eq!(Instruction::decode(wrong.encode().as_bytes()), None, "{left:?} of {wanted:?}");
        }
    }

    #[test]
    fn d9_l3_a_chunk_is_whole_elements_inside_its_message() {
        let region = RegionId::read_from_bytes(&[0; size_of::<RegionId>()]).unwrap();
        let (recipe, left) = (Recipe::sum(RecipeElement::I32), SubOperations::ADD);
        let middle = Instruction { region, offset: 0, recipe, left, wanted: left, last: false, lent: false };
        let origin = Endpoint::from_parts(ClientId(0), 0, ContextOffset(0));
        let is = |instruction: Instruction, offset, len| {
            let envelope = Envelope {
                kind: Kind::Chunk,
                dispatch: 0,
                origin,
                target: origin,
                message: 0,
                offset,
                total: 40,
            };
            super::is_piece(&envelope, &instruction, len)
        };
        let is_piece = |offset, len| is(middle, offset, len);
        assert!(is_piece(0, 40) && is_piece(36, 4));
        // One that only wants the answer.
        let last = Instruction { last: true, ..middle };
        assert!(is(last, 40, 0) && !is(last, 44, 0) && !is(Instruction { lent: true, ..last }, 40, 0));
        for (offset, len) in [(0, 0), (2, 4), (4, 6), (36, 8), (40, 4), (u32::MAX - 3, 4)] {
            assert!(!is_piece(offset, len), "{len} bytes from {offset} on");
        }
    }

    proptest! {
        #[test]
        fn l3_any_bytes_are_an_instruction_that_reads_back_or_none(bytes in any::<[u8; 24]>(), code in 0u8..24, left in 4u8..8) {
            let mut sane = bytes;
            (sane[12], sane[13], sane[14], sane[15]) = (code, 0, left | bytes[14] & 0xc0, left | bytes[15] & 3);
            for mut bytes in [bytes, sane] {
                let Some(instruction) = Instruction::decode(&bytes) else { continue };
                prop_assert!(instruction.recipe.may_be_left(instruction.left));
                prop_assert!(instruction.wanted.contains(instruction.left));
                // A factor that the recipe has no use for is dropped.
                if instruction.recipe.factor() == 0 {
                    bytes[16..].fill(0);
                }
                let again = instruction.encode();
                prop_assert_eq!(again.as_bytes(), &bytes);
            }
            prop_assert_eq!(Instruction::decode(&bytes[1..]), None);
        }
    }
}
