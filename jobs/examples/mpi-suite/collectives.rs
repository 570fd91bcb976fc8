//! Chapter "collectives": each of them against plain loops, with plain and scattered data, in place and not, for several
//! roots; many at a time; operators that do not commute.

use super::check::Suite;
use super::desk::{Desk, holds, put, word};
use super::operators::{compose, map, map_type, maps};
use heapless::Vec;
use kernel::Task;
use mpi::{Blocks, Class, Communicator, Data, Datatype, Error, IN_PLACE, Mpi, Op, Operand, Request, Result};

/// Most ranks of a run.
const RANKS: usize = 64;

/// One case: where data lies, of what type, and who is the root.
struct Case<'a> {
    comm: Communicator<Task>,
    desk: &'a Desk,
    datatype: Datatype,
    /// Values of an element.
    width: usize,
    root: u32,
    round: u32,
}

impl Case<'_> {
    fn size(&self) -> usize {
        self.comm.size() as usize
    }

    fn left(&self, count: usize) -> Result<Data> {
        Ok(Data::new(self.desk.left.clone(), 36, count, self.datatype.clone())?)
    }

    fn right(&self, count: usize) -> Result<Data> {
        Ok(Data::new(self.desk.right.clone(), 4, count, self.datatype.clone())?)
    }

    fn mine(&self, at: usize) -> i32 {
        word(self.round, self.comm.rank(), at)
    }

    fn is_root(&self) -> bool {
        self.comm.rank() == self.root
    }

    /// Elements of a rank's block in the v forms; some are empty.
    fn count(rank: usize) -> usize {
        (rank * 2 + 1) % 4
    }
}

pub fn run(suite: &Suite) -> Result<()> {
    let (mpi, desk, check) = (&suite.mpi, &suite.desk, suite);
    let (comm, types, int) = (mpi.world(), mpi.types(), Datatype::of::<i32>());
    let gaps = types.resized(&int, 0, 8)?;
    let scattered = types.indexed(&[1, 2], &[3, 0], &int)?;
    gaps.commit();
    scattered.commit();
    let last = comm.size() - 1;
    let forms = [(int, 1, 0), (gaps, 1, last), (scattered, 3, last / 2)];
    for (round, (datatype, width, root)) in (0..).zip(forms) {
        let case = Case { comm, desk, datatype, width, root, round };
        for in_place in [false, true] {
            moves(&case, check, in_place)?;
            listed(&case, check, in_place)?;
        }
    }
    for root in [0, last] {
        for in_place in [false, true] {
            reductions(comm, desk, check, root, in_place)?;
            ordered(mpi, desk, check, root, in_place)?;
        }
    }
    many(comm, desk, check)?;
    long(comm, desk, check)?;
    itself(mpi, desk, check)?;
    refusals(comm, desk, check)
}

/// What the caller brings: its own data, or what is in the receive buffer.
fn operand(in_place: bool, data: &Data) -> Operand<'_> {
    if in_place { IN_PLACE } else { data.into() }
}

/// Collectives of equal blocks.
fn moves(case: &Case, check: &Suite, in_place: bool) -> Result<()> {
    let Case { comm, desk, width, root, round, .. } = *case;
    let (size, count, rank) = (case.size(), 2, comm.rank() as usize);
    let block = count * width;
    let from = |at: usize| word(round, (at / block) as u32, at % block);
    let (own, all) = (case.left(count)?, case.right(count * size)?);
    let (into, place) = (case.right(count)?, case.right(count * size)?.part(rank * count, count)?);

    desk.clear()?;
    let data = case.left(5)?;
    if case.is_root() {
        put(&data, |at| case.mine(at))?;
    }
    comm.bcast(&data, root)?;
    check.that("bcast", holds(&data, |at| word(round, root, at))?);

    desk.clear()?;
    let gathers_in_place = in_place && case.is_root();
    put(if gathers_in_place { &place } else { &own }, |at| case.mine(at))?;
    comm.gather(operand(gathers_in_place, &own), case.is_root().then_some(&into), root)?;
    check.that("gather", !case.is_root() || holds(&all, from)?);

    desk.clear()?;
    let blocks = case.left(count * size)?;
    if case.is_root() {
        put(&blocks, |at| case.mine(at))?;
    }
    comm.scatter(case.is_root().then_some(&own), operand(gathers_in_place, &into), root)?;
    let result = if gathers_in_place { &blocks.part(rank * count, count)? } else { &into };
    check.that("scatter", holds(result, |at| word(round, root, rank * block + at))?);

    desk.clear()?;
    put(if in_place { &place } else { &own }, |at| case.mine(at))?;
    comm.allgather(operand(in_place, &own), &into)?;
    check.that("allgather", holds(&all, from)?);

    desk.clear()?;
    put(if in_place { &all } else { &blocks }, |at| case.mine(at))?;
    comm.alltoall(operand(in_place, &own), &into)?;
    let expected = |at: usize| word(round, (at / block) as u32, rank * block + at % block);
    check.that("alltoall", holds(&all, expected)?);
    comm.barrier()
}

