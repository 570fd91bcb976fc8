//! Chapter "datatypes": derived types, packing, and messages between different types of one signature.

use super::check::Suite;
use super::desk::{Desk, holds, put, word};
use kernel::Task;
use mpi::{Basic, Data, Datatype, Error, Mpi, Native, Result};

/// Types that are made in every way there is, of `i32`: each with the places of its values, in elements.
fn shapes(mpi: &Mpi<Task>) -> Result<[(&'static str, Datatype, &'static [isize]); 10]> {
    let (types, int) = (mpi.types(), Datatype::of::<i32>());
    let pair = types.contiguous(2, &int)?;
    Ok([
        ("contiguous", types.contiguous(5, &int)?, &[0, 1, 2, 3, 4]),
        ("vector", types.vector(3, 2, 4, &int)?, &[0, 1, 4, 5, 8, 9]),
        ("hvector", types.hvector(3, 1, 12, &int)?, &[0, 3, 6]),
        ("indexed", types.indexed(&[2, 0, 1], &[4, 9, 1], &int)?, &[4, 5, 1]),
        ("hindexed", types.hindexed(&[1, 2], &[20, 4], &int)?, &[5, 1, 2]),
        ("indexed block", types.indexed_block(2, &[3, 0], &int)?, &[3, 4, 0, 1]),
        ("hindexed block", types.hindexed_block(1, &[16, 0, 8], &int)?, &[4, 0, 2]),
        ("struct", types.structure(&[(1, 0, &int), (2, 8, &pair)])?, &[0, 2, 3, 4, 5]),
        ("resized", types.resized(&pair, 0, 16)?, &[0, 1]),
        ("subarray", types.subarray(&[3, 4], &[2, 2], &[1, 1], &int)?, &[5, 6, 9, 10]),
    ])
}

pub fn run(suite: &Suite) -> Result<()> {
    let (mpi, desk, check) = (&suite.mpi, &suite.desk, suite);
    places(mpi, desk, check)?;
    signatures(mpi, desk, check)?;
    packing(mpi, desk, check)?;
    bounds(mpi, check)?;
    refusals(mpi, desk, check)
}

/// Values are where the type says, whoever asks.
fn places(mpi: &Mpi<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    for (name, datatype, places) in shapes(mpi)? {
        desk.clear()?;
        datatype.commit();
        let count = 3;
        let data = Data::new(desk.left.clone(), 64, count, datatype.clone())?;
        put(&data, |at| word(1, 0, at))?;
        let extent = datatype.extent() / 4;
        let mut right = true;
        let mut written = 0;
        for element in 0..count as isize {
            for &place in places {
                let mut value = [0; 1];
                let at = 64 + 4 * (element * extent + place) as usize;
                Data::of::<i32>(&desk.left, at, 1)?.read(&mut value)?;
                right &= value[0] == word(1, 0, written);
                written += 1;
            }
        }
        check.that(name, right && datatype.size() == 4 * places.len());
        check.that("data reads back what was written", holds(&data, |at| word(1, 0, at))?);
        let mut touched = 0;
        for at in 0..512 {
            let mut value = [0u32; 1];
            Data::of::<u32>(&desk.left, 4 * at, 1)?.read(&mut value)?;
            touched += usize::from(value[0] != 0xa5a5_a5a5);
        }
        check.that("nothing is written between the values", touched == written);
    }
    Ok(())
}

/// What is sent as one type is received as another of the same signature.
fn signatures(mpi: &Mpi<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let world = mpi.world();
    for (name, datatype, _) in shapes(mpi)? {
        datatype.commit();
        desk.clear()?;
        let count = 4;
        let plain = datatype.elements() * count;
        let data = if world.rank() == 0 {
            Data::new(desk.left.clone(), 256, count, datatype.clone())?
        } else {
            Data::of::<i32>(&desk.left, 4, plain)?
        };
        if world.rank() == 0 {
            put(&data, |at| word(2, 0, at))?;
        }
        world.bcast(&data, 0)?;
        check.that(name, holds(&data, |at| word(2, 0, at))?);
        let int = Datatype::of::<i32>();
        check.that("the signatures match", datatype.matches(count, &int, plain));
        check.that("another count does not", !datatype.matches(count, &int, plain + 1));
        check.that("another type does not", !datatype.matches(count, &Datatype::of::<f32>(), plain));
    }
    // A structure of several types.
    let types = mpi.types();
    let (long, byte) = (Datatype::of::<i64>(), Datatype::of::<u8>());
    let record = types.structure(&[(1, 0, &long), (3, 8, &byte)])?;
    record.commit();
    check.that("a structure's extent is rounded up", (record.size(), record.extent()) == (11, 16));
    let data = Data::new(desk.right.clone(), 0, 20, record)?;
    let byte_of = |at: usize| (at * 31 + 5) as u8;
    if world.rank() + 1 == world.size() {
        for at in 0..data.bytes() {
            data.unpack_bytes(at, &[byte_of(at)])?;
        }
    }
    world.bcast(&data, world.size() - 1)?;
    let mut right = true;
    for at in 0..data.bytes() {
        let mut byte = [0];
        data.pack_bytes(at, &mut byte)?;
        right &= byte[0] == byte_of(at);
    }
    check.that("a structure is sent with all of its fields", right);
    Ok(())
}

