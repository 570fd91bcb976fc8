use super::*;
use crate::Data;
use pami::Shared;
use std::vec;
use std::vec::Vec;

fn memory() -> Shared {
    pami::Buffer::new(vec![0u8; 1 << 14].leak()).unwrap().share()
}

fn allowed(op: Op) -> Vec<Basic> {
    Basic::ALL.iter().copied().filter(|&basic| op.reducer(&basic.into()).is_ok()).collect()
}

#[test]
fn g3_operators_take_the_types_that_the_standard_lists() {
    use Basic as B;
    let integers = [B::I8, B::I16, B::I32, B::I64, B::U8, B::U16, B::U32, B::U64];
    let floats = [B::F32, B::F64];
    let complex = [B::ComplexF32, B::ComplexF64];
    let pairs: Vec<_> = Basic::ALL.iter().copied().filter(|&it| it as u8 >= B::LocatedI8 as u8).collect();
    for op in [Op::Max, Op::Min] {
        assert_eq!(allowed(op), [&integers[..], &floats].concat(), "{op:?}");
    }
    for op in [Op::Sum, Op::Prod] {
        assert_eq!(allowed(op), [&integers[..], &floats, &complex].concat(), "{op:?}");
    }
    for op in [Op::Land, Op::Lor, Op::Lxor] {
        assert_eq!(allowed(op), [&integers[..], &[B::Bool]].concat(), "{op:?}");
    }
    for op in [Op::Band, Op::Bor, Op::Bxor] {
        assert_eq!(allowed(op), [&integers[..], &[B::Byte]].concat(), "{op:?}");
    }
    for op in [Op::MaxLoc, Op::MinLoc] {
        assert_eq!(allowed(op), pairs, "{op:?}");
    }
    for op in [Op::Replace, Op::NoOp] {
        assert_eq!(allowed(op), [], "{op:?}");
    }
    assert!(Op::PREDEFINED.iter().all(|op| op.commutes() || matches!(op, Op::Replace)));
}

#[test]
fn g3_a_local_reduction_puts_the_input_first() {
    fn second(into: &mut [u8], from: &[u8], order: Order, _: &Datatype) {
        if order == Order::IntoFirst {
            into.copy_from_slice(from);
        }
    }
    let (a, b) = (memory(), memory());
    let (a, b) = (Data::of::<i32>(&a, 4, 700).unwrap(), Data::of::<i32>(&b, 0, 700).unwrap());
    let (left, right): (Vec<i32>, Vec<i32>) = (0..700).map(|n| (n - 300, 2 * n)).unzip();
    let run = |op| {
        a.write(&left).unwrap();
        b.write(&right).unwrap();
        reduce_local(&a, &b, op).unwrap();
        let mut result = vec![0; 700];
        b.read(&mut result).unwrap();
        result
    };
    let plain =
        |f: fn(i32, i32) -> i32| -> Vec<i32> { left.iter().zip(&right).map(|(a, b)| f(*a, *b)).collect() };
    assert_eq!(run(Op::Sum), plain(|a, b| a + b));
    assert_eq!(run(Op::Max), plain(|a, b| a.max(b)));
    assert_eq!(run(Op::Bxor), plain(|a, b| a ^ b));
    assert_eq!(run(Op::Land), plain(|a, b| (a != 0 && b != 0).into()));
    // In `first op second` this one gives the second, which is what was there.
    assert_eq!(run(Op::create(second, false)), right);
    assert!(!Op::create(second, false).commutes());
    let fewer = a.part(0, 3).unwrap();
    assert_eq!(reduce_local(&fewer, &b, Op::Sum), Err(Error::Count(3)));
}

#[test]
fn g3_an_applications_operator_takes_any_type_but_the_largest() {
    fn nothing(_: &mut [u8], _: &[u8], _: Order, _: &Datatype) {}
    let types = crate::Types::on_heap(4, 4);
    let double = Datatype::of::<f64>();
    let fits = types.vector(128, 1, 2, &double).unwrap();
    assert_eq!(Op::create(nothing, true).combiner(&fits).unwrap().element_len(), 1024);
    let large = types.contiguous(129, &double).unwrap();
    assert!(matches!(Op::create(nothing, true).combiner(&large), Err(Error::Unsupported(_))));
    assert!(matches!(Op::Sum.reducer(&fits), Err(Error::Op)));
}