/// Collectives of blocks of any lengths, which lie in reverse order with gaps between them.
fn listed(case: &Case, check: &Suite, in_place: bool) -> Result<()> {
    let Case { comm, desk, width, root, round, .. } = *case;
    let (size, rank) = (case.size(), comm.rank() as usize);
    let counts: Vec<usize, RANKS> = (0..size).map(Case::count).collect();
    let places: Vec<isize, RANKS> = (0..size).map(|rank| ((size - 1 - rank) * 4) as isize).collect();
    let (sent, received) = (case.left(0)?, case.right(0)?);
    let blocks = |data| Blocks { data, counts: &counts, displacements: &places };
    let own = case.left(counts[rank])?;
    let place = received.displaced(places[rank], counts[rank])?;
    let every = |check: &Suite, name, value: &dyn Fn(u32, usize) -> i32| -> Result<()> {
        let mut right = true;
        for from in 0..size {
            let part = received.displaced(places[from], counts[from])?;
            right &= holds(&part, |at| value(from as u32, at))?;
        }
        check.that(name, right);
        Ok(())
    };

    desk.clear()?;
    let at_root = in_place && case.is_root();
    put(if at_root { &place } else { &own }, |at| case.mine(at))?;
    comm.gatherv(operand(at_root, &own), case.is_root().then_some(blocks(&received)), root)?;
    if case.is_root() {
        every(check, "gatherv", &|from, at| word(round, from, at))?;
    }

    desk.clear()?;
    let into = case.right(counts[rank])?;
    if case.is_root() {
        for to in 0..size {
            put(&sent.displaced(places[to], counts[to])?, |at| word(round, to as u32, at))?;
        }
    }
    comm.scatterv(case.is_root().then_some(blocks(&sent)), operand(at_root, &into), root)?;
    let result = if at_root { &sent.displaced(places[rank], counts[rank])? } else { &into };
    check.that("scatterv", holds(result, |at| case.mine(at))?);

    desk.clear()?;
    put(if in_place { &place } else { &own }, |at| case.mine(at))?;
    comm.allgatherv(operand(in_place, &own), blocks(&received))?;
    every(check, "allgatherv", &|from, at| word(round, from, at))?;

    // The block from one rank to another depends on both; in place it must be the same both ways.
    let between = |a: usize, b: usize| if in_place { (a + b) % 3 } else { (2 * a + b) % 4 };
    let going: Vec<usize, RANKS> = (0..size).map(|to| between(rank, to)).collect();
    let coming: Vec<usize, RANKS> = (0..size).map(|from| between(from, rank)).collect();
    desk.clear()?;
    let value = |from: usize, to: usize, at: usize| word(round, from as u32, to * 8 + at);
    let base = if in_place { &received } else { &sent };
    for to in 0..size {
        put(&base.displaced(places[to], going[to])?, |at| value(rank, to, at))?;
    }
    let send = Blocks { data: &sent, counts: &going, displacements: &places };
    let receive = Blocks { data: &received, counts: &coming, displacements: &places };
    comm.alltoallv((!in_place).then_some(send), receive)?;
    let mut right = true;
    for from in 0..size {
        let part = received.displaced(places[from], coming[from])?;
        right &= holds(&part, |at| value(from, rank, at))?;
    }
    check.that("alltoallv", right && width > 0);
    comm.barrier()
}

