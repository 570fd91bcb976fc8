//! What is done to a message on its way into memory: a sequence of sub-operations (SPEC L-1).

use bitflags::bitflags;

/// What a message is made of. Integers wrap; floating-point numbers round as IEEE 754 has it, in each sub-operation by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecipeElement {
    /// 32-bit floating-point numbers.
    F32 = 0,
    /// 64-bit floating-point numbers.
    F64 = 1,
    /// 32-bit integers.
    I32 = 2,
    /// 64-bit integers.
    I64 = 3,
}

impl RecipeElement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::I32, Self::I64];

    /// Bytes of one.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

/// A factor, of the type of the elements that it scales.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Factor {
    /// For [`RecipeElement::F32`].
    F32(f32),
    /// For [`RecipeElement::F64`].
    F64(f64),
    /// For [`RecipeElement::I32`].
    I32(i32),
    /// For [`RecipeElement::I64`].
    I64(i64),
}

impl Factor {
    /// The type of elements that it scales.
    pub fn element(self) -> RecipeElement {
        match self {
            Self::F32(_) => RecipeElement::F32,
            Self::F64(_) => RecipeElement::F64,
            Self::I32(_) => RecipeElement::I32,
            Self::I64(_) => RecipeElement::I64,
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::F32(factor) => factor.to_bits().into(),
            Self::F64(factor) => factor.to_bits(),
            Self::I32(factor) => factor.cast_unsigned().into(),
            Self::I64(factor) => factor.cast_unsigned(),
        }
    }
}

bitflags! {
    /// Sub-operations, each of which runs at the origin or at the target.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SubOperations: u16 {
        /// The bytes of each element are put in the opposite order.
        const SWAP = 1;
        /// Each element is multiplied by the factor.
        const SCALE = 2;
        /// Each element is added to the one in the target's memory.
        const ADD = 4;
        /// Each element becomes what a function makes of it and of the operand's.
        const COMBINE = 8;
        /// Each 64-bit floating-point number is rounded to one of 32 bits; so it travels, if the origin does it.
        const NARROW = 16;
        /// Those that an application registers, a bit each; a recipe has them as [`COMBINE`](Self::COMBINE).
        const OWN = 0xff00;
    }
}

/// Functions that a client can register.
pub const OWN_FUNCTIONS: usize = 8;

impl SubOperations {
    /// The bit of a registered function; none for a number that is none.
    pub(crate) fn own(number: u8) -> Self {
        let bit = 1u16.checked_shl(8 + u32::from(number)).unwrap_or(0);
        Self::from_bits_retain(bit).intersection(Self::OWN)
    }
}

/// Whose elements have their bytes in the order that is not this machine's. Each side computes in its own: an origin with the
/// message's elements, a target with those in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Foreign {
    /// Neither the message's nor those in the target's memory.
    Neither = 0,
    /// The message's and its operand's, as an origin of the other kind would send them.
    Message = 1,
    /// Those in the target's memory, as a target of the other kind would have it.
    Target = 2,
}

/// What an element and the operand's become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combination {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The smaller; of numbers that do not compare, the element.
    Min,
    /// The greater; of numbers that do not compare, the element.
    Max,
    /// What the function makes of them that has this [number](crate::Factory::number) at both ends.
    Own(u8),
    /// The same of the element alone: the operation has no operand.
    OwnAlone(u8),
}

impl Combination {
    const BUILT_IN: [Self; 4] = [Self::Sum, Self::Product, Self::Min, Self::Max];
    const OWN: u8 = 8;
    const ALONE: u8 = 16;

    fn code(self) -> u8 {
        match self {
            Self::Own(number) => Self::OWN | number,
            Self::OwnAlone(number) => Self::ALONE | number,
            // A combination is no 0.
            built_in => 1 + Self::BUILT_IN.iter().position(|&other| other == built_in).unwrap_or(0) as u8,
        }
    }

