use super::*;
use proptest::prelude::*;
use std::fmt::Debug;
use std::vec::Vec;

const OPERATORS: [Operator; 12] = [
    Operator::Sum,
    Operator::Product,
    Operator::Min,
    Operator::Max,
    Operator::MinLoc,
    Operator::MaxLoc,
    Operator::LogicalAnd,
    Operator::LogicalOr,
    Operator::LogicalXor,
    Operator::BitAnd,
    Operator::BitOr,
    Operator::BitXor,
];

const ELEMENTS: [Element; 12] = [
    Element::I8,
    Element::I16,
    Element::I32,
    Element::I64,
    Element::U8,
    Element::U16,
    Element::U32,
    Element::U64,
    Element::F32,
    Element::F64,
    Element::ComplexF32,
    Element::ComplexF64,
];

/// `left operator right`, computed in both orders of the spans, which must agree.
fn combine<T: IntoBytes + FromBytes + Immutable + Copy + Debug>(
    operator: Operator,
    element: Element,
    left: T,
    right: T,
) -> T {
    let reducer = Reducer::new(operator, element).unwrap();
    assert_eq!(reducer.element_len(), size_of::<T>());
    let (mut into, mut other) = ([left], [right]);
    reducer.reduce(into.as_mut_bytes(), [right].as_bytes(), Order::IntoFirst).unwrap();
    reducer.reduce(other.as_mut_bytes(), [left].as_bytes(), Order::FromFirst).unwrap();
    assert_eq!(into.as_bytes(), other.as_bytes(), "{operator:?} of {left:?} and {right:?}");
    into[0]
}

macro_rules! integers_are_combined {
    ($($name:ident $int:ident $element:ident $located:ident;)*) => {
        proptest! {$(
            #[test]
            fn $name(a in any::<$int>(), b in any::<$int>(), small in 0..2 as $int) {
                let on = |operator, a, b| combine::<$int>(operator, Element::$element, a, b);
                prop_assert_eq!(on(Operator::Sum, a, b), a.wrapping_add(b));
                prop_assert_eq!(on(Operator::Product, a, b), a.wrapping_mul(b));
                prop_assert_eq!(on(Operator::Min, a, b), a.min(b));
                prop_assert_eq!(on(Operator::Max, a, b), a.max(b));
                prop_assert_eq!(on(Operator::BitAnd, a, b), a & b);
                prop_assert_eq!(on(Operator::BitOr, a, b), a | b);
                prop_assert_eq!(on(Operator::BitXor, a, b), a ^ b);
                prop_assert_eq!(on(Operator::LogicalAnd, a, small), (a != 0 && small != 0) as $int);
                prop_assert_eq!(on(Operator::LogicalOr, a, small), (a != 0 || small != 0) as $int);
                prop_assert_eq!(on(Operator::LogicalXor, a, small), ((a != 0) != (small != 0)) as $int);
                let (first, second) = ($located::new(a, 9), $located::new(b, 4));
                let on = |operator| combine(operator, Element::$element, first, second);
                prop_assert_eq!(on(Operator::MinLoc), if a < b { first } else { second });
                prop_assert_eq!(on(Operator::MaxLoc), if a > b { first } else { second });
            }
        )*}
    };
}

integers_are_combined! {
    g3_integers_i8_are_combined i8 I8 LocatedI8;
    g3_integers_i16_are_combined i16 I16 LocatedI16;
    g3_integers_i32_are_combined i32 I32 LocatedI32;
    g3_integers_i64_are_combined i64 I64 LocatedI64;
    g3_integers_u8_are_combined u8 U8 LocatedU8;
    g3_integers_u16_are_combined u16 U16 LocatedU16;
    g3_integers_u32_are_combined u32 U32 LocatedU32;
    g3_integers_u64_are_combined u64 U64 LocatedU64;
}

