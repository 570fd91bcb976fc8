//! The heat equation by its spectrum: du/dt = alpha laplacian(u) with periodic bounds, each step checksummed.

use super::class::Class;
use super::fourier::{Complex, Roots};
use super::npb::machine::{Grid, Machine, Tasks};
use super::npb::random::{Random, SEED};
use super::pencils::{Along, Pencils};
use core::f64::consts::PI;

const ALPHA: f64 = 1e-6;
/// Elements in a checksum.
const CHECKED: usize = 1024;

/// One task's part of the solver.
pub struct Solver<M: Machine> {
    class: &'static Class,
    pencils: Pencils<M>,
    all_tasks: M::Group,
    roots: Roots,
    /// A pencil's room for its transform.
    line: &'static mut [Complex],
    /// The spectrum now, along z.
    spectrum: &'static mut [Complex],
    field: &'static mut [Complex],
    room: &'static mut [Complex],
    /// By how much each wave number of a dimension decays in a step: x, y, z.
    decays: [&'static mut [f64]; 3],
}

fn complexes<M: Machine>(machine: &mut M, len: usize) -> Result<&'static mut [Complex], M::Error> {
    Ok(machine.reals(2 * len)?.as_chunks_mut().0)
}

impl<M: Machine> Solver<M> {
    /// For a grid of tasks that [`suits`](super::pencils::suits).
    pub fn new(machine: &mut M, class: &'static Class, grid: Grid) -> Result<Self, M::Error> {
        let pencils = Pencils::new(machine, class, grid)?;
        let longest = class.extents.into_iter().max().unwrap_or(1);
        let len = pencils.len();
        let tasks = Tasks::all(machine.tasks());
        let [x, y, z] = class.extents;
        Ok(Self {
            class,
            pencils,
            all_tasks: machine.group(tasks)?,
            roots: Roots::new(complexes(machine, longest / 2)?),
            line: complexes(machine, longest)?,
            spectrum: complexes(machine, len)?,
            field: complexes(machine, len)?,
            room: complexes(machine, len)?,
            decays: [decay(machine.reals(x)?), decay(machine.reals(y)?), decay(machine.reals(z)?)],
        })
    }

    /// Draws the initial state and finds its spectrum.
    pub fn restart(&mut self, machine: &mut M) -> Result<(), M::Error> {
        let ([_, rows, _], [z, y]) = self.pencils.part(Along::X);
        let [extent_x, extent_y, _] = self.class.extents;
        for (number, row) in self.field.chunks_exact_mut(extent_x).enumerate() {
            let (z, y) = (z + number / rows, y + number % rows);
            let mut random = Random::after(SEED, 2 * (extent_x * (y + extent_y * z)) as u64);
            for value in row {
                *value = [random.next(), random.next()];
            }
        }
        self.transform(Along::X, false);
        for (from, to) in [(Along::X, Along::Y), (Along::Y, Along::Z)] {
            self.pencils.turn(machine, from, to, &mut self.field, &mut self.room)?;
            self.transform(to, false);
        }
        self.spectrum.copy_from_slice(self.field);
        Ok(())
    }

    /// Goes on by one step in time. Returns the checksum of the state there.
    pub fn step(&mut self, machine: &mut M) -> Result<Complex, M::Error> {
        let ([_, middle, inner], [y, x]) = self.pencils.part(Along::Z);
        let [decay_x, decay_y, decay_z] = &self.decays;
        let lines = self.spectrum.chunks_exact_mut(inner).zip(self.field.chunks_exact_mut(inner));
        for (number, (spectrum, field)) in lines.enumerate() {
            let decay = decay_y[y + number / middle] * decay_x[x + number % middle];
            for ((value, place), decay_z) in spectrum.iter_mut().zip(field).zip(decay_z.iter()) {
                *value = value.map(|part| part * (decay * decay_z));
                *place = *value;
            }
        }
        self.transform(Along::Z, true);
        for (from, to) in [(Along::Z, Along::Y), (Along::Y, Along::X)] {
            self.pencils.turn(machine, from, to, &mut self.field, &mut self.room)?;
            self.transform(to, true);
        }
        self.checksum(machine)
    }

    /// Transforms all pencils.
    fn transform(&mut self, along: Along, inverse: bool) {
        let ([_, _, len], _) = self.pencils.part(along);
        for pencil in self.field.chunks_exact_mut(len) {
            self.roots.transform(pencil, &mut self.line[..len], inverse);
        }
    }

    /// The sum of the benchmark's choice of elements, scaled as the inverse transform is not.
    fn checksum(&self, machine: &mut M) -> Result<Complex, M::Error> {
        let ([planes, rows, _], [first_z, first_y]) = self.pencils.part(Along::X);
        let [extent_x, extent_y, extent_z] = self.class.extents;
        let mut sum = [0.0; 2];
        for number in 1..=CHECKED {
            let (x, y, z) = (number % extent_x, 3 * number % extent_y, 5 * number % extent_z);
            let inside = |at: usize, first: usize, count| at.checked_sub(first).filter(|&at| at < count);
            if let (Some(z), Some(y)) = (inside(z, first_z, planes), inside(y, first_y, rows)) {
                let value = self.field[(z * rows + y) * extent_x + x];
                sum = [sum[0] + value[0], sum[1] + value[1]];
            }
        }
        machine.sum(&self.all_tasks, &mut sum)?;
        let points = (extent_x * extent_y * extent_z) as f64;
        Ok(sum.map(|part| part / points))
    }
}

/// Fills in exp(-4 alpha pi^2 k^2) for the wave numbers k of one dimension, of which the second half is negative.
fn decay(factors: &'static mut [f64]) -> &'static mut [f64] {
    let len = factors.len();
    for (number, factor) in factors.iter_mut().enumerate() {
        let wave = number.min(len - number) as f64;
        *factor = libm::exp(-4.0 * ALPHA * PI * PI * wave * wave);
    }
    factors
}
