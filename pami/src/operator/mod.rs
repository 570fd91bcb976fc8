//! What reductions combine with, and on what (SPEC G-3, G-9).
//!
//! A [`Reducer`] is an operator on a type, found possible once and applied to spans of bytes many times. Spans hold
//! elements in the node's byte order, aligned as the type is.
//!
//! The same operands in the same order give the same bits, on every node:
//! - Integers: sum and product wrap around.
//! - Floats: each operation rounds to nearest even, nothing is fused. A result that is no number is the positive NaN
//!   with only the quiet bit set, whatever the processor makes of it. Minimum and maximum take -0 for less than +0; if
//!   an operand is a NaN, so is the result. So they commute and associate to the bit. Sum and product commute to the
//!   bit, but do not associate.
//! - Complex product: `(a c - b d) + (a d + b c) i`, no case for infinities; parts that are no numbers as above.
//! - Minloc and maxloc: of equal values the lower index; a NaN beats every number, and of NaNs the lower index.
//! - Logical operators take integers, 0 as false, and give 0 or 1.
//!
//! The [tree network's ALU](crate::combine::alu) is the same arithmetic on the wire's bytes.

mod located;
mod number;

use core::fmt;
pub use located::{
    LocatedF32, LocatedF64, LocatedI8, LocatedI16, LocatedI32, LocatedI64, LocatedU8, LocatedU16, LocatedU32,
    LocatedU64,
};
use number::{ComplexF32, ComplexF64, Integer, Number, Ordered};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What is to be done with two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// Sum.
    Sum,
    /// Product.
    Product,
    /// The lesser. Not for complex numbers.
    Min,
    /// The greater. Not for complex numbers.
    Max,
    /// The lesser, with its index: elements are pairs such as [`LocatedF64`]. Not for complex numbers.
    MinLoc,
    /// The greater, with its index: elements are pairs such as [`LocatedF64`]. Not for complex numbers.
    MaxLoc,
    /// Both are true. Only for integers.
    LogicalAnd,
    /// One is true, or both. Only for integers.
    LogicalOr,
    /// One is true, not both. Only for integers.
    LogicalXor,
    /// And of each bit. Only for integers.
    BitAnd,
    /// Or of each bit. Only for integers.
    BitOr,
    /// Exclusive or of each bit. Only for integers.
    BitXor,
}

/// A type of number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as the types that they stand for")]
pub enum Element {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// Real part, then imaginary part.
    ComplexF32,
    /// Real part, then imaginary part.
    ComplexF64,
}

/// Which operand of a reduction stands on the left; it matters to operators that do not commute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// `into = into op from`.
    IntoFirst,
    /// `into = from op into`.
    FromFirst,
}

impl Order {
    /// The order that keeps the operands of lower ranks on the left, if `from` comes from rank `from` and `into`
    /// holds what rank `into` contributed.
    pub fn by_rank(into: u32, from: u32) -> Self {
        if from < into { Self::FromFirst } else { Self::IntoFirst }
    }
}

/// What combines elements by an application's operator: a function, or what knows more than one.
pub trait Combine: Sync {
    /// Combines `from` into `into`, spans of whole elements and of one length, with operands in this order. It is called in
    /// advances only, never in the call of a collective.
    fn combine(&self, into: &mut [u8], from: &[u8], order: Order);
}

impl<F: Fn(&mut [u8], &[u8], Order) + Sync> Combine for F {
    fn combine(&self, into: &mut [u8], from: &[u8], order: Order) {
        self(into, from, order);
    }
}

/// An operator that the application defines. It must be associative.
#[derive(Clone, Copy)]
pub struct UserOperator {
    /// What combines.
    pub combine: &'static dyn Combine,
    /// Bytes of an element, at least 1.
    pub element_len: usize,
    /// Whether operands may change places.
    pub commutes: bool,
}

impl fmt::Debug for UserOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element_len, commutes, .. } = self;
        write!(f, "UserOperator({element_len} B, {})", if *commutes { "commutes" } else { "in order" })
    }
}

