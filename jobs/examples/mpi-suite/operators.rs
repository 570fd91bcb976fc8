//! Chapter "operators": every predefined operator on every type that it takes, over all ranks and locally.

use super::check::Suite;
use super::desk::{Desk, holds, put};
use core::ops::{BitAnd, BitOr, BitXor};
use kernel::Task;
use mpi::{Basic, Communicator, Data, Datatype, Error, Mpi, Native, Op, Result, reduce_local};
use pami::collective::Order;
use pami::operator::{LocatedF32, LocatedF64, LocatedI16, LocatedI32, LocatedI64};

/// Values of each vector.
const LEN: usize = 3;

/// Whether all ranks get what a plain loop in the order of ranks gives.
fn over<T: Native + Default + PartialEq>(
    (world, desk, check): (Communicator<Task>, &Desk, &Suite),
    name: &'static str,
    op: Op,
    value: impl Fn(u32, usize) -> T,
    combine: impl Fn(T, T) -> T,
) -> Result<()> {
    let (from, into) = (Data::of::<T>(&desk.left, 16, LEN)?, Data::of::<T>(&desk.right, 0, LEN)?);
    put(&from, |at| value(world.rank(), at))?;
    put(&into, |_| T::default())?;
    world.allreduce(&from, &into, op)?;
    let expected = |at| (1..world.size()).fold(value(0, at), |sum, rank| combine(sum, value(rank, at)));
    check.that(name, holds(&into, expected)?);
    put(&into, |at| value(1, at))?;
    reduce_local(&from, &into, op)?;
    check.that(name, holds(&into, |at| combine(value(world.rank(), at), value(1, at)))?);
    Ok(())
}