fn packing(mpi: &Mpi<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    for (name, datatype, _) in shapes(mpi)? {
        desk.clear()?;
        let data = Data::new(desk.left.clone(), 128, 6, datatype.clone())?;
        put(&data, |at| word(3, 0, at))?;
        let len = data.pack(&desk.right, 40)?;
        check.that("pack size is what packing takes", Some(len) == datatype.pack_size(6));
        let packed = Data::of::<i32>(&desk.right, 40, len / 4)?;
        check.that(name, holds(&packed, |at| word(3, 0, at))?);
        put(&data, |_| 0)?;
        data.unpack(&desk.right, 40, len)?;
        check.that("unpacking puts it back", holds(&data, |at| word(3, 0, at))?);
        check.that("counts are of whole elements", datatype.get_count(len) == Some(6));
        check.that(
            "part of an element is no count",
            datatype.get_count(len - 4).is_none() || datatype.size() == 4,
        );
        check.that("elements are values", datatype.get_elements(len - 4) == Some(len / 4 - 1));
        check.that("part of a value is no element", datatype.get_elements(len - 1).is_none());
    }
    Ok(())
}

fn bounds(mpi: &Mpi<Task>, check: &Suite) -> Result<()> {
    let (types, int) = (mpi.types(), Datatype::of::<i32>());
    let moved = types.resized(&types.indexed(&[1], &[2], &int)?, -4, 24)?;
    check.that("bounds are what they were set to", (moved.lb(), moved.ub(), moved.extent()) == (-4, 20, 24));
    check.that("the true extent is the data's", moved.true_extent() == (8, 4));
    let twice = types.contiguous(2, &moved)?;
    check.that("bounds that were set are kept", (twice.lb(), twice.ub()) == (-4, 44));
    let copy = twice.clone();
    drop(twice);
    check.that("a duplicate outlives its origin", copy.size() == 8);
    for &basic in Basic::ALL {
        let datatype = Datatype::basic(basic);
        check.that("a basic type is as long as its extent", datatype.size() as isize == datatype.extent());
        check.that("a basic type is committed", datatype.is_committed());
    }
    check.that("a type that was not committed is not", !copy.is_committed());
    Ok(())
}

fn refusals(mpi: &Mpi<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let (types, world) = (mpi.types(), mpi.world());
    let int = Datatype::of::<i32>();
    let pair = types.contiguous(2, &int)?;
    let raw = Data::new(desk.left.clone(), 0, 1, pair.clone())?;
    check.that("a type that was not committed is refused", world.bcast(&raw, 0) == Err(Error::Type));
    check
        .that("data outside its memory is refused", Data::of::<i32>(&desk.left, desk.left.len(), 1).is_err());
    check.that(
        "so is data before it",
        Data::new(desk.left.clone(), 0, 1, types.hindexed(&[1], &[-4], &int)?).is_err(),
    );
    check.that("lists of different lengths are refused", types.indexed(&[1], &[1, 2], &int).is_err());
    check.that(
        "values of another type are refused",
        Data::of::<i32>(&desk.left, 0, 1)?.write(&[1.0f32]).is_err(),
    );
    let odd = |at: usize| (at * at * at) as isize;
    let far: heapless::Vec<isize, 512> = (0..512).map(odd).collect();
    check.that("a type has any number of runs", types.indexed_block(1, &far, &int)?.run_count() >= 256);
    let before = types.alive();
    let none = |_| Error::NoMem { what: "bytes of the task's memory", limit: check.task.memory().left() };
    let made = check.task.memory().fill(mpi.settings().types + 1, || None).map_err(none)?;
    let count = |made: &mut [Option<Datatype>], kind: &dyn Fn() -> Option<Datatype>| {
        made.iter_mut().map_while(|place| kind().map(|datatype| *place = Some(datatype))).count()
    };
    let number = count(made, &|| types.contiguous(2, &int).ok());
    check.that("types end where the settings say", before + number == mpi.settings().types);
    made.fill(None);
    let number = count(made, &|| types.indexed_block(1, &far, &int).ok());
    check.that("so do their runs", (mpi.settings().type_runs / 512..mpi.settings().types).contains(&number));
    made.fill(None);
    check.that("types that were freed make room", types.alive() == before);
    check.that("a type of this language is a basic one", <f64 as Native>::BASIC == Basic::F64);
    Ok(())
}
