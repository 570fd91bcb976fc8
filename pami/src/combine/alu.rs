//! The arithmetic of the routers: element by element, on little-endian bytes, with the same bits on every machine.
//!
//! It is that of the software's reductions, [`operator`](crate::operator), as far as D-3 goes:
//! a vector that is combined partly by processors and partly by routers has the bits that its order of operands gives,
//! whoever did which part (SPEC G-9).

use crate::operator::{Bytes, Pairs, ReduceError, Reducer};
pub use crate::operator::{Element, Operator};

/// Operators by their number on the wire (SPEC D-3). Those on bits are for integers only.
const OPERATORS: [Operator; 6] =
    [Operator::Sum, Operator::Min, Operator::Max, Operator::BitAnd, Operator::BitOr, Operator::BitXor];

/// Types by their number on the wire (SPEC D-3).
const ELEMENTS: [Element; 6] =
    [Element::I32, Element::I64, Element::U32, Element::U64, Element::F32, Element::F64];

/// An operator on a type of element that the routers have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AluOperation {
    operator: u8,
    element: u8,
}

impl AluOperation {
    /// The sum of `i32`; what stands where nothing is combined.
    pub const NOTHING: Self = Self { operator: 0, element: 0 };

    /// `operator` on `element`, or `None` if the routers do not have it.
    pub const fn new(operator: Operator, element: Element) -> Option<Self> {
        let (mut o, mut e) = (0, 0);
        while o < OPERATORS.len() && OPERATORS[o] as u8 != operator as u8 {
            o += 1;
        }
        while e < ELEMENTS.len() && ELEMENTS[e] as u8 != element as u8 {
            e += 1;
        }
        Self::from_wire(o as u8, e as u8)
    }

    /// What has the same effect as a reduction by software, if the routers have it.
    pub fn of(reducer: &Reducer) -> Option<Self> {
        reducer.known().and_then(|(operator, element)| Self::new(operator, element))
    }

    /// The one with these numbers on the wire.
    pub const fn from_wire(operator: u8, element: u8) -> Option<Self> {
        if operator as usize >= OPERATORS.len() || element as usize >= ELEMENTS.len() {
            return None;
        }
        let bits =
            matches!(OPERATORS[operator as usize], Operator::BitAnd | Operator::BitOr | Operator::BitXor);
        let floats = matches!(ELEMENTS[element as usize], Element::F32 | Element::F64);
        if bits && floats { None } else { Some(Self { operator, element }) }
    }

    /// The reverse of [`from_wire`](Self::from_wire).
    pub const fn to_wire(self) -> (u8, u8) {
        (self.operator, self.element)
    }

    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..OPERATORS.len() as u8).flat_map(|operator| {
            (0..ELEMENTS.len() as u8).filter_map(move |it| Self::from_wire(operator, it))
        })
    }

    /// What is done.
    pub const fn operator(self) -> Operator {
        OPERATORS[self.operator as usize]
    }

    /// To what.
    pub const fn element(self) -> Element {
        ELEMENTS[self.element as usize]
    }

    /// Bytes of an element.
    pub const fn element_len(self) -> usize {
        self.element().bytes()
    }
}

/// The two parts differ in length, or are not whole elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlike;

/// Combines `right` into `left`: each element of `left` becomes `left (operator) right`.
///
/// # Errors
/// [`Unlike`]; `left` is then unchanged.
pub fn combine(operation: AluOperation, left: &mut [u8], right: &[u8]) -> Result<(), Unlike> {
    if left.len() != right.len() || !left.len().is_multiple_of(operation.element_len()) {
        return Err(Unlike);
    }
    Parts { left, right }.combine(operation.operator(), operation.element()).map_err(|_| Unlike)
}

/// Two parts as they lie in packets: aligned to nothing.
struct Parts<'a> {
    left: &'a mut [u8],
    right: &'a [u8],
}

impl Pairs for Parts<'_> {
    fn each<T: Bytes>(self, combine: impl Fn(T, T) -> T) -> Result<(), ReduceError> {
        let (left, right) =
            (self.left.chunks_exact_mut(size_of::<T>()), self.right.chunks_exact(size_of::<T>()));
        for (left, right) in left.zip(right) {
            // As long as the type, so both reads succeed.
            if let (Ok(a), Ok(b)) = (T::read_from_bytes(left), T::read_from_bytes(right)) {
                left.copy_from_slice(little(combine(little(a), little(b))).as_bytes());
            }
        }
        Ok(())
    }
}

