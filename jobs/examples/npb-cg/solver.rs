//! The inverse power method on a grid of tasks, each step solved by conjugate gradients.
//!
//! Task (r, c) of R rows and C columns, C a multiple of R, holds one block of the matrix and part c of every vector;
//! a column's tasks hold the same. A product's parts are summed along the row of tasks, which leaves rows of the
//! matrix where columns are wanted; a swap with one partner puts them right.

use super::class::Class;
use super::matrix::Block;
use super::npb::machine::{Grid, Machine, Tasks};
use core::ops::Range;

/// Steps of conjugate gradients for each solution.
const STEPS: u32 = 25;

/// One task's part of the matrix, and how parts of products become those of a vector.
struct Operator<M: Machine> {
    block: Block,
    row_group: M::Group,
    all_tasks: M::Group,
    /// Whether this task's parts of vectors are those that count in sums over whole vectors.
    counts: bool,
    /// Holds the part of each product that this task needs, and needs one of its.
    partner: usize,
    /// Where that part lies among the rows of this task's block.
    partners_part: Range<usize>,
    /// A product, before it is summed and swapped.
    rows: &'static mut [f64],
}

/// One task's part of the solver. Any number of tasks: any has a grid.
pub struct Solver<M: Machine> {
    operator: Operator<M>,
    shift: f64,
    /// The eigenvector's estimate.
    x: &'static mut [f64],
    z: &'static mut [f64],
    p: &'static mut [f64],
    q: &'static mut [f64],
    r: &'static mut [f64],
}

/// What one step of the power method computes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Norm of the residual that the conjugate gradients left.
    pub residual: f64,
    /// Estimate of the eigenvalue.
    pub zeta: f64,
}

impl<M: Machine> Operator<M> {
    /// The operator, and the length of its vectors' parts here.
    fn new(machine: &mut M, class: &Class) -> Result<(Self, usize), M::Error> {
        let grid = Grid::square(machine.task(), machine.tasks());
        let bound = |column: usize| class.order * column / grid.columns;
        let wide = grid.columns / grid.rows;
        let rows = bound(grid.row * wide)..bound((grid.row + 1) * wide);
        let columns = bound(grid.column)..bound(grid.column + 1);
        // This task's part of a product comes out in the row of tasks c / wide. The rule which of that row's tasks
        // gives it to which task is its own inverse.
        let partner_row = grid.column / wide;
        let partner_column = grid.row * wide + grid.column % wide;
        let part_of = |column: usize| bound(column) - rows.start..bound(column + 1) - rows.start;
        let len = columns.len();
        let operator = Self {
            block: Block::of(machine, class, rows.clone(), columns)?,
            row_group: machine.group(grid.row_tasks())?,
            all_tasks: machine.group(Tasks::all(machine.tasks()))?,
            counts: grid.row == 0,
            partner: partner_row * grid.columns + partner_column,
            partners_part: part_of(partner_column),
            rows: machine.reals(rows.len())?,
        };
        Ok((operator, len))
    }

    /// `product` becomes A times `vector`.
    fn multiply(&mut self, machine: &mut M, vector: &[f64], product: &mut [f64]) -> Result<(), M::Error> {
        self.block.times(vector, self.rows);
        machine.sum(&self.row_group, self.rows)?;
        machine.exchange(self.partner, &mut self.rows[self.partners_part.clone()], product)
    }

    /// Sums over all parts of a vector, which lie along each row of tasks. All tasks get the same bits: rows that summed each
    /// for itself might round differently, and the copies of a vector that a column's tasks hold would drift apart.
    fn sums<const N: usize>(&self, machine: &mut M, mut values: [f64; N]) -> Result<[f64; N], M::Error> {
        if !self.counts {
            values.fill(0.0);
        }
        machine.sum(&self.all_tasks, &mut values)?;
        Ok(values)
    }
}

impl<M: Machine> Solver<M> {
    /// Makes the matrix.
    pub fn new(machine: &mut M, class: &Class) -> Result<Self, M::Error> {
        let (operator, len) = Operator::new(machine, class)?;
        Ok(Self {
            operator,
            shift: class.shift,
            x: machine.reals(len)?,
            z: machine.reals(len)?,
            p: machine.reals(len)?,
            q: machine.reals(len)?,
            r: machine.reals(len)?,
        })
    }

    /// Sets the estimate of the eigenvector to ones.
    pub fn restart(&mut self) {
        self.x.fill(1.0);
    }

    /// One step of the power method.
    pub fn step(&mut self, machine: &mut M) -> Result<Step, M::Error> {
        let residual = self.conjugate_gradients(machine)?;
        let mine = [dot(self.x, self.z), dot(self.z, self.z)];
        let [projection, square] = self.operator.sums(machine, mine)?;
        let scale = 1.0 / libm::sqrt(square);
        for (x, z) in self.x.iter_mut().zip(self.z.iter()) {
            *x = scale * z;
        }
        Ok(Step { residual, zeta: self.shift + 1.0 / projection })
    }

    /// Solves A z = x, about. Returns the norm of the residual.
    fn conjugate_gradients(&mut self, machine: &mut M) -> Result<f64, M::Error> {
        let Self { operator, x, z, p, q, r, .. } = self;
        z.fill(0.0);
        r.copy_from_slice(x);
        p.copy_from_slice(r);
        let [mut rho] = operator.sums(machine, [dot(r, r)])?;
        for _ in 0..STEPS {
            operator.multiply(machine, p, q)?;
            let [curvature] = operator.sums(machine, [dot(p, q)])?;
            let alpha = rho / curvature;
            for (z, p) in z.iter_mut().zip(p.iter()) {
                *z += alpha * p;
            }
            for (r, q) in r.iter_mut().zip(q.iter()) {
                *r -= alpha * q;
            }
            let before = rho;
            [rho] = operator.sums(machine, [dot(r, r)])?;
            let beta = rho / before;
            for (p, r) in p.iter_mut().zip(r.iter()) {
                *p = r + beta * *p;
            }
        }
        operator.multiply(machine, z, q)?;
        let mine = x.iter().zip(q.iter()).map(|(x, q)| (x - q) * (x - q)).sum();
        let [square] = operator.sums(machine, [mine])?;
        Ok(libm::sqrt(square))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
