//! What a benchmark needs of the machine: memory, groups of tasks, collectives over groups, a clock, and where it can print.

use core::fmt::Arguments;

/// The tasks `first`, `first + stride`, ..., `count` of them. A member's rank is its place in this sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tasks {
    /// Number of the first task.
    pub first: usize,
    /// From one task to the next.
    pub stride: usize,
    /// How many; at least 1.
    pub count: usize,
}

impl Tasks {
    /// All of `count` tasks.
    pub fn all(count: usize) -> Self {
        Self { first: 0, stride: 1, count }
    }

    /// The task with this rank.
    pub fn member(self, rank: usize) -> usize {
        self.first + rank * self.stride
    }

    /// The rank of a task that is a member.
    pub fn rank(self, task: usize) -> usize {
        (task - self.first) / self.stride
    }
}

/// All tasks as a matrix, numbered row by row, and one task's place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns, a multiple of the rows where the grid is as square as can be.
    pub columns: usize,
    /// The task's row.
    pub row: usize,
    /// The task's column.
    pub column: usize,
}

impl Grid {
    /// The grid with this number of rows, which divides `tasks`.
    pub fn with_rows(rows: usize, task: usize, tasks: usize) -> Self {
        let columns = tasks / rows;
        Self { rows, columns, row: task / columns, column: task % columns }
    }

    /// The most nearly square grid whose number of columns is a multiple of that of its rows.
    pub fn square(task: usize, tasks: usize) -> Self {
        let rows = (1..=tasks.isqrt()).rev().find(|rows| tasks.is_multiple_of(rows * rows));
        Self::with_rows(rows.unwrap_or(1), task, tasks)
    }

    /// The tasks of the task's row, by column.
    pub fn row_tasks(&self) -> Tasks {
        Tasks { first: self.row * self.columns, stride: 1, count: self.columns }
    }

    /// The tasks of the task's column, by row.
    pub fn column_tasks(&self) -> Tasks {
        Tasks { first: self.column, stride: self.columns, count: self.rows }
    }
}

/// One task's view of the machine. All members of a group call its collectives in the same order and with slices of
/// the same lengths, unless it says otherwise. What they send is lent for the call, and is as it was after it; results are the same bits at every member and in every run. Groups
/// that bring the same values may add them in another order, by where their members are.
pub trait Machine {
    /// A group of tasks, ready for collectives.
    type Group;
    /// What can go wrong.
    type Error;

    /// The task's number.
    fn task(&self) -> usize;

    /// How many tasks there are.
    fn tasks(&self) -> usize;

    /// Nanoseconds of the task's clock.
    fn now_ns(&self) -> u64;

    /// Prints a line, at task 0.
    fn say(&self, line: Arguments);

    /// `len` zeros that the benchmark keeps.
    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], Self::Error>;

    /// `len` zeros that the benchmark keeps.
    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], Self::Error>;

    /// Calls `work` on each of the task's threads at the same time, with the thread's number and how many there are,
    /// and hands what they return to `take`, in the order of threads.
    fn on_threads<T: Send + 'static>(
        &mut self,
        work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
        take: impl FnMut(T),
    ) -> Result<(), Self::Error>;

    /// The group of `tasks`, of which this task is a member; every member calls this. Tasks that make groups which
    /// do not meet, such as the rows of a grid, do so in the same order.
    fn group(&mut self, tasks: Tasks) -> Result<Self::Group, Self::Error>;

    /// Returns when every member has called it.
    fn barrier(&mut self, group: &Self::Group) -> Result<(), Self::Error>;

    /// Replaces `values` by their sums over the group.
    fn sum(&mut self, group: &Self::Group, values: &mut [f64]) -> Result<(), Self::Error>;

    /// Replaces `values` by their sums over the group.
    fn sum_indices(&mut self, group: &Self::Group, values: &mut [u32]) -> Result<(), Self::Error>;

    /// `all` becomes the `mine` of every member, in the order of ranks.
    fn all_gather(
        &mut self,
        group: &Self::Group,
        mine: &mut [f64],
        all: &mut [f64],
    ) -> Result<(), Self::Error>;

    /// `send` is one block for each member, in the order of ranks and all of one length; `received` becomes the
    /// blocks for this task, in the order of their senders.
    fn all_to_all(
        &mut self,
        group: &Self::Group,
        send: &mut [f64],
        received: &mut [f64],
    ) -> Result<(), Self::Error>;

    /// As [`all_to_all`](Self::all_to_all), with blocks of any lengths, which differ from task to task: the one for
    /// rank `r` is `send[starts[r]..starts[r + 1]]`. Returns how many values came.
    ///
    /// # Errors
    /// Among others, that more came than there is room for.
    fn all_to_all_indices(
        &mut self,
        group: &Self::Group,
        send: &mut [u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, Self::Error>;

    /// Swaps data with a task that names this one as its partner; with itself, copies.
    fn exchange(&mut self, partner: usize, send: &mut [f64], received: &mut [f64])
    -> Result<(), Self::Error>;
}
