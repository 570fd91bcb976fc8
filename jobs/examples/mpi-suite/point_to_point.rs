//! Point-to-point communication.

use super::check::{Outcome, Suite};
use mpi::{ANY_SOURCE, ANY_TAG, BSEND_OVERHEAD, Class, Data, Error, PROC_NULL, Request, Status};

/// Numbers of messages that go in each way: none, in a packet, in several, offered.
const LENGTHS: [usize; 4] = [0, 5, 1200, 6000];

pub fn run(suite: &Suite) -> Outcome {
    blocking(suite)?;
    modes(suite)?;
    order(suite)?;
    wildcards(suite)?;
    truncation(suite)?;
    probes(suite)?;
    cancel(suite)?;
    completion(suite)?;
    persistent(suite)?;
    buffered(suite)?;
    exchange(suite)?;
    nobody(suite)?;
    mistakes(suite)
}

/// Numbers that tell where they are from.
struct Pattern {
    data: Data,
    len: usize,
}

impl Pattern {
    fn room(suite: &Suite) -> Result<Self, Error> {
        Ok(Self { data: suite.room::<u32>(LENGTHS[3])?, len: 0 })
    }

    fn fill(&mut self, len: usize, salt: u32) -> Result<Data, Error> {
        self.len = len;
        let part = self.data.part(0, len)?;
        for at in 0..len {
            part.part(at, 1)?.write(&[(at as u32 * 31) ^ salt])?;
        }
        Ok(part)
    }