    fn decode(code: u8) -> Option<Self> {
        match code & !7 {
            0 => Self::BUILT_IN.get(usize::from(code).checked_sub(1)?).copied(),
            Self::OWN => Some(Self::Own(code & 7)),
            Self::ALONE => Some(Self::OwnAlone(code & 7)),
            _ => None,
        }
    }

    /// The function's number, if it is a registered one.
    pub(crate) fn own(self) -> Option<u8> {
        match self {
            Self::Own(number) | Self::OwnAlone(number) => Some(number),
            _ => None,
        }
    }
}

/// A data-processing operation (SPEC L-1).
///
/// | made by | sub-operations, in this order |
/// |---|---|
/// | [`sum`](Self::sum) | add |
/// | [`accumulate`](Self::accumulate) | scale, add |
/// | either, [`combined`](Self::combined) | combine, (scale,) add |
/// | any of these, [`narrowed`](Self::narrowed) | (combine, scale,) narrow, add |
/// | any of these, [`converted`](Self::converted) | the same, and swap at any place before the addition |
///
/// An origin does the first of them, as many as it wants, and the swap or not; the target does the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    element: RecipeElement,
    factor: Option<u64>,
    foreign: Foreign,
    combine: Option<Combination>,
    narrow: bool,
    /// Not on the wire: it is the origin's matter.
    merges: bool,
}

/// All but the swap, in their order.
const ORDER: [SubOperations; 4] =
    [SubOperations::COMBINE, SubOperations::SCALE, SubOperations::NARROW, SubOperations::ADD];

impl Recipe {
    /// Adds the message to the target's memory.
    pub const fn sum(element: RecipeElement) -> Self {
        Self { element, factor: None, foreign: Foreign::Neither, combine: None, narrow: false, merges: false }
    }

    /// Scales the message by `factor` and adds it to the target's memory.
    pub fn accumulate(factor: Factor) -> Self {
        Self { factor: Some(factor.bits()), ..Self::sum(factor.element()) }
    }

    /// With a conversion of byte order.
    #[must_use]
    pub const fn converted(self, foreign: Foreign) -> Self {
        Self { foreign, ..self }
    }

    /// Of the message combined with an [operand](crate::Process::operand) first.
    #[must_use]
    pub const fn combined(self, combine: Combination) -> Self {
        Self { combine: Some(combine), ..self }
    }

    /// Of numbers rounded to 32 bits before they are added: half as much to send. It is for [`RecipeElement::F64`]; others are
    /// left as they are.
    #[must_use]
    pub const fn narrowed(self) -> Self {
        Self { narrow: matches!(self.element, RecipeElement::F64), ..self }
    }

    /// That may be merged with others that wait to be added to the same elements, though sums of floating-point numbers may round
    /// otherwise then; those of integers always are.
    #[must_use]
    pub const fn merged(self) -> Self {
        Self { merges: true, ..self }
    }

    /// Whether two messages may be added to each other first, and then be processed as one.
    pub(crate) fn merges(&self) -> bool {
        let exact = matches!(self.element, RecipeElement::I32 | RecipeElement::I64);
        let plain = self.combine.is_none() && self.foreign == Foreign::Neither && !self.narrow;
        plain && (exact || self.merges)
    }

    /// What the message and the target's memory are made of.
    pub const fn element(&self) -> RecipeElement {
        self.element
    }

    /// Whether the message is combined with as long an operand.
    pub const fn has_operand(&self) -> bool {
        matches!(
            self.combine,
            Some(
                Combination::Sum
                    | Combination::Product
                    | Combination::Min
                    | Combination::Max
                    | Combination::Own(_)
            )
        )
    }

    pub(crate) fn foreign(&self) -> Foreign {
        self.foreign
    }

    pub(crate) fn combine(&self) -> Option<Combination> {
        self.combine
    }

    /// The factor's bits; 0 without one.
    pub(crate) fn factor(&self) -> u64 {
        self.factor.unwrap_or(0)
    }

