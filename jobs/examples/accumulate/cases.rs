//! The recipes, and what each of them is: element by element.

use kernel::{Combination, Factor, Foreign, Recipe, RecipeElement, Shared};

/// A recipe with its name.
pub struct Case {
    pub name: &'static str,
    element: RecipeElement,
    factor: Option<Factor>,
    foreign: Foreign,
    combine: Option<Combination>,
    narrow: bool,
}

const SUM_F64: Case = Case {
    name: "sum-f64",
    element: RecipeElement::F64,
    factor: None,
    foreign: Foreign::Neither,
    combine: None,
    narrow: false,
};

const fn accumulate(name: &'static str, element: RecipeElement, factor: Factor) -> Case {
    Case { name, element, factor: Some(factor), ..SUM_F64 }
}

/// All of them.
pub const CASES: [Case; 13] = [
    accumulate("accumulate-f64", RecipeElement::F64, Factor::F64(1.1)),
    accumulate("accumulate-f32", RecipeElement::F32, Factor::F32(1.1)),
    accumulate("accumulate-i64", RecipeElement::I64, Factor::I64(-3)),
    accumulate("accumulate-i32", RecipeElement::I32, Factor::I32(-3)),
    SUM_F64,
    Case { name: "swap-f64", foreign: Foreign::Message, ..SUM_F64 },
    Case { name: "swap-to-foreign-f64", foreign: Foreign::Target, ..SUM_F64 },
    Case { name: "narrow-f64", narrow: true, ..SUM_F64 },
    Case { name: "combine-f64", combine: Some(Combination::Sum), ..SUM_F64 },
    Case {
        name: "combine-swap-to-foreign-f64",
        combine: Some(Combination::Sum),
        foreign: Foreign::Target,
        ..SUM_F64
    },
    Case { name: "combine-narrow-f64", combine: Some(Combination::Sum), narrow: true, ..SUM_F64 },
    Case { name: "log-sum-exp-f64", combine: Some(Combination::Own(LOG_SUM_EXP)), ..SUM_F64 },
    Case {
        name: "log-sum-exp-narrow-f64",
        combine: Some(Combination::Own(LOG_SUM_EXP)),
        narrow: true,
        ..SUM_F64
    },
];

/// The number of the one function that the job registers.
pub const LOG_SUM_EXP: u8 = 0;
/// What it costs for an element, in additions.
pub const ADDITIONS: u16 = 10;

/// The logarithm of the sum of two numbers that are given by their logarithms.
pub fn log_sum_exp(elements: &mut [f64], operand: &[f64]) {
    elements.iter_mut().zip(operand).for_each(|(element, other)| *element = log_sum(*element, *other));
}

fn log_sum(a: f64, b: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    more + libm::log1p(libm::exp(less - more))
}

/// What elements are of: the region before, the message, its operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Region,
    Message,
    Operand,
}

impl Case {
    pub fn recipe(&self) -> Recipe {
        let recipe =
            self.factor.map_or(Recipe::sum(self.element), Recipe::accumulate).converted(self.foreign);
        let recipe = self.combine.map_or(recipe, |combine| recipe.combined(combine));
        if self.narrow { recipe.narrowed() } else { recipe }
    }

    pub fn bytes(&self, count: usize) -> usize {
        count * self.element.bytes()
    }

    /// Element `at`.
    fn before(&self, at: usize, of: Of) -> [u8; 8] {
        let seed = match of {
            Of::Region => 0xd1b5_4a32_d192_ed03,
            Of::Message => 0x9e37_79b9_7f4a_7c15,
            Of::Operand => 0xbf58_476d_1ce4_e5b9,
        };
        let number = (at as u64 + 1).wrapping_mul(seed);
        // Of any size and sign, and none of them infinite.
        let real = (number as i32) as f64 * f64::from(1 << (number >> 40 & 15) as u32);
        let mut bytes = [0; 8];
        match self.element {
            RecipeElement::F32 => bytes[..4].copy_from_slice(&(real as f32).to_ne_bytes()),
            RecipeElement::F64 => bytes = real.to_ne_bytes(),
            RecipeElement::I32 | RecipeElement::I64 => bytes = number.to_ne_bytes(),
        }
        if self.foreign == (if of == Of::Region { Foreign::Target } else { Foreign::Message }) {
            bytes[..self.element.bytes()].reverse();
        }
        bytes
    }

    /// Writes the elements.
    pub fn write(&self, memory: &Shared, count: usize, of: Of) {
        let size = self.element.bytes();
        for at in 0..count {
            let _ = memory.write(at * size, &self.before(at, of)[..size]);
        }
    }

    /// Element `at` of the region afterwards: one sub-operation after the other.
    fn after(&self, at: usize) -> [u8; 8] {
        let size = self.element.bytes();
        let [mut old, mut new, mut other] =
            [Of::Region, Of::Message, Of::Operand].map(|of| self.before(at, of));
        if self.foreign == Foreign::Message {
            new[..size].reverse();
            other[..size].reverse();
        }
        if self.foreign == Foreign::Target {
            old[..size].reverse();
        }
        let four = |bytes: [u8; 8]| u64::from_le_bytes(bytes) as u32;
        let eight = u64::from_le_bytes;
        let sum = match (self.element, self.factor) {
            (RecipeElement::F64, factor) => {
                let [old, mut new, other] = [old, new, other].map(|bytes| f64::from_bits(eight(bytes)));
                match self.combine {
                    None => {}
                    Some(Combination::Own(_)) => new = log_sum(new, other),
                    Some(_) => new += other,
                }
                if let Some(Factor::F64(factor)) = factor {
                    new *= factor;
                }
                if self.narrow {
                    new = f64::from(new as f32);
                }
                (old + new).to_bits()
            }
            (RecipeElement::F32, Some(Factor::F32(factor))) => {
                (f32::from_bits(four(old)) + f32::from_bits(four(new)) * factor).to_bits().into()
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