/// Reductions by a predefined operator, of data that begins in the middle of a word.
fn reductions(comm: Communicator<Task>, desk: &Desk, check: &Suite, root: u32, in_place: bool) -> Result<()> {
    let (size, rank, len) = (comm.size(), comm.rank(), 7usize);
    let (own, into) = (Data::of::<i32>(&desk.left, 20, len)?, Data::of::<i32>(&desk.right, 12, len)?);
    let fill = |in_place: bool| -> Result<()> {
        desk.clear()?;
        put(if in_place { &into } else { &own }, |at| word(7, rank, at))
    };
    let sum = |ranks: core::ops::Range<u32>, at: usize| {
        ranks.map(|rank| word(7, rank, at)).fold(0i32, i32::wrapping_add)
    };
    let (is_root, at_root) = (rank == root, in_place && rank == root);
    fill(at_root)?;
    comm.reduce(operand(at_root, &own), is_root.then_some(&into), Op::Sum, root)?;
    check.that("reduce", !is_root || holds(&into, |at| sum(0..size, at))?);
    fill(in_place)?;
    comm.allreduce(operand(in_place, &own), &into, Op::Sum)?;
    check.that("allreduce", holds(&into, |at| sum(0..size, at))?);
    fill(in_place)?;
    comm.scan(operand(in_place, &own), &into, Op::Sum)?;
    check.that("scan", holds(&into, |at| sum(0..rank + 1, at))?);
    fill(in_place)?;
    comm.exscan(operand(in_place, &own), &into, Op::Sum)?;
    check.that("exscan", rank == 0 || holds(&into, |at| sum(0..rank, at))?);

    let block = 3;
    let all = size as usize * block;
    let (own, whole) = (Data::of::<i32>(&desk.left, 20, all)?, Data::of::<i32>(&desk.right, 12, all)?);
    let into = whole.part(0, block)?;
    let fill = |len: usize| -> Result<()> {
        desk.clear()?;
        put(&(if in_place { &whole } else { &own }).part(0, len)?, |at| word(8, rank, at))
    };
    let sum = |at: usize| (0..size).map(|rank| word(8, rank, at)).fold(0i32, i32::wrapping_add);
    fill(all)?;
    comm.reduce_scatter_block(operand(in_place, &own), &into, Op::Sum)?;
    check.that("reduce_scatter_block", holds(&into, |at| sum(rank as usize * block + at))?);
    let counts: Vec<usize, RANKS> = (0..size as usize).map(|rank| rank % 4).collect();
    let start: usize = counts[..rank as usize].iter().sum();
    let total = counts.iter().sum();
    fill(total)?;
    comm.reduce_scatter(operand(in_place, &own.part(0, total)?), &into, &counts, Op::Sum)?;
    let result = whole.part(0, counts[rank as usize])?;
    check.that("reduce_scatter", holds(&result, |at| sum(start + at))?);
    Ok(())
}