/// Floats of all kinds, with zeros, infinities and NaNs often.
fn floats() -> impl Strategy<Value = f64> {
    let special = std::vec![0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
    prop_oneof![any::<u64>().prop_map(f64::from_bits), proptest::sample::select(special)]
}

proptest! {
    #[test]
    fn g9_extremes_of_floats_are_the_same_bits_in_any_order(values in proptest::collection::vec(floats(), 1..6)) {
        let located = |values: &[f64]| -> Vec<_> {
            (0..).zip(values).map(|(index, &value)| LocatedF64::new(value, index)).collect()
        };
        for (plain, with_index) in [(Operator::Min, Operator::MinLoc), (Operator::Max, Operator::MaxLoc)] {
            let on = |a, b| combine(plain, Element::F64, a, b);
            let forward = values.iter().copied().reduce(on).unwrap();
            let backward = values.iter().rev().copied().reduce(on).unwrap();
            // Of one value nothing is computed, so only then may a NaN keep its payload.
            prop_assert_eq!(forward.to_bits(), backward.to_bits());
            let on = |a, b| combine(with_index, Element::F64, a, b);
            let found = located(&values).into_iter().reduce(on).unwrap();
            let backward = located(&values).into_iter().rev().reduce(on).unwrap();
            prop_assert_eq!(found.as_bytes(), backward.as_bytes());
            prop_assert_eq!(found.value.to_bits(), forward.to_bits());
            let first = values.iter().position(|value| {
                value.to_bits() == forward.to_bits() || value.is_nan() && forward.is_nan()
            });
            prop_assert_eq!(Some(found.index as usize), first);
        }
    }

    #[test]
    fn g3_floats_and_complex_numbers_are_combined(a in -1e9f64..1e9, b in -1e9f64..1e9, c in -1e9f64..1e9) {
        prop_assert_eq!(combine(Operator::Sum, Element::F64, a, b), a + b);
        prop_assert_eq!(combine(Operator::Product, Element::F64, a, b), a * b);
        let (x, y) = (a as f32, b as f32);
        prop_assert_eq!(combine(Operator::Sum, Element::F32, x, y), x + y);
        prop_assert_eq!(combine(Operator::Product, Element::F32, x, y), x * y);
        prop_assert_eq!(combine(Operator::Min, Element::F32, x, y), x.min(y));
        let at = |value, index| LocatedF32::new(value, index);
        prop_assert_eq!(combine(Operator::MaxLoc, Element::F32, at(x, 3), at(x, 2)), at(x, 2));
        prop_assert_eq!(combine(Operator::Sum, Element::ComplexF64, [a, b], [b, c]), [a + b, b + c]);
        let product = combine(Operator::Product, Element::ComplexF64, [a, b], [b, c]);
        prop_assert_eq!(product, [a * b - b * c, a * c + b * b]);
        let product = combine(Operator::Product, Element::ComplexF32, [x, y], [y, x]);
        prop_assert_eq!(product, [x * y - y * x, x * x + y * y]);
    }
}

#[test]
fn g9_zeros_and_nans_of_extremes_follow_the_rules() {
    let on = |operator, a: f64, b: f64| combine(operator, Element::F64, a, b).to_bits();
    assert_eq!(on(Operator::Min, 0.0, -0.0), (-0.0f64).to_bits());
    assert_eq!(on(Operator::Max, -0.0, 0.0), 0.0f64.to_bits());
    let strange = f64::from_bits(0xfff0_0000_0000_0001);
    assert_eq!(on(Operator::Min, 1.0, strange), 0x7ff8_0000_0000_0000);
    assert_eq!(on(Operator::Max, strange, 1.0), 0x7ff8_0000_0000_0000);
}

#[test]
fn g3_operators_that_make_no_sense_are_refused() {
    for operator in OPERATORS {
        for element in ELEMENTS {
            use Operator::{Max, MaxLoc, Min, MinLoc, Product, Sum};
            let supported = match element {
                Element::ComplexF32 | Element::ComplexF64 => matches!(operator, Sum | Product),
                Element::F32 | Element::F64 => {
                    matches!(operator, Sum | Product | Min | Max | MinLoc | MaxLoc)
                }
                _ => true,
            };
            let made = Reducer::new(operator, element);
            assert_eq!(made.is_ok(), supported, "{operator:?} {element:?}");
            assert!(supported || made.unwrap_err() == ReduceError::Unsupported(operator, element));
        }
    }
}

#[test]
fn g3_spans_that_do_not_fit_are_refused_and_left_alone() {
    let reducer = Reducer::new(Operator::Sum, Element::U32).unwrap();
    let mut into = [1u32, 2, 3];
    let from = [10u32, 20, 30];
    let order = Order::IntoFirst;
    let bytes = into.as_mut_bytes();
    assert_eq!(reducer.reduce(&mut bytes[..8], from.as_bytes(), order), Err(ReduceError::Length));
    assert_eq!(reducer.reduce(&mut bytes[..6], &from.as_bytes()[..6], order), Err(ReduceError::Length));
    assert_eq!(reducer.reduce(&mut bytes[1..9], &from.as_bytes()[..8], order), Err(ReduceError::Alignment));
    assert_eq!(reducer.reduce(&mut bytes[..8], &from.as_bytes()[2..10], order), Err(ReduceError::Alignment));
    assert_eq!(into, [1, 2, 3]);
}

#[test]
fn g3_a_users_operator_meets_its_operands_in_order() {
    fn keep_left(into: &mut [u8], from: &[u8], order: Order) {
        if order == Order::FromFirst {
            into.copy_from_slice(from);
        }
    }
    let operator = UserOperator { combine: &keep_left, element_len: 3, commutes: false };
    let reducer = Reducer::user(operator).unwrap();
    let (mut into, from) = ([1, 1, 1], [2, 2, 2]);
    reducer.reduce(&mut into, &from, Order::IntoFirst).unwrap();
    assert_eq!((into, reducer.commutes()), ([1; 3], false));
    reducer.reduce(&mut into, &from, Order::FromFirst).unwrap();
    assert_eq!(into, [2; 3]);
    let empty = UserOperator { element_len: 0, ..operator };
    assert_eq!(Reducer::user(empty).unwrap_err(), ReduceError::ElementLen);
}
