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
    pub struct SubOperations: u8 {
        /// The bytes of each element are put in the opposite order.
        const SWAP = 1;
        /// Each element is multiplied by the factor.
        const SCALE = 2;
        /// Each element is added to the one in the target's memory.
        const ADD = 4;
    }
}

/// Whose elements have their bytes in the order that is not this machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Foreign {
    /// Neither the message's nor those in the target's memory.
    Neither = 0,
    /// The message's, as an origin of the other kind would send it.
    Message = 1,
    /// Those in the target's memory, as a target of the other kind would have it: it adds in that order.
    Target = 2,
}

/// A data-processing operation (SPEC L-1).
///
/// | made by | sub-operations, in this order |
/// |---|---|
/// | [`sum`](Self::sum) | add |
/// | [`accumulate`](Self::accumulate) | scale, add |
/// | either, [`converted`](Self::converted) from a foreign message | swap, (scale,) add |
/// | either, converted for a foreign target | (scale,) swap, add |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    element: RecipeElement,
    factor: Option<u64>,
    foreign: Foreign,
}

impl Recipe {
    /// Adds the message to the target's memory.
    pub const fn sum(element: RecipeElement) -> Self {
        Self { element, factor: None, foreign: Foreign::Neither }
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

    /// What the message and the target's memory are made of.
    pub const fn element(&self) -> RecipeElement {
        self.element
    }

    pub(crate) fn foreign(&self) -> Foreign {
        self.foreign
    }

    /// The factor's bits; 0 without one.
    pub(crate) fn factor(&self) -> u64 {
        self.factor.unwrap_or(0)
    }

    /// The sub-operations, in their order.
    pub fn sequence(&self) -> impl Iterator<Item = SubOperations> {
        let (first, second) = match self.foreign {
            Foreign::Neither | Foreign::Message => (SubOperations::SWAP, SubOperations::SCALE),
            Foreign::Target => (SubOperations::SCALE, SubOperations::SWAP),
        };
        let all = self.sub_operations();
        [first, second, SubOperations::ADD].into_iter().filter(move |&step| all.contains(step))
    }

    /// The sub-operations.
    pub fn sub_operations(&self) -> SubOperations {
        let mut all = SubOperations::ADD;
        all.set(SubOperations::SCALE, self.factor.is_some());
        all.set(SubOperations::SWAP, self.foreign != Foreign::Neither);
        all
    }

    /// The first sub-operations, as long as they are among `some`.
    pub fn prefix(&self, some: SubOperations) -> SubOperations {
        let taken = self.sequence().take_while(|&step| some.contains(step));
        taken.fold(SubOperations::empty(), SubOperations::union)
    }

    /// Whether `left` is what a target can be left with: the addition, and what comes right before it.
    pub(crate) fn may_be_left(&self, left: SubOperations) -> bool {
        let done = self.sub_operations().difference(left);
        left.contains(SubOperations::ADD) && self.sub_operations().contains(left) && self.prefix(done) == done
    }

    /// All but the factor's bits, as a byte.
    pub(crate) fn code(&self) -> u8 {
        self.element as u8 | u8::from(self.factor.is_some()) << 2 | (self.foreign as u8) << 3
    }

    /// What [`code`](Self::code) and [`factor`](Self::factor) say; `None` if they are of no recipe.
    pub(crate) fn decode(code: u8, factor: u64) -> Option<Self> {
        let foreign = [Foreign::Neither, Foreign::Message, Foreign::Target].get(usize::from(code >> 3))?;
        let element = RecipeElement::ALL[usize::from(code & 3)];
        let factor = (code & 4 != 0).then_some(factor);
        Some(Self { element, factor, foreign: *foreign })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn l1_sub_operations_have_one_order_and_the_origin_does_the_first() {
        use SubOperations as S;
        let accumulate = Recipe::accumulate(Factor::F64(2.0));
        let cases: [(Recipe, &[S]); 4] = [
            (Recipe::sum(RecipeElement::I32), &[S::ADD]),
            (accumulate, &[S::SCALE, S::ADD]),
            (accumulate.converted(Foreign::Message), &[S::SWAP, S::SCALE, S::ADD]),
            (accumulate.converted(Foreign::Target), &[S::SCALE, S::SWAP, S::ADD]),
        ];
        for (recipe, sequence) in cases {
            assert_eq!(recipe.sequence().collect::<Vec<_>>(), sequence);
            assert_eq!(recipe.prefix(S::all()), recipe.sub_operations());
            assert_eq!(recipe.prefix(S::all().difference(sequence[0])), S::empty());
            // A target is left with a tail of the sequence, the addition in it.
            for bits in 0..=u8::MAX {
                let left = S::from_bits_retain(bits);
                let tail = (0..sequence.len())
                    .any(|first| sequence[first..].iter().copied().fold(S::empty(), S::union) == left);
                assert_eq!(recipe.may_be_left(left), tail, "{recipe:?} {left:?}");
            }
        }
    }

    #[test]
    fn l3_a_recipe_reads_back_what_was_written_and_nothing_else() {
        let mut seen = 0;
        for code in 0..=u8::MAX {
            let Some(recipe) = Recipe::decode(code, 7) else { continue };
            assert_eq!(recipe.code(), code);
            assert_eq!(Recipe::decode(code, recipe.factor()), Some(recipe));
            seen += 1;
        }
        assert_eq!(seen, 4 * 2 * 3);
    }
}
