//! Functions that an application registers to be sub-operations (SPEC L-1, M-1).

use super::recipe::{Combination, OWN_FUNCTIONS, Recipe, RecipeElement, SubOperations};

/// Changes each of a run of elements: of the message, by those of the operand, which are as many, or none if it is registered as
/// one that takes none. It is the same at both ends, so it makes no difference at which it runs.
#[derive(Clone, Copy, Debug)]
pub enum ElementFunction {
    /// For [`RecipeElement::F32`].
    F32(fn(&mut [f32], &[f32])),
    /// For [`RecipeElement::F64`].
    F64(fn(&mut [f64], &[f64])),
    /// For [`RecipeElement::I32`].
    I32(fn(&mut [i32], &[i32])),
    /// For [`RecipeElement::I64`].
    I64(fn(&mut [i64], &[i64])),
}

impl ElementFunction {
    /// The type of elements that it is for.
    pub fn element(self) -> RecipeElement {
        match self {
            Self::F32(_) => RecipeElement::F32,
            Self::F64(_) => RecipeElement::F64,
            Self::I32(_) => RecipeElement::I32,
            Self::I64(_) => RecipeElement::I64,
        }
    }
}

/// One that is registered.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) function: ElementFunction,
    /// Whether it is with an operand.
    pub(crate) operand: bool,
    /// What it costs for an element: so many times as much as to add one to the target's memory.
    pub(crate) additions: u16,
}

/// Those of a client, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Functions(pub(crate) [Option<Own>; OWN_FUNCTIONS]);

impl Functions {
    pub(crate) const NONE: Self = Self([None; OWN_FUNCTIONS]);

    pub(crate) fn get(&self, number: u8) -> Option<Own> {
        *self.0.get(usize::from(number))?
    }

    /// What a recipe combines by, if it is a function that is there, for its elements, and with an operand as the recipe has one;
    /// its number if it is not.
    pub(crate) fn of(&self, recipe: &Recipe) -> Result<Option<Own>, u8> {
        let Some(number) = recipe.combine().and_then(Combination::own) else { return Ok(None) };
        let fits =
            |own: &Own| own.function.element() == recipe.element() && own.operand == recipe.has_operand();
        self.get(number).filter(fits).map(Some).ok_or(number)
    }

    /// Their bits.
    pub(crate) fn bits(&self) -> SubOperations {
        let there = (0..OWN_FUNCTIONS as u8).filter(|&number| self.get(number).is_some());
        there.map(SubOperations::own).fold(SubOperations::empty(), SubOperations::union)
    }
}