    fn holds(&self, len: usize, salt: u32) -> Result<bool, Error> {
        for at in 0..len {
            let mut value = [0u32];
            self.data.part(at, 1)?.read(&mut value)?;
            if value[0] != (at as u32 * 31) ^ salt {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn part(&self, len: usize) -> Result<Data, Error> {
        Ok(self.data.part(0, len)?)
    }
}

/// Each pair of neighbours, in turn: even ranks send first.
fn blocking(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let (mut out, into) = (Pattern::room(suite)?, Pattern::room(suite)?);
    if suite.size % 2 == 1 {
        return Ok(());
    }
    for (len, salt) in LENGTHS.into_iter().zip(1..) {
        let data = out.fill(len, salt ^ suite.rank as u32)?;
        let receive = || -> Outcome {
            let status = suite.world.recv(&into.part(len)?, before, salt as i32)?;
            suite.equal("source", status.source, before);
            suite.equal("tag", status.tag, salt as i32);
            suite.equal("length", status.len, 4 * len);
            suite.equal("count", mpi::Datatype::of::<u32>().get_count(status.len), Some(len));
            suite.that("data", into.holds(len, salt ^ before as u32)?);
            Ok(())
        };
        if suite.rank % 2 == 0 {
            suite.world.send(&data, next, salt as i32)?;
            receive()?;
        } else {
            receive()?;
            suite.world.send(&data, next, salt as i32)?;
        }
    }
    Ok(())
}

/// Synchronous and ready sends, to a receive that is posted.
fn modes(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let (mut out, into) = (Pattern::room(suite)?, Pattern::room(suite)?);
    for (len, salt) in LENGTHS.into_iter().zip(10..) {
        for mode in 0..4 {
            let mut receive = suite.world.irecv(&into.part(len)?, before, mode)?;
            let data = out.fill(len, salt + mode as u32)?;
            let mut send = match mode {
                0 => suite.world.isend(&data, next, mode)?,
                1 => suite.world.issend(&data, next, mode)?,
                2 => suite.world.irsend(&data, next, mode)?,
                _ => suite.world.issend(&data, next, mode)?,
            };
            let status = suite.mpi.wait(&mut receive)?;
            suite.mpi.wait(&mut send)?;
            suite.equal("length of a mode", status.len, 4 * len);
            suite.that("data of a mode", into.holds(len, salt + mode as u32)?);
            suite.that("requests are null", send.is_null() && receive.is_null());
        }
    }
    let data = suite.room::<u8>(0)?;
    let mut late = suite.world.issend(&data, suite.rank, 77)?;
    suite.equal("a synchronous send waits", suite.mpi.test(&mut late)?, None);
    suite.world.recv(&data, suite.rank, 77)?;
    suite.mpi.wait(&mut late)?;
    Ok(())
}

/// Many messages of all ways at once, to the next rank.
fn order(suite: &Suite) -> Outcome {
    const COUNT: usize = 24;
    let (next, before) = suite.neighbours();
    let memory = suite.room::<u32>(LENGTHS[2] * COUNT)?;
    let into = suite.room::<u32>(LENGTHS[3])?;
    let mut sends = [Request::NULL; COUNT];
    for (at, send) in sends.iter_mut().enumerate() {
        let len = [1, LENGTHS[2], 0][at % 3];
        let data = memory.part(at * LENGTHS[2], len)?;
        if len > 0 {
            data.part(0, 1)?.write(&[at as u32])?;
        }
        *send = suite.world.isend(&data, next, if at % 2 == 0 { 1 } else { 2 })?;
    }
    for parity in [1, 0] {
        for at in (parity..COUNT).step_by(2) {
            let status = suite.world.recv(&into, before, parity as i32 + 1)?;
            let len = [1, LENGTHS[2], 0][at % 3];
            suite.equal("in order, length", status.len, 4 * len);
            if len > 0 {
                suite.equal("in order, value", suite.values::<u32, 1>(&into)?[0], at as u32);
            }
        }
    }
    suite.mpi.wait_all(&mut sends, &mut [])
}

fn wildcards(suite: &Suite) -> Outcome {
    if suite.rank > 0 {
        let data = suite.numbers(&[suite.rank])?;
        suite.world.send(&data, 0, suite.rank)?;
        return suite.world.send(&data, 0, 1000);
    }
    let into = suite.room::<i32>(1)?;
    let mut seen = 0u64;
    for _ in 1..suite.size {
        let status = suite.world.recv(&into, ANY_SOURCE, 1000)?;
        suite.equal("any source", suite.values::<i32, 1>(&into)?[0], status.source);
        seen |= 1 << (status.source % 64);
    }
    suite.equal("all sources", seen.count_ones() as i32, (suite.size - 1).min(64));
    for source in 1..suite.size {
        let status = suite.world.recv(&into, source, ANY_TAG)?;
        suite.equal("any tag", (status.source, status.tag), (source, source));
    }
    Ok(())
}

fn truncation(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let mut out = Pattern::room(suite)?;
    let into = suite.room::<u32>(LENGTHS[3])?;
    for len in &LENGTHS[1..] {
        into.part(len - 1, 1)?.write(&[0xabcd_u32])?;
        let room = into.part(0, len - 1)?;
        let mut receive = suite.world.irecv(&room, before, 3)?;
        let mut send = suite.world.isend(&out.fill(*len, 3)?, next, 3)?;
        let outcome = suite.mpi.wait(&mut receive);
        suite.equal("truncated", outcome.map_err(|error| error.class()), Err(Class::Truncate));
        suite.equal("truncated send", suite.mpi.wait(&mut send).map(drop), Ok(()));
        suite.equal("nothing behind", suite.values::<u32, 1>(&into.part(len - 1, 1)?)?[0], 0xabcd);
    }
    Ok(())
}

fn probes(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let mut out = Pattern::room(suite)?;
    let mut sends = [Request::NULL; 2];
    sends[0] = suite.world.isend(&out.fill(LENGTHS[3], 9)?, next, 4)?;
    sends[1] = suite.world.isend(&out.part(5)?, next, 5)?;
    let status = suite.world.probe(before, 5)?;
    suite.equal("probe", (status.source, status.tag, status.len), (before, 5, 20));
    suite.equal("probe of nothing", suite.world.iprobe(before, 6)?, None);
    let (message, status) = suite.world.mprobe(before, 4)?;
    suite.equal("matched probe", status.len, 4 * LENGTHS[3]);
    suite.equal("taken out of reach", suite.world.iprobe(before, 4)?, None);
    let into = Pattern::room(suite)?;
    suite.world.recv(&into.part(5)?, before, 5)?;
    let status = suite.world.mrecv(&into.part(LENGTHS[3])?, message)?;
    suite.equal("matched receive", (status.tag, status.len), (4, 4 * LENGTHS[3]));
    suite.that("its data", into.holds(LENGTHS[3], 9)?);
    suite.mpi.wait_all(&mut sends, &mut [])
}

fn cancel(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let (first, second) = (suite.room::<i32>(1)?, suite.room::<i32>(1)?);
    let mut cancelled = suite.world.irecv(&first, before, 6)?;
    let mut other = suite.world.irecv(&second, before, 6)?;
    suite.mpi.cancel(&cancelled)?;
    suite.that("cancelled", suite.mpi.wait(&mut cancelled)?.cancelled);
    // Nobody sends before the next one has cancelled.
    let nothing = suite.room::<i32>(0)?;
    suite.world.sendrecv(&nothing, before, 7, &nothing, next, 7)?;
    let mut send = suite.world.isend(&suite.numbers(&[suite.rank])?, next, 6)?;
    suite.that("the other is not", !suite.mpi.wait(&mut other)?.cancelled);
    suite.equal("its value", suite.values::<i32, 1>(&second)?[0], before);
    suite.equal("untouched", suite.values::<i32, 1>(&first)?[0], 0);
    suite.mpi.wait(&mut send).map(drop)
}

/// Test, any, some, all.
fn completion(suite: &Suite) -> Outcome {
    const COUNT: usize = 6;
    let (next, before) = suite.neighbours();
    let (out, into) = (suite.room::<i32>(COUNT)?, suite.room::<i32>(COUNT)?);
    let mut statuses = [Status::EMPTY; COUNT];
    for round in 0..4 {
        let (mut receives, mut sends) = ([Request::NULL; COUNT], [Request::NULL; COUNT]);
        for (at, receive) in receives.iter_mut().enumerate() {
            *receive = suite.world.irecv(&into.part(at, 1)?, before, at as i32)?;
        }
        for at in (0..COUNT).rev() {
            out.part(at, 1)?.write(&[100 * round + at as i32])?;
            sends[at] = suite.world.isend(&out.part(at, 1)?, next, at as i32)?;
        }
        match round {
            0 => suite.mpi.wait_all(&mut receives, &mut statuses)?,
            1 => {
                let mut seen = [false; COUNT];
                while let Some((place, status)) = suite.mpi.wait_any(&mut receives)? {
                    suite.equal("any", status?.tag, place as i32);
                    seen[place] = true;
                }
                suite.equal("any, all of them", seen, [true; COUNT]);
            }
            2 => {
                let (mut places, mut total) = ([0; COUNT], 0);
                while let Some((count, outcome)) =
                    suite.mpi.wait_some(&mut receives, &mut places, &mut statuses)?
                {
                    outcome?;
                    suite.that("some", count > 0);
                    for (place, status) in places.iter().zip(&statuses).take(count) {
                        suite.equal("some, which", status.tag, *place as i32);
                    }
                    total += count;
                }
                suite.equal("some, all of them", total, COUNT);
            }
            _ => {
                while !suite.mpi.test_all(&mut receives, &mut statuses)? {}
                suite.equal("all, last", statuses[COUNT - 1].tag, COUNT as i32 - 1);
            }
        }
        suite.that("null", receives.iter().all(Request::is_null));
        let values = suite.values::<i32, COUNT>(&into)?;
        suite.equal("values", values, core::array::from_fn(|at| 100 * round + at as i32));
        suite.mpi.wait_all(&mut sends, &mut [])?;
    }
    suite.equal("any of none", suite.mpi.wait_any(&mut [Request::NULL])?, None);
    suite.equal("test any of none", suite.mpi.test_any(&mut [])?, Some(None));
    suite.equal("null is over", suite.mpi.test(&mut Request::NULL.clone())?, Some(Status::EMPTY));
    Ok(())
}

fn persistent(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let (out, into) = (suite.room::<i32>(1)?, suite.room::<i32>(1)?);
    let mut requests = [suite.world.recv_init(&into, before, 8)?, suite.world.send_init(&out, next, 8)?];
    suite.equal("inactive", suite.mpi.test(&mut requests[0])?, Some(Status::EMPTY));
    for round in 0..5 {
        out.write(&[round])?;
        suite.mpi.start_all(&requests)?;
        let twice = suite.mpi.start(&requests[0]).map_err(|error| error.class());
        suite.equal("started twice", twice, Err(Class::Request));
        suite.mpi.wait_all(&mut requests, &mut [])?;
        suite.equal("round", suite.values::<i32, 1>(&into)?[0], round);
        suite.that("stays", !requests[0].is_null());
    }
    for request in &mut requests {
        suite.mpi.request_free(request)?;
        suite.that("freed", request.is_null());
    }
    Ok(())
}

fn buffered(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    let data = suite.numbers(&[suite.rank; 100])?;
    let none = suite.world.bsend(&data, next, 9).map_err(|error| error.class());
    suite.equal("without a buffer", none, Err(Class::Buffer));
    suite.mpi.buffer_attach(suite.memory(2 * (data.bytes() + BSEND_OVERHEAD))?)?;
    let none = suite.mpi.buffer_attach(suite.memory(8)?).map_err(|error| error.class());
    suite.equal("a second buffer", none, Err(Class::Buffer));
    suite.world.bsend(&data, next, 9)?;
    data.write(&[-1; 100])?;
    let into = suite.room::<i32>(100)?;
    suite.world.recv(&into, before, 9)?;
    suite.equal("as it was", suite.values::<i32, 100>(&into)?, [before; 100]);
    let memory = suite.mpi.buffer_detach()?;
    suite.equal("the same memory", memory.len(), 2 * (data.bytes() + BSEND_OVERHEAD));
    Ok(())
}

fn exchange(suite: &Suite) -> Outcome {
    let (next, before) = suite.neighbours();
    for len in [1, 2000] {
        let (out, into) = (suite.room::<i32>(len)?, suite.room::<i32>(len)?);
        out.part(len - 1, 1)?.write(&[suite.rank])?;
        let status = suite.world.sendrecv(&out, next, 1, &into, before, 1)?;
        suite.equal("sendrecv", (status.source, status.len), (before, 4 * len));
        suite.equal("its data", suite.values::<i32, 1>(&into.part(len - 1, 1)?)?[0], before);
        suite.world.sendrecv_replace(&out, next, 2, before, 2)?;
        suite.equal("replaced", suite.values::<i32, 1>(&out.part(len - 1, 1)?)?[0], before);
    }
    Ok(())
}

fn nobody(suite: &Suite) -> Outcome {
    let data = suite.room::<i32>(1)?;
    suite.world.send(&data, PROC_NULL, 1)?;
    let status = suite.world.recv(&data, PROC_NULL, ANY_TAG)?;
    suite.equal("nobody", (status.source, status.tag, status.len), (PROC_NULL, ANY_TAG, 0));
    suite.equal("probe of nobody", suite.world.probe(PROC_NULL, 1)?, Status::NOBODY);
    Ok(())
}

fn mistakes(suite: &Suite) -> Outcome {
    let data = suite.room::<i32>(1)?;
    let class = |outcome: Result<(), Error>| outcome.map_err(|error| error.class());
    suite.equal("rank", class(suite.world.send(&data, suite.size, 0)), Err(Class::Rank));
    suite.equal("any rank", class(suite.world.send(&data, ANY_SOURCE, 0)), Err(Class::Rank));
    suite.equal("tag", class(suite.world.send(&data, 0, -5)), Err(Class::Tag));
    suite.equal("source", class(suite.world.recv(&data, suite.size, 0).map(drop)), Err(Class::Rank));
    suite.equal("wrong tag", class(suite.world.recv(&data, 0, -5).map(drop)), Err(Class::Tag));
    Ok(())
}
