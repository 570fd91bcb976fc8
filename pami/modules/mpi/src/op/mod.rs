//! Operators of reductions (MPI 6.9): predefined ones, and those that an application makes.
//!
//! The arithmetic is [`pami::operator`]'s, so the same operands in the same order give the same bits
//! everywhere.

mod local;
mod user;

pub use local::reduce_local;
pub(crate) use user::{Combiner, User, UserPlace};

use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use pami::collective::{Element, Operator, Order, Reducer};

/// Combines `from` into `into`: elements of the datatype without gaps, of one number on both sides, with the operands in
/// this order. An element of a derived datatype has its packed bytes. Both begin at a multiple of 16 bytes in memory.
pub type UserFunction = fn(into: &mut [u8], from: &[u8], order: Order, datatype: &Datatype);

/// Most bytes of an element of an application's own operator.
pub const USER_ELEMENT_LIMIT: usize = 1024;

/// An operator.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// `MPI_MAX`: of integers and floats.
    Max,
    /// `MPI_MIN`: of integers and floats.
    Min,
    /// `MPI_SUM`: of integers, floats and complex numbers.
    Sum,
    /// `MPI_PROD`: of integers, floats and complex numbers.
    Prod,
    /// `MPI_LAND`: of integers and truth values.
    Land,
    /// `MPI_BAND`: of integers and bytes.
    Band,
    /// `MPI_LOR`: of integers and truth values.
    Lor,
    /// `MPI_BOR`: of integers and bytes.
    Bor,
    /// `MPI_LXOR`: of integers and truth values.
    Lxor,
    /// `MPI_BXOR`: of integers and bytes.
    Bxor,
    /// `MPI_MAXLOC`: of pairs of a value and an index; of equal values the lower index.
    MaxLoc,
    /// `MPI_MINLOC`: of pairs of a value and an index; of equal values the lower index.
    MinLoc,
    /// `MPI_REPLACE`: only of one-sided accesses.
    Replace,
    /// `MPI_NO_OP`: only of one-sided accesses.
    NoOp,
    /// One of the application's, which must be associative; see [`Op::create`].
    User {
        /// What it does.
        function: UserFunction,
        /// Whether operands may change places. If not they are combined in the order of ranks.
        commutes: bool,
    },
}

/// What a basic type is to arithmetic.
enum TypeClass {
    Integer(Element),
    Float(Element),
    Complex(Element),
    Truth,
    Bits,
    Located(Element),
    /// Nothing to compute with.
    Opaque,
}

fn class(basic: Basic) -> TypeClass {
    use Element as E;
    match basic {
        Basic::I8 => TypeClass::Integer(E::I8),
        Basic::I16 => TypeClass::Integer(E::I16),
        Basic::I32 => TypeClass::Integer(E::I32),
        Basic::I64 => TypeClass::Integer(E::I64),
        Basic::U8 => TypeClass::Integer(E::U8),
        Basic::U16 => TypeClass::Integer(E::U16),
        Basic::U32 => TypeClass::Integer(E::U32),
        Basic::U64 => TypeClass::Integer(E::U64),
        Basic::F32 => TypeClass::Float(E::F32),
        Basic::F64 => TypeClass::Float(E::F64),
        Basic::ComplexF32 => TypeClass::Complex(E::ComplexF32),
        Basic::ComplexF64 => TypeClass::Complex(E::ComplexF64),
        Basic::Bool => TypeClass::Truth,
        Basic::Byte => TypeClass::Bits,
        Basic::Char | Basic::Packed => TypeClass::Opaque,
        Basic::LocatedI8 => TypeClass::Located(E::I8),
        Basic::LocatedI16 => TypeClass::Located(E::I16),
        Basic::LocatedI32 => TypeClass::Located(E::I32),
        Basic::LocatedI64 => TypeClass::Located(E::I64),
        Basic::LocatedU8 => TypeClass::Located(E::U8),
        Basic::LocatedU16 => TypeClass::Located(E::U16),
        Basic::LocatedU32 => TypeClass::Located(E::U32),
        Basic::LocatedU64 => TypeClass::Located(E::U64),
        Basic::LocatedF32 => TypeClass::Located(E::F32),
        Basic::LocatedF64 => TypeClass::Located(E::F64),
    }
}

