//! The machine that is an MPI program: `xtask/peers/npb.c` calls the one function here, and has those that are called.
//!
//! What MPI is lent lies where the benchmark has it. An error of MPI's ends the program, as MPI does by itself.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Arguments;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use super::Error;
use super::npb::machine::{Machine, Tasks};

/// All tasks of the program.
struct World;

/// A communicator, by its number at the other side, and its size.
struct Group {
    number: c_int,
    size: usize,
}

// SAFETY: these are the functions of xtask/peers/npb.c, with these types.
unsafe extern "C" {
    /// The task's number, and how many there are.
    safe fn npb_task() -> c_int;
    safe fn npb_tasks() -> c_int;
    /// Of the tasks that name the same first one, in the order of their ranks.
    safe fn npb_group(first: c_int, rank: c_int) -> c_int;
    safe fn npb_barrier(group: c_int);
    /// `count` values, in their place.
    fn npb_sum_reals(group: c_int, values: *mut f64, count: c_int);
    fn npb_sum_indices(group: c_int, values: *mut u32, count: c_int);
    /// `count` values of each member.
    fn npb_all_gather(group: c_int, mine: *const f64, all: *mut f64, count: c_int);
    /// `count` values for each member, and of each.
    fn npb_all_to_all(group: c_int, send: *const f64, received: *mut f64, count: c_int);
    /// One number for each member, and of each.
    fn npb_all_to_all_counts(group: c_int, send: *const c_int, received: *mut c_int);
    /// Counts and displacements are one for each member.
    fn npb_all_to_all_indices(
        group: c_int,
        send: *const u32,
        going: *const c_int,
        going_at: *const c_int,
        received: *mut u32,
        coming: *const c_int,
        coming_at: *const c_int,
    );
    fn npb_exchange(partner: c_int, send: *const f64, sent: c_int, received: *mut f64, room: c_int);
}

/// Runs the benchmark `name` of the class `class`: 0 if its results are the official ones.
///
/// # Safety
/// Both are strings that a zero ends.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn npb_run(name: *const c_char, class: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let [name, class] = [name, class].map(|word| unsafe { CStr::from_ptr(word) }.to_string_lossy());
    match super::run(&name, &class, &mut World) {
        Ok(true) => 0,
        Ok(false) => {
            eprintln!("{name}: the result is not the official one");
            1
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            2
        }
    }
}

/// A length as MPI counts.
fn count(len: usize) -> c_int {
    c_int::try_from(len).expect("MPI counts no further")
}

/// So many zeros for ever, all touched now, as a node's are.
fn zeros<T: Copy>(len: usize, zero: T) -> &'static mut [T] {
    let mut values = black_box(Vec::with_capacity(len));
    values.resize(len, zero);
    values.leak()
}

/// Displacements of blocks that follow each other, and their sum.
fn follow(counts: &[c_int]) -> (Vec<c_int>, usize) {
    let mut next = 0;
    let at = counts.iter().map(|&count| {
        next += count;
        next - count
    });
    (at.collect(), next as usize)
}

impl Machine for World {
    type Group = Group;
    type Error = Error;

    fn task(&self) -> usize {
        npb_task() as usize
    }

    fn tasks(&self) -> usize {
        npb_tasks() as usize
    }

    fn now_ns(&self) -> u64 {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn say(&self, line: Arguments) {
        if npb_task() == 0 {
            println!("{line}");
        }
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], Error> {
        Ok(zeros(len, 0.0))
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], Error> {
        Ok(zeros(len, 0))
    }

    fn on_threads<T: Send + 'static>(
        &mut self,
        work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
        mut take: impl FnMut(T),
    ) -> Result<(), Error> {
        take(work(0, 1));
        Ok(())
    }

    fn group(&mut self, tasks: Tasks) -> Result<Group, Error> {
        let rank = tasks.rank(self.task());
        let all = tasks == Tasks::all(self.tasks());
        // 0 is that of all.
        let number = if all { 0 } else { npb_group(count(tasks.first), count(rank)) };
        Ok(Group { number, size: tasks.count })
    }

    fn barrier(&mut self, group: &Group) -> Result<(), Error> {
        npb_barrier(group.number);
        Ok(())
    }

    fn sum(&mut self, group: &Group, values: &mut [f64]) -> Result<(), Error> {
        // SAFETY: it reads and writes as many as there are.
        unsafe { npb_sum_reals(group.number, values.as_mut_ptr(), count(values.len())) };
        Ok(())
    }

    fn sum_indices(&mut self, group: &Group, values: &mut [u32]) -> Result<(), Error> {
        // SAFETY: it reads and writes as many as there are.
        unsafe { npb_sum_indices(group.number, values.as_mut_ptr(), count(values.len())) };
        Ok(())
    }

    fn all_gather(&mut self, group: &Group, mine: &mut [f64], all: &mut [f64]) -> Result<(), Error> {
        assert_eq!(all.len(), group.size * mine.len());
        // SAFETY: it reads `mine` and writes as many of each member, for which there is room.
        unsafe { npb_all_gather(group.number, mine.as_ptr(), all.as_mut_ptr(), count(mine.len())) };
        Ok(())
    }

    fn all_to_all(&mut self, group: &Group, send: &mut [f64], received: &mut [f64]) -> Result<(), Error> {
        let block = send.len() / group.size;
        assert!(send.len().min(received.len()) >= block * group.size);
        // SAFETY: it reads a block for each member and writes as many, of which there are so many.
        unsafe { npb_all_to_all(group.number, send.as_ptr(), received.as_mut_ptr(), count(block)) };
        Ok(())
    }

    fn all_to_all_indices(
        &mut self,
        group: &Group,
        send: &mut [u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, Error> {
        let going: Vec<_> = starts.windows(2).map(|pair| count(pair[1] - pair[0])).collect();
        let mut coming = vec![0; group.size];
        assert_eq!(going.len(), group.size);
        // SAFETY: both lists have a number for each member.
        unsafe { npb_all_to_all_counts(group.number, going.as_ptr(), coming.as_mut_ptr()) };
        let send = &send[starts[0]..starts[group.size]];
        let ((going_at, _), (coming_at, total)) = (follow(&going), follow(&coming));
        let room = received.get_mut(..total).ok_or(Error::TooMany(total))?;
        // SAFETY: it reads blocks of `send`, which they fill, and writes blocks of `room`, which they fill. All lists have a
        // number for each member.
        unsafe {
            npb_all_to_all_indices(
                group.number,
                send.as_ptr(),
                going.as_ptr(),
                going_at.as_ptr(),
                room.as_mut_ptr(),
                coming.as_ptr(),
                coming_at.as_ptr(),
            )
        };
        Ok(total)
    }

    fn exchange(&mut self, partner: usize, send: &mut [f64], received: &mut [f64]) -> Result<(), Error> {
        if partner == self.task() {
            received.copy_from_slice(send);
            return Ok(());
        }
        let (sent, room) = (count(send.len()), count(received.len()));
        // SAFETY: it reads as many as are sent, and writes no more than there is room for.
        unsafe { npb_exchange(count(partner), send.as_ptr(), sent, received.as_mut_ptr(), room) };
        Ok(())
    }
}