/// Why a reduction is refused. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceError {
    /// The operator makes no sense on that type.
    Unsupported(Operator, Element),
    /// A user's operator has elements of no bytes.
    ElementLen,
    /// The spans are of different lengths, or of no whole number of elements.
    Length,
    /// A span is not aligned as the type is.
    Alignment,
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(operator, element) => write!(f, "there is no {operator:?} of {element:?}"),
            Self::ElementLen => f.write_str("an element must have at least one byte"),
            Self::Length => f.write_str("both spans must hold the same whole number of elements"),
            Self::Alignment => f.write_str("both spans must be aligned to their type"),
        }
    }
}

impl core::error::Error for ReduceError {}

#[derive(Clone, Copy, Debug)]
enum Combiner {
    Known(Operator, Element),
    User(UserOperator),
}

/// An operator on elements of one type.
#[derive(Clone, Copy, Debug)]
pub struct Reducer(Combiner);

impl Reducer {
    /// An operator on a type.
    ///
    /// # Errors
    /// [`ReduceError::Unsupported`].
    pub fn new(operator: Operator, element: Element) -> Result<Self, ReduceError> {
        let reducer = Self(Combiner::Known(operator, element));
        // Without elements, all that is left to go wrong is the pair of operator and type.
        let (mut into, from) = ([0u128; 0], [0u128; 0]);
        reducer.reduce(into.as_mut_bytes(), from.as_bytes(), Order::IntoFirst).map(|()| reducer)
    }

    /// A user's operator.
    ///
    /// # Errors
    /// [`ReduceError::ElementLen`].
    pub fn user(operator: UserOperator) -> Result<Self, ReduceError> {
        if operator.element_len == 0 {
            Err(ReduceError::ElementLen)
        } else {
            Ok(Self(Combiner::User(operator)))
        }
    }

    /// Bytes of an element.
    pub fn element_len(&self) -> usize {
        match self.0 {
            Combiner::User(operator) => operator.element_len,
            Combiner::Known(operator, element) => {
                // The index of a short value is as long as that of a word.
                if operator.locates() { 2 * element.bytes().max(4) } else { element.bytes() }
            }
        }
    }

    /// Whether an application's function combines.
    pub(crate) fn is_user(&self) -> bool {
        matches!(self.0, Combiner::User(_))
    }

    /// A number of the operator and the type; users' operators all have the same.
    pub(crate) fn code(&self) -> u32 {
        match self.0 {
            Combiner::Known(operator, element) => 1 + (operator as u32) * 16 + element as u32,
            Combiner::User(_) => u32::MAX,
        }
    }

    /// Whether operands may change places.
    pub fn commutes(&self) -> bool {
        match self.0 {
            Combiner::User(operator) => operator.commutes,
            Combiner::Known(..) => true,
        }
    }

    /// Combines each element of `from` with the one of `into` in the same place, in this order, into the latter.
    /// Any piece of a vector may be combined at a time: elements do not depend on each other.
    ///
    /// # Errors
    /// [`ReduceError::Length`], [`ReduceError::Alignment`]; `into` is then as before.
    pub fn reduce(&self, into: &mut [u8], from: &[u8], order: Order) -> Result<(), ReduceError> {
        if into.len() != from.len() || !into.len().is_multiple_of(self.element_len()) {
            return Err(ReduceError::Length);
        }
        let spans = Spans { into, from, order };
        match self.0 {
            Combiner::User(operator) => {
                operator.combine.combine(spans.into, spans.from, order);
                Ok(())
            }
            Combiner::Known(operator, element) if operator.locates() => {
                located::reduce(operator, element, spans)
            }
            Combiner::Known(operator, element) => spans.combine(operator, element),
        }
    }