impl Op {
    /// All that are predefined.
    pub const PREDEFINED: [Self; 14] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Prod,
        Self::Land,
        Self::Band,
        Self::Lor,
        Self::Bor,
        Self::Lxor,
        Self::Bxor,
        Self::MaxLoc,
        Self::MinLoc,
        Self::Replace,
        Self::NoOp,
    ];

    /// An operator of the application's (`MPI_Op_create`). It is plain data: there is nothing to free.
    pub const fn create(function: UserFunction, commutes: bool) -> Self {
        Self::User { function, commutes }
    }

    /// Whether operands may change places (`MPI_Op_commutative`).
    pub fn commutes(&self) -> bool {
        match self {
            Self::User { commutes, .. } => *commutes,
            Self::Replace => false,
            _ => true,
        }
    }

    /// The layer below's operator, for types that have it.
    fn operator(&self) -> Option<Operator> {
        Some(match self {
            Self::Max => Operator::Max,
            Self::Min => Operator::Min,
            Self::Sum => Operator::Sum,
            Self::Prod => Operator::Product,
            Self::Land => Operator::LogicalAnd,
            Self::Band => Operator::BitAnd,
            Self::Lor => Operator::LogicalOr,
            Self::Bor => Operator::BitOr,
            Self::Lxor => Operator::LogicalXor,
            Self::Bxor => Operator::BitXor,
            Self::MaxLoc => Operator::MaxLoc,
            Self::MinLoc => Operator::MinLoc,
            Self::Replace | Self::NoOp | Self::User { .. } => return None,
        })
    }

    /// What combines elements of a datatype. A predefined operator takes basic types; an
    /// application's takes all.
    ///
    /// # Errors
    /// [`Error::Op`] if the operator makes no sense on that type, [`Error::Type`] if it has no data,
    /// [`Error::Unsupported`] if an element of an application's operator is over [`USER_ELEMENT_LIMIT`] bytes.
    pub(crate) fn combiner(&self, datatype: &Datatype) -> Result<Combiner> {
        let Self::User { function, commutes } = *self else {
            return self.reducer(datatype).map(Combiner::Known);
        };
        match datatype.size() {
            0 => Err(Error::Type),
            1..=USER_ELEMENT_LIMIT => {
                Ok(Combiner::User(User { function, commutes, datatype: datatype.clone() }))
            }
            _ => Err(Error::Unsupported("an element of over 1024 bytes of an application's operator")),
        }
    }

    /// What combines elements by a predefined operator.
    ///
    /// # Errors
    /// [`Error::Op`].
    pub(crate) fn reducer(&self, datatype: &Datatype) -> Result<Reducer> {
        let operator = self.operator().ok_or(Error::Op)?;
        let class = class(datatype.as_basic().ok_or(Error::Op)?);
        let bitwise = matches!(self, Self::Band | Self::Bor | Self::Bxor);
        let logical = matches!(self, Self::Land | Self::Lor | Self::Lxor);
        let element = match class {
            TypeClass::Located(element) if operator.locates() => element,
            _ if operator.locates() => return Err(Error::Op),
            TypeClass::Integer(element) => element,
            TypeClass::Float(element) | TypeClass::Complex(element) if !bitwise && !logical => element,
            TypeClass::Truth if logical => Element::U8,
            TypeClass::Bits if bitwise => Element::U8,
            _ => return Err(Error::Op),
        };
        // What is left is the order of complex numbers.
        Reducer::new(operator, element).map_err(|_| Error::Op)
    }
}

#[cfg(test)]
mod tests;