/// Reductions by an operator that does not commute, of a derived type.
fn ordered(mpi: &Mpi<Task>, desk: &Desk, check: &Suite, root: u32, in_place: bool) -> Result<()> {
    let (comm, op, datatype) = (mpi.world(), Op::create(compose, false), map_type(mpi)?);
    let (size, rank, len) = (comm.size(), comm.rank(), 4usize);
    let data = |memory: &pami::Shared, count| Data::new(memory.clone(), 8, count, datatype.clone());
    let (own, into) = (data(&desk.left, len)?, data(&desk.right, len)?);
    let fill = |in_place: bool| -> Result<()> {
        desk.clear()?;
        put::<u64>(if in_place { &into } else { &own }, |at| map(rank, at / 2)[at % 2])
    };
    let is = |data: &Data, ranks: core::ops::Range<u32>, first: usize| {
        holds::<u64>(data, |at| maps(ranks.clone(), first + at / 2)[at % 2])
    };
    let (is_root, at_root) = (rank == root, in_place && rank == root);
    fill(at_root)?;
    comm.reduce(operand(at_root, &own), is_root.then_some(&into), op, root)?;
    check.that("reduce in the order of ranks", !is_root || is(&into, 0..size, 0)?);
    fill(in_place)?;
    comm.allreduce(operand(in_place, &own), &into, op)?;
    check.that("allreduce in the order of ranks", is(&into, 0..size, 0)?);
    fill(in_place)?;
    comm.scan(operand(in_place, &own), &into, op)?;
    check.that("scan in the order of ranks", is(&into, 0..rank + 1, 0)?);
    fill(in_place)?;
    comm.exscan(operand(in_place, &own), &into, op)?;
    check.that("exscan in the order of ranks", rank == 0 || is(&into, 0..rank, 0)?);
    let (own, whole) = (data(&desk.left, 2 * size as usize)?, data(&desk.right, 2 * size as usize)?);
    desk.clear()?;
    put::<u64>(if in_place { &whole } else { &own }, |at| map(rank, at / 2)[at % 2])?;
    let into = whole.part(0, 2)?;
    comm.reduce_scatter_block(operand(in_place, &own), &into, op)?;
    check.that("reduce_scatter in the order of ranks", is(&into, 0..size, 2 * rank as usize)?);
    Ok(())
}

/// More collectives at a time than the layer below has room for, completed from the last on.
fn many(comm: Communicator<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    const MANY: usize = 48;
    let (size, rank) = (comm.size(), comm.rank());
    desk.clear()?;
    let data = |memory: &pami::Shared, number: usize| Data::of::<i32>(memory, number * 16, 3);
    let mut requests = Vec::<Request, MANY>::new();
    for number in 0..MANY {
        let (own, into) = (data(&desk.left, number)?, data(&desk.right, number)?);
        put(&own, |at| word(number as u32, rank, at))?;
        let request = match number % 4 {
            0 => comm.iallreduce(&own, &into, Op::Sum)?,
            1 => comm.ibcast(&own, number as u32 % size)?,
            2 => comm.iscan(&own, &into, Op::Bxor)?,
            _ => comm.ibarrier()?,
        };
        let _ = requests.push(request);
    }
    while let Some(mut request) = requests.pop() {
        comm.library().wait(&mut request)?;
    }
    let mut right = true;
    for number in 0..MANY {
        let (own, into) = (data(&desk.left, number)?, data(&desk.right, number)?);
        let round = number as u32;
        let fold = |ranks: core::ops::Range<u32>, at, combine: fn(i32, i32) -> i32| {
            ranks.map(|rank| word(round, rank, at)).fold(0, combine)
        };
        right &= match number % 4 {
            0 => holds(&into, |at| fold(0..size, at, i32::wrapping_add))?,
            1 => holds(&own, |at| word(round, round % size, at))?,
            2 => holds(&into, |at| fold(0..rank + 1, at, |a, b| a ^ b))?,
            _ => true,
        };
    }
    check.that("48 collectives at a time are matched in order", right);
    Ok(())
}

/// Vectors that take many packets, plain and packed.
fn long(comm: Communicator<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let types = comm.library().types();
    let gaps = types.resized(&Datatype::of::<i32>(), 0, 12)?;
    gaps.commit();
    for (name, datatype) in [("a long vector", Datatype::of::<i32>()), ("a long vector with gaps", gaps)] {
        desk.clear()?;
        let data = Data::new(desk.left.clone(), 8, 1024, datatype.clone())?;
        if comm.rank() == 0 {
            put(&data, |at| word(9, 0, at))?;
        }
        comm.bcast(&data, 0)?;
        check.that(name, holds(&data, |at| word(9, 0, at))?);
        let (len, into) = (1024 / comm.size() as usize, Data::new(desk.right.clone(), 0, 1024, datatype)?);
        comm.alltoall(&data.part(0, len)?, &into.part(0, len)?)?;
        let mine = comm.rank() as usize * len;
        let result = into.part(0, len * comm.size() as usize)?;
        check.that(name, holds(&result, |at| word(9, 0, mine + at % len))?);
    }
    let sum = Data::of::<i32>(&desk.right, 0, 1024)?;
    put(&sum, |at| word(10, comm.rank(), at))?;
    comm.allreduce(IN_PLACE, &sum, Op::Sum)?;
    let expected = |at| (0..comm.size()).map(|rank| word(10, rank, at)).fold(0i32, i32::wrapping_add);
    check.that("a long sum", holds(&sum, expected)?);
    Ok(())
}