    /// Operator and type, if it is no application's.
    pub fn known(&self) -> Option<(Operator, Element)> {
        match self.0 {
            Combiner::Known(operator, element) => Some((operator, element)),
            Combiner::User(_) => None,
        }
    }
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::ComplexF32 => 8,
            Self::ComplexF64 => 16,
        }
    }
}

impl Operator {
    /// Whether elements carry an index.
    pub fn locates(self) -> bool {
        matches!(self, Self::MinLoc | Self::MaxLoc)
    }
}

/// What elements can be read from bytes and written to them.
pub(crate) trait Bytes: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy> Bytes for T {}

/// Pairs of elements, of which each first one becomes the combination.
pub(crate) trait Pairs: Sized {
    /// Combines each pair.
    fn each<T: Bytes>(self, combine: impl Fn(T, T) -> T) -> Result<(), ReduceError>;

    /// Combines each pair by an operator that does not locate.
    fn combine(self, operator: Operator, element: Element) -> Result<(), ReduceError> {
        match element {
            Element::I8 => integers::<i8>(self, operator),
            Element::I16 => integers::<i16>(self, operator),
            Element::I32 => integers::<i32>(self, operator),
            Element::I64 => integers::<i64>(self, operator),
            Element::U8 => integers::<u8>(self, operator),
            Element::U16 => integers::<u16>(self, operator),
            Element::U32 => integers::<u32>(self, operator),
            Element::U64 => integers::<u64>(self, operator),
            Element::F32 => ordered::<f32>(self, operator, element),
            Element::F64 => ordered::<f64>(self, operator, element),
            Element::ComplexF32 => numbers::<ComplexF32>(self, operator, element),
            Element::ComplexF64 => numbers::<ComplexF64>(self, operator, element),
        }
    }
}

fn numbers<T: Number>(pairs: impl Pairs, operator: Operator, element: Element) -> Result<(), ReduceError> {
    match operator {
        Operator::Sum => pairs.each(T::sum),
        Operator::Product => pairs.each(T::product),
        _ => Err(ReduceError::Unsupported(operator, element)),
    }
}

fn ordered<T: Number + Ordered>(
    pairs: impl Pairs,
    operator: Operator,
    element: Element,
) -> Result<(), ReduceError> {
    match operator {
        Operator::Min => pairs.each(number::least::<T>),
        Operator::Max => pairs.each(number::greatest::<T>),
        _ => numbers::<T>(pairs, operator, element),
    }
}

fn integers<T: Integer>(pairs: impl Pairs, operator: Operator) -> Result<(), ReduceError> {
    let truth = |value: T| value != T::FALSE;
    match operator {
        Operator::LogicalAnd => pairs.each(|a: T, b| T::from_bool(truth(a) && truth(b))),
        Operator::LogicalOr => pairs.each(|a: T, b| T::from_bool(truth(a) || truth(b))),
        Operator::LogicalXor => pairs.each(|a: T, b| T::from_bool(truth(a) != truth(b))),
        Operator::BitAnd => pairs.each(|a: T, b| a & b),
        Operator::BitOr => pairs.each(|a: T, b| a | b),
        Operator::BitXor => pairs.each(|a: T, b| a ^ b),
        _ => ordered::<T>(pairs, operator, T::ELEMENT),
    }
}

/// The two spans of a reduction.
struct Spans<'a> {
    into: &'a mut [u8],
    from: &'a [u8],
    order: Order,
}

impl Pairs for Spans<'_> {
    fn each<T: Bytes>(self, combine: impl Fn(T, T) -> T) -> Result<(), ReduceError> {
        let into = <[T]>::mut_from_bytes(self.into).map_err(|_| ReduceError::Alignment)?;
        let from = <[T]>::ref_from_bytes(self.from).map_err(|_| ReduceError::Alignment)?;
        let pairs = into.iter_mut().zip(from);
        match self.order {
            Order::IntoFirst => pairs.for_each(|(into, from)| *into = combine(*into, *from)),
            Order::FromFirst => pairs.for_each(|(into, from)| *into = combine(*from, *into)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
