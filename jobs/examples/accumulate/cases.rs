//! The recipes, and what each of them is: element by element.

use kernel::{Factor, Foreign, Recipe, RecipeElement, Shared};

/// A recipe with its name.
pub struct Case {
    pub name: &'static str,
    element: RecipeElement,
    factor: Option<Factor>,
    foreign: Foreign,
}

const NEITHER: Foreign = Foreign::Neither;

/// All of them.
pub const CASES: [Case; 7] = [
    Case {
        name: "accumulate-f64",
        element: RecipeElement::F64,
        factor: Some(Factor::F64(1.1)),
        foreign: NEITHER,
    },
    Case {
        name: "accumulate-f32",
        element: RecipeElement::F32,
        factor: Some(Factor::F32(1.1)),
        foreign: NEITHER,
    },
    Case {
        name: "accumulate-i64",
        element: RecipeElement::I64,
        factor: Some(Factor::I64(-3)),
        foreign: NEITHER,
    },
    Case {
        name: "accumulate-i32",
        element: RecipeElement::I32,
        factor: Some(Factor::I32(-3)),
        foreign: NEITHER,
    },
    Case { name: "sum-f64", element: RecipeElement::F64, factor: None, foreign: NEITHER },
    Case { name: "combine-swap-f64", element: RecipeElement::F64, factor: None, foreign: Foreign::Message },
    Case {
        name: "combine-swap-to-foreign-f64",
        element: RecipeElement::F64,
        factor: None,
        foreign: Foreign::Target,
    },
];

impl Case {
    pub fn recipe(&self) -> Recipe {
        self.factor.map_or(Recipe::sum(self.element), Recipe::accumulate).converted(self.foreign)
    }

    pub fn bytes(&self, count: usize) -> usize {
        count * self.element.bytes()
    }

    /// Element `at` of the message if `new`, or of the region before it.
    fn before(&self, at: usize, new: bool) -> [u8; 8] {
        let number =
            (at as u64 + 1).wrapping_mul(if new { 0x9e37_79b9_7f4a_7c15 } else { 0xd1b5_4a32_d192_ed03 });
        // Of any size and sign, and none of them infinite.
        let real = (number as i32) as f64 * f64::from(1 << (number >> 40 & 15) as u32);
        let mut bytes = [0; 8];
        match self.element {
            RecipeElement::F32 => bytes[..4].copy_from_slice(&(real as f32).to_ne_bytes()),
            RecipeElement::F64 => bytes = real.to_ne_bytes(),
            RecipeElement::I32 | RecipeElement::I64 => bytes = number.to_ne_bytes(),
        }
        if self.foreign == (if new { Foreign::Message } else { Foreign::Target }) {
            bytes[..self.element.bytes()].reverse();
        }
        bytes
    }

    /// Writes the elements of the message, or of the region before it.
    pub fn write(&self, memory: &Shared, count: usize, new: bool) {
        let size = self.element.bytes();
        for at in 0..count {
            let _ = memory.write(at * size, &self.before(at, new)[..size]);
        }
    }

    /// Element `at` of the region afterwards: one sub-operation after the other.
    fn after(&self, at: usize) -> [u8; 8] {
        let size = self.element.bytes();
        let (mut old, mut new) = (self.before(at, false), self.before(at, true));
        if self.foreign == Foreign::Message {
            new[..size].reverse();
        }
        if self.foreign == Foreign::Target {
            old[..size].reverse();
        }
        let four = |bytes: [u8; 8]| u64::from_le_bytes(bytes) as u32;
        let eight = u64::from_le_bytes;
        let sum = match (self.element, self.factor) {
            (RecipeElement::F64, Some(Factor::F64(factor))) => {
                (f64::from_bits(eight(old)) + f64::from_bits(eight(new)) * factor).to_bits()
            }
            (RecipeElement::F64, _) => (f64::from_bits(eight(old)) + f64::from_bits(eight(new))).to_bits(),
            (RecipeElement::F32, Some(Factor::F32(factor))) => {
                (f32::from_bits(four(old)) + f32::from_bits(four(new)) * factor).to_bits().into()
            }
            (RecipeElement::F32, _) => {
                (f32::from_bits(four(old)) + f32::from_bits(four(new))).to_bits().into()
            }
            (RecipeElement::I64, Some(Factor::I64(factor))) => {
                eight(old).wrapping_add(eight(new).wrapping_mul(factor.cast_unsigned()))
            }
            (RecipeElement::I32, Some(Factor::I32(factor))) => {
                four(old).wrapping_add(four(new).wrapping_mul(factor.cast_unsigned())).into()
            }
            _ => eight(old).wrapping_add(eight(new)),
        };
        let mut sum = sum.to_le_bytes();
        if self.foreign == Foreign::Target {
            sum[..size].reverse();
        }
        sum
    }

    /// Elements of the region that are not what they should be.
    pub fn wrong(&self, memory: &Shared, count: usize) -> usize {
        let size = self.element.bytes();
        let is_wrong = |&at: &usize| {
            let mut bytes = [0; 8];
            memory.read(at * size, &mut bytes[..size]).is_err() || bytes[..size] != self.after(at)[..size]
        };
        (0..count).filter(is_wrong).count()
    }
}