    /// The sub-operations in their order, but for the swap.
    pub(crate) fn sequence(&self) -> impl Iterator<Item = SubOperations> {
        let all = self.sub_operations();
        ORDER.into_iter().filter(move |&step| all.contains(step))
    }

    /// The sub-operations.
    pub fn sub_operations(&self) -> SubOperations {
        let mut all = SubOperations::ADD;
        all.set(SubOperations::COMBINE, self.combine.is_some());
        all.set(SubOperations::SCALE, self.factor.is_some());
        all.set(SubOperations::NARROW, self.narrow);
        all.set(SubOperations::SWAP, self.foreign != Foreign::Neither);
        all
    }

    /// What somebody who has `some` can do of the recipe.
    pub(crate) fn among(&self, some: SubOperations) -> SubOperations {
        let mut among = some.intersection(self.sub_operations());
        if let Some(number) = self.combine.and_then(Combination::own) {
            among.set(SubOperations::COMBINE, some.contains(SubOperations::own(number)));
        }
        among
    }

    /// The first sub-operations, as long as they are among `some`, and the swap if it is. The addition is behind all others.
    pub fn prefix(&self, some: SubOperations) -> SubOperations {
        let all = self.sub_operations();
        let taken = self.sequence().take_while(|&step| some.contains(step));
        let taken =
            taken.fold(some.intersection(all).intersection(SubOperations::SWAP), SubOperations::union);
        if taken == all { all } else { taken.difference(SubOperations::ADD) }
    }

    /// Whether `left` is what a target can be left with: the addition, and what comes right before it.
    pub(crate) fn may_be_left(&self, left: SubOperations) -> bool {
        let done = self.sub_operations().difference(left);
        left.contains(SubOperations::ADD) && self.sub_operations().contains(left) && self.prefix(done) == done
    }

    /// Bytes that `elements` bytes of elements take on their way, once `done` is done at the origin.
    pub(crate) fn wire_bytes(&self, elements: usize, done: SubOperations) -> usize {
        let (halves, operands) = self.shape(done);
        elements / halves * operands
    }

    /// Bytes of elements that `wire` bytes hold; `None` if these are not whole elements.
    pub(crate) fn element_bytes(&self, wire: usize, done: SubOperations) -> Option<usize> {
        let (halves, operands) = self.shape(done);
        let one = self.element.bytes() / halves * operands;
        wire.is_multiple_of(one).then(|| wire / operands * halves)
    }

    /// How many of an element's halves, or wholes, go as one, and how many elements for one of the result.
    fn shape(&self, done: SubOperations) -> (usize, usize) {
        let halves = if self.narrow && done.contains(SubOperations::NARROW) { 2 } else { 1 };
        let operands = if self.has_operand() && !done.contains(SubOperations::COMBINE) { 2 } else { 1 };
        (halves, operands)
    }

    /// All but the factor's bits.
    pub(crate) fn code(&self) -> [u8; 2] {
        let flags =
            u8::from(self.factor.is_some()) << 2 | (self.foreign as u8) << 3 | u8::from(self.narrow) << 5;
        [self.element as u8 | flags, self.combine.map_or(0, Combination::code)]
    }

