//! Windows: what accesses do in every kind of epoch, and who may access what when.

mod accumulates;
mod epochs;
mod errors;

use crate::machine::buffer;
use crate::scene::Comm;
use mpi::{Assert, Data, LockType, Native, Target, Window};
use pami::Shared;

type Win = Window<crate::machine::TestNode>;

const NONE: Assert = Assert::empty();

/// A window of so many zeros of a type, of memory that is the application's.
fn window<T: Native>(comm: &Comm, count: usize) -> (Win, Shared) {
    let memory = buffer(count * size_of::<T>()).share();
    let unit = size_of::<T>() as u32;
    (comm.win_create(&memory, 0..memory.len(), unit).unwrap(), memory)
}

/// The numbers that memory holds.
fn contents<T: Native + Default>(memory: &Shared) -> Vec<T> {
    let data = Data::all::<T>(memory);
    let mut values = vec![T::default(); data.count()];
    data.read(&mut values).unwrap();
    values
}

/// Data of these numbers.
fn data<T: Native>(values: &[T]) -> Data {
    crate::scene::numbers(values)
}

/// The numbers that data holds.
fn read<T: Native + Default>(data: &Data) -> Vec<T> {
    let mut values = vec![T::default(); data.count()];
    data.read(&mut values).unwrap();
    values
}

/// Calls `work` while this process has a lock.
fn locked<T>(win: &Win, kind: LockType, rank: i32, work: impl FnOnce() -> T) -> T {
    win.lock(kind, rank, NONE).unwrap();
    let done = work();
    win.unlock(rank).unwrap();
    done
}

/// One number in a window.
fn one<T: Native>(rank: i32, disp: usize) -> Target {
    Target::new(rank, disp, 1, mpi::Datatype::of::<T>())
}