trait Integer:
    Native + Default + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    fn of(word: u32) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ident)*) => {$(
        impl Integer for $integer {
            fn of(word: u32) -> Self {
                word as Self
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

fn integers<T: Integer>(world: Communicator<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    // Some are 0, so that logical operators have both.
    let value = |rank: u32, at: usize| {
        let word = (rank * 7 + at as u32 * 3 + 1).wrapping_mul(0x9e37_79b9);
        T::of(if at == 2 && rank % 2 == 1 { 0 } else { word >> 8 | 1 })
    };
    let zero = T::default();
    let logical = |truth: fn(bool, bool) -> bool| move |a: T, b: T| T::of(truth(a != zero, b != zero).into());
    let all = |name, op, combine: &dyn Fn(T, T) -> T| over((world, desk, check), name, op, value, combine);
    all("MPI_SUM", Op::Sum, &T::sum)?;
    all("MPI_PROD", Op::Prod, &T::product)?;
    all("MPI_MAX", Op::Max, &T::max)?;
    all("MPI_MIN", Op::Min, &T::min)?;
    all("MPI_BAND", Op::Band, &T::bitand)?;
    all("MPI_BOR", Op::Bor, &T::bitor)?;
    all("MPI_BXOR", Op::Bxor, &T::bitxor)?;
    all("MPI_LAND", Op::Land, &logical(|a, b| a && b))?;
    all("MPI_LOR", Op::Lor, &logical(|a, b| a || b))?;
    all("MPI_LXOR", Op::Lxor, &logical(|a, b| a != b))
}

/// `second` after `first`: of maps `x -> a x + b`, the one that applies both. It does not commute.
fn after(first: [u64; 2], second: [u64; 2]) -> [u64; 2] {
    let [(a, b), (c, d)] = [first, second].map(|[a, b]| (a, b));
    [a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d)]
}

fn words(bytes: &[u8]) -> [u64; 2] {
    let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    [word(0), word(8)]
}

/// An operator of the application's.
pub fn compose(into: &mut [u8], from: &[u8], order: Order, datatype: &Datatype) {
    // Of another type it would make nonsense.
    if datatype.size() != 16 || datatype.uniform() != Some(Basic::U64) {
        return;
    }
    for (into, from) in into.chunks_exact_mut(16).zip(from.chunks_exact(16)) {
        let (mine, other) = (words(into), words(from));
        let [a, b] = match order {
            Order::IntoFirst => after(mine, other),
            Order::FromFirst => after(other, mine),
        };
        into[..8].copy_from_slice(&a.to_ne_bytes());
        into[8..].copy_from_slice(&b.to_ne_bytes());
    }
}

/// The map that a rank brings.
pub fn map(rank: u32, at: usize) -> [u64; 2] {
    [u64::from(rank) * 2 + 3 + at as u64, (u64::from(rank) + 1) * 1_000_003 + at as u64]
}

/// The maps of ranks, combined in their order.
pub fn maps(ranks: core::ops::Range<u32>, at: usize) -> [u64; 2] {
    ranks.map(|rank| map(rank, at)).reduce(after).unwrap_or_default()
}

/// The type of a map: two words with a gap behind them.
pub fn map_type(mpi: &Mpi<Task>) -> Result<Datatype> {
    let types = mpi.types();
    let datatype = types.resized(&types.contiguous(2, &Datatype::of::<u64>())?, 0, 24)?;
    datatype.commit();
    Ok(datatype)
}

pub fn run(suite: &Suite) -> Result<()> {
    let (mpi, desk, check) = (&suite.mpi, &suite.desk, suite);
    let world = mpi.world();
    integers::<i8>(world, desk, check)?;
    integers::<i16>(world, desk, check)?;
    integers::<i32>(world, desk, check)?;
    integers::<i64>(world, desk, check)?;
    integers::<u8>(world, desk, check)?;
    integers::<u16>(world, desk, check)?;
    integers::<u32>(world, desk, check)?;
    integers::<u64>(world, desk, check)?;
    // Sums of these are exact in whatever order.
    let number = |rank: u32, at: usize| f64::from(rank as i32 * 3 - 7) + 0.5 * at as f64;
    let short = |rank: u32, at: usize| number(rank, at) as f32;
    over((world, desk, check), "MPI_SUM", Op::Sum, number, |a, b| a + b)?;
    over((world, desk, check), "MPI_MAX", Op::Max, number, f64::max)?;
    over((world, desk, check), "MPI_MIN", Op::Min, number, f64::min)?;
    over((world, desk, check), "MPI_SUM", Op::Sum, short, |a, b| a + b)?;
    over((world, desk, check), "MPI_MAX", Op::Max, short, f32::max)?;
    over(
        (world, desk, check),
        "MPI_PROD",
        Op::Prod,
        |rank, at| if rank == 1 { 0.5 + at as f64 } else { 2.0 },
        |a, b| a * b,
    )?;
    let complex = |rank, at| [number(rank, at), number(rank + 1, at)];
    over((world, desk, check), "MPI_SUM", Op::Sum, complex, |a: [f64; 2], b| [a[0] + b[0], a[1] + b[1]])?;
    located(world, desk, check)?;
    let composed = Op::create(compose, false);
    check.that("an operator says whether it commutes", !composed.commutes() && Op::Sum.commutes());
    let datatype = map_type(mpi)?;
    let (from, into) = (
        Data::new(desk.left.clone(), 0, 5, datatype.clone())?,
        Data::new(desk.right.clone(), 8, 5, datatype)?,
    );
    let write = |data: &Data, rank| put::<u64>(data, |at| map(rank, at / 2)[at % 2]);
    write(&from, 3)?;
    write(&into, 5)?;
    reduce_local(&from, &into, composed)?;
    check.that(
        "a local reduction puts the input first",
        holds(&into, |at| after(map(3, at / 2), map(5, at / 2))[at % 2])?,
    );
    let (int, real) = (Data::of::<i32>(&desk.left, 0, 1)?, Data::of::<f64>(&desk.left, 0, 1)?);
    let refused = |data: &Data, op| world.iallreduce(mpi::IN_PLACE, data, op).err();
    check.that("there is no bitwise and of floats", refused(&real, Op::Band) == Some(Error::Op));
    check.that("there is no logical or of floats", refused(&real, Op::Lor) == Some(Error::Op));
    check.that("there is no maxloc without an index", refused(&int, Op::MaxLoc) == Some(Error::Op));
    check.that("there is no sum of derived types", refused(&from, Op::Sum) == Some(Error::Op));
    check.that("replace is for one-sided accesses", refused(&int, Op::Replace) == Some(Error::Op));
    check.that("nor can they be combined locally", reduce_local(&int, &int, Op::NoOp) == Err(Error::Op));
    Ok(())
}

/// Pairs of a value and an index; two ranks have the same value.
fn located(world: Communicator<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let value = |rank: u32, at: usize| ((rank / 2 + at as u32) * 5 % 7) as i16;
    macro_rules! pairs {
        ($($name:ident $value:ident $index:ident),*) => {$({
            let pair = |rank, at| Pair($name::new($value::from(value(rank, at)), $index::from(rank as u16)));
            let choose = |a: Pair<$name>, b: Pair<$name>, first: bool| {
                let equal = a.0.value == b.0.value;
                if (equal && a.0.index <= b.0.index) || (!equal && first) { a } else { b }
            };
            pairwise((world, desk, check), "MPI_MINLOC", Op::MinLoc, pair, |a, b| choose(a, b, a.0.value < b.0.value))?;
            pairwise((world, desk, check), "MPI_MAXLOC", Op::MaxLoc, pair, |a, b| choose(a, b, a.0.value > b.0.value))?;
        })*};
    }
    pairs!(LocatedI16 i16 u32, LocatedI32 i32 u32, LocatedI64 i64 u64, LocatedF32 f32 u32, LocatedF64 f64 u64);
    Ok(())
}

#[derive(Clone, Copy)]
struct Pair<T>(T);

fn pairwise<T: Native + PartialEq>(
    (world, desk, check): (Communicator<Task>, &Desk, &Suite),
    name: &'static str,
    op: Op,
    value: impl Fn(u32, usize) -> Pair<T>,
    combine: impl Fn(Pair<T>, Pair<T>) -> Pair<T>,
) -> Result<()> {
    let (from, into) = (Data::of::<T>(&desk.left, 0, LEN)?, Data::of::<T>(&desk.right, 0, LEN)?);
    let mine: [T; LEN] = core::array::from_fn(|at| value(world.rank(), at).0);
    from.write(&mine)?;
    world.allreduce(&from, &into, op)?;
    let mut found = mine;
    into.read(&mut found)?;
    let expected = |at| (1..world.size()).fold(value(0, at), |best, rank| combine(best, value(rank, at))).0;
    check.that(name, found == core::array::from_fn(expected));
    Ok(())
}