    /// What [`code`](Self::code) and [`factor`](Self::factor) say; `None` if they are of no recipe.
    pub(crate) fn decode([code, combine]: [u8; 2], factor: u64) -> Option<Self> {
        let foreign =
            [Foreign::Neither, Foreign::Message, Foreign::Target].get(usize::from(code >> 3 & 3))?;
        let element = RecipeElement::ALL[usize::from(code & 3)];
        let factor = (code & 4 != 0).then_some(factor);
        let combine = if combine == 0 { None } else { Some(Combination::decode(combine)?) };
        let narrow = code & 0x20 != 0;
        let sane = code >> 6 == 0 && (!narrow || element == RecipeElement::F64);
        sane.then_some(Self { element, factor, foreign: *foreign, combine, narrow, merges: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn l1_sub_operations_have_one_order_but_for_the_swap_and_the_origin_does_the_first() {
        use SubOperations as S;
        let accumulate = Recipe::accumulate(Factor::F64(2.0));
        let cases: [(Recipe, &[S], bool); 6] = [
            (Recipe::sum(RecipeElement::I32), &[S::ADD], false),
            (accumulate, &[S::SCALE, S::ADD], false),
            (accumulate.converted(Foreign::Message), &[S::SCALE, S::ADD], true),
            (accumulate.converted(Foreign::Target).narrowed(), &[S::SCALE, S::NARROW, S::ADD], true),
            (
                accumulate.combined(Combination::Max).narrowed(),
                &[S::COMBINE, S::SCALE, S::NARROW, S::ADD],
                false,
            ),
            (
                Recipe::sum(RecipeElement::I32).combined(Combination::Own(7)).narrowed(),
                &[S::COMBINE, S::ADD],
                false,
            ),
        ];
        for (recipe, sequence, swaps) in cases {
            assert_eq!(recipe.sequence().collect::<Vec<_>>(), sequence);
            assert_eq!(recipe.sub_operations().contains(S::SWAP), swaps);
            assert_eq!(recipe.prefix(S::all()), recipe.sub_operations());
            let swap = if swaps { S::SWAP } else { S::empty() };
            assert_eq!(recipe.prefix(S::all().difference(sequence[0])), swap);
            // A target is left with a tail of the sequence, the addition in it, with the swap or without.
            for bits in 0..=u8::MAX {
                let left = S::from_bits_retain(bits.into());
                let tail = (0..sequence.len())
                    .map(|first| sequence[first..].iter().copied().fold(S::empty(), S::union));
                let may = tail.flat_map(|tail| [tail, tail | swap]).any(|tail| tail == left);
                assert_eq!(recipe.may_be_left(left), may, "{recipe:?} {left:?}");
            }
        }
    }

    #[test]
    fn l2_a_registered_function_is_what_its_number_is_of_all_that_somebody_has() {
        let recipe = Recipe::sum(RecipeElement::F64).combined(Combination::Own(2));
        let add = SubOperations::ADD;
        assert_eq!(recipe.among(add | SubOperations::COMBINE | SubOperations::own(1)), add);
        assert_eq!(recipe.among(add | SubOperations::own(2)), add | SubOperations::COMBINE);
        assert_eq!((SubOperations::own(7).bits(), SubOperations::own(8).bits()), (1 << 15, 0));
    }

    #[test]
    fn l1_what_is_sent_is_as_much_as_is_left_to_be_combined_and_narrow_as_it_is() {
        let recipe = Recipe::sum(RecipeElement::F64).combined(Combination::Sum).narrowed();
        let (combine, narrow) = (SubOperations::COMBINE, SubOperations::NARROW);
        for (done, bytes) in [(SubOperations::empty(), 160), (combine, 80), (combine | narrow, 40)] {
            assert_eq!(recipe.wire_bytes(80, done), bytes);
            assert_eq!(recipe.element_bytes(bytes, done), Some(80));
            assert_eq!(recipe.element_bytes(bytes + 2, done), None);
        }
        assert_eq!(
            Recipe::sum(RecipeElement::F64).combined(Combination::OwnAlone(1)).wire_bytes(80, narrow),
            80
        );
    }

    #[test]
    fn l3_a_recipe_reads_back_what_was_written_and_nothing_else() {
        let mut seen = 0;
        for code in 0..=u16::MAX {
            let Some(recipe) = Recipe::decode(code.to_be_bytes(), 7) else { continue };
            assert_eq!(recipe.code(), code.to_be_bytes());
            assert_eq!(Recipe::decode(recipe.code(), recipe.factor()), Some(recipe));
            seen += 1;
        }
        // Elements, of which one may be narrowed; with a factor; whose order; what they are combined by.
        assert_eq!(seen, (4 + 1) * 2 * 3 * (1 + 4 + 2 * OWN_FUNCTIONS));
    }
}