/// A number from the wire's order of bytes to the machine's, or back.
fn little<T: Bytes>(mut value: T) -> T {
    if cfg!(target_endian = "big") {
        value.as_mut_bytes().reverse();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Order, Reducer};
    use proptest::prelude::*;
    use std::vec::Vec;
    use zerocopy::IntoBytes;

    fn operation(operator: Operator, element: Element) -> AluOperation {
        AluOperation::new(operator, element).unwrap()
    }

    fn combined(operation: AluOperation, left: &[u8], right: &[u8]) -> Vec<u8> {
        let mut result = left.to_vec();
        combine(operation, &mut result, right).unwrap();
        result
    }

    #[test]
    fn d3_there_are_six_operators_on_integers_and_three_on_floats() {
        let all: Vec<_> = AluOperation::all().collect();
        assert_eq!(all.len(), 6 * 4 + 3 * 2);
        for (at, it) in all.iter().enumerate() {
            assert_eq!(AluOperation::new(it.operator(), it.element()), Some(*it));
            let (operator, element) = it.to_wire();
            assert_eq!(AluOperation::from_wire(operator, element), Some(*it));
            assert!(!all[..at].contains(it));
        }
        for (operator, element) in [
            (Operator::Product, Element::I32),
            (Operator::MinLoc, Element::I32),
            (Operator::LogicalAnd, Element::U64),
            (Operator::Sum, Element::I16),
            (Operator::Sum, Element::ComplexF64),
            (Operator::BitOr, Element::F32),
        ] {
            assert_eq!(AluOperation::new(operator, element), None);
        }
    }

    #[test]
    fn g9_the_routers_and_the_processors_give_the_same_bits() {
        // Every float of some special, small and large ones; as integers they are as strange.
        let floats = [0.0, 1.0, 1e300, f64::MAX, f64::INFINITY, f64::NAN, 5e-324, 0.1, 3e38];
        let patterns = [0x7ff0_0000_0000_0001, 0xfff8_0000_7fc0_0001, 0x7f80_0001_ffc0_0000];
        let words: Vec<u64> =
            floats.iter().flat_map(|it| [it.to_bits(), (-it).to_bits()]).chain(patterns).collect();
        for operation in AluOperation::all() {
            let reducer = Reducer::new(operation.operator(), operation.element()).unwrap();
            assert_eq!(AluOperation::of(&reducer), Some(operation));
            for (&a, &b) in words.iter().flat_map(|a| words.iter().map(move |b| (a, b))) {
                let (mut software, from) = ([a.to_le()], [b.to_le()]);
                reducer.reduce(software.as_mut_bytes(), from.as_bytes(), Order::IntoFirst).unwrap();
                let routers = combined(operation, &a.to_le_bytes(), &b.to_le_bytes());
                assert_eq!(software.as_bytes(), routers, "{operation:?} of {a:#x} and {b:#x}");
            }
        }
    }

    proptest! {
        #[test]
        fn d3_packets_are_combined_wherever_they_lie(
            pairs in proptest::collection::vec(any::<(u64, u64)>(), 0..20), skip in 0usize..8
        ) {
            for operation in AluOperation::all() {
                let shifted = |words: Vec<u64>| -> Vec<u8> {
                    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                    std::vec![0xee; skip].into_iter().chain(bytes).collect()
                };
                let mut left = shifted(pairs.iter().map(|pair| pair.0).collect());
                let right = shifted(pairs.iter().map(|pair| pair.1).collect());
                combine(operation, &mut left[skip..], &right[skip..]).unwrap();
                let alone = pairs.iter().flat_map(|(a, b)| combined(operation, &a.to_le_bytes(), &b.to_le_bytes()));
                prop_assert!(left[skip..].iter().copied().eq(alone));
                prop_assert!(left[..skip].iter().all(|&byte| byte == 0xee));
            }
        }
    }

    #[test]
    fn d9_parts_that_are_unlike_are_refused_and_left_alone() {
        let operation = operation(Operator::Sum, Element::I64);
        let mut left = [1u8; 16];
        for right in [&[1u8; 8][..], &[1; 15], &[]] {
            assert_eq!(combine(operation, &mut left, right), Err(Unlike));
        }
        assert_eq!(combine(operation, &mut left[..12], &[1; 12]), Err(Unlike));
        assert_eq!(left, [1; 16]);
        assert_eq!(combine(operation, &mut [], &[]), Ok(()));
    }
}