/// A communicator of one process.
fn itself(mpi: &Mpi<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let comm = mpi.itself();
    let (own, into) = (Data::of::<i32>(&desk.left, 0, 4)?, Data::of::<i32>(&desk.right, 0, 4)?);
    let one = |name, result: Result<()>| -> Result<()> {
        result?;
        check.that(name, holds(&into, |at| word(11, 0, at))?);
        put(&into, |_| 0)
    };
    put(&own, |at| word(11, 0, at))?;
    one("gather alone", comm.gather(&own, Some(&into), 0))?;
    one("scatter alone", comm.scatter(Some(&own), &into, 0))?;
    one("allgather alone", comm.allgather(&own, &into))?;
    one("alltoall alone", comm.alltoall(&own, &into))?;
    one("reduce alone", comm.reduce(&own, Some(&into), Op::Max, 0))?;
    one("allreduce alone", comm.allreduce(&own, &into, Op::Max))?;
    one("scan alone", comm.scan(&own, &into, Op::Max))?;
    one("reduce_scatter alone", comm.reduce_scatter(&own, &into, &[4], Op::Max))?;
    let list = Blocks { data: &into, counts: &[4], displacements: &[0] };
    one("gatherv alone", comm.gatherv(&own, Some(list), 0))?;
    one("allgatherv alone", comm.allgatherv(&own, list))?;
    comm.barrier()?;
    comm.bcast(&own, 0)
}

/// Calls that every process gets wrong, with the class that the standard gives them.
fn refusals(comm: Communicator<Task>, desk: &Desk, check: &Suite) -> Result<()> {
    let size = comm.size();
    let (own, into) = (Data::of::<i32>(&desk.left, 0, 4)?, Data::of::<i32>(&desk.right, 0, 4)?);
    let (few, at_end) = (own.part(0, 3)?, Data::of::<i32>(&desk.right, desk.right.len() - 16, 4)?);
    check.that("a root that does not exist is refused", comm.bcast(&own, size) == Err(Error::Root(size)));
    let truncated = Err(Error::Truncate { len: 12, room: 16 });
    check.that("blocks of different lengths are refused", comm.allgather(&few, &into) == truncated);
    check.that("so are operands", comm.allreduce(&few, &into, Op::Sum) == Err(Error::Count(3)));
    let alone = size == 1;
    check.that(
        "blocks outside the memory are refused",
        alone || comm.allgather(&own, &at_end).map_err(|error| error.class()) == Err(Class::Buffer),
    );
    let real = Data::of::<f32>(&desk.right, 0, 4)?;
    check.that("operands of two types are refused", comm.allreduce(&own, &real, Op::Sum) == Err(Error::Type));
    let list = Blocks { data: &into, counts: &[], displacements: &[] };
    check.that("a list without counts is refused", matches!(comm.allgatherv(&own, list), Err(Error::Arg(_))));
    check.that(
        "a list of counts must be whole",
        matches!(comm.reduce_scatter(&own, &into, &[], Op::Sum), Err(Error::Arg(_))),
    );
    check.that(
        "a root has a buffer",
        comm.rank() > 0 || matches!(comm.gather(&own, None, 0), Err(Error::Arg(_))),
    );
    check.that(
        "only roots work in place",
        comm.rank() == 0 || matches!(comm.gather(IN_PLACE, None, 0), Err(Error::Arg(_))),
    );
    comm.barrier()
}
