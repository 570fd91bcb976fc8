//! A three-dimensional array spread over a grid of tasks, turned so that each dimension in turn lies whole at a task.
//!
//! Task (r, c) of R rows and C columns holds, before the transforms, the pencils along x whose y is in part c of C
//! and whose z is in part r of R. Turned inside its row of tasks, its pencils lie along y, x being cut in C; turned
//! inside its column of tasks, along z, y being cut in R. One row of tasks makes slabs.

use super::class::Class;
use super::fourier::Complex;
use super::npb::machine::{Grid, Machine};

/// A box of elements of an array: extents and strides of three nested loops, the last one the innermost.
#[derive(Clone, Copy)]
struct Walk {
    extents: [usize; 3],
    strides: [usize; 3],
}

impl Walk {
    fn visit(self, mut each: impl FnMut(usize)) {
        let Self { extents, strides } = self;
        for i in 0..extents[0] {
            for j in 0..extents[1] {
                let start = i * strides[0] + j * strides[1];
                for k in 0..extents[2] {
                    each(start + k * strides[2]);
                }
            }
        }
    }
}

/// How the array lies between turns: along which dimension its pencils are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Along {
    /// `[z / R][y / C][x]`
    X,
    /// `[z / R][x / C][y]`
    Y,
    /// `[y / R][x / C][z]`
    Z,
}

/// One task's part of the turns.
pub struct Pencils<M: Machine> {
    grid: Grid,
    extents: [usize; 3],
    row_group: M::Group,
    column_group: M::Group,
}

/// Whether such a grid of tasks can share a class's array: all parts are equal.
pub fn suits(class: &Class, grid: &Grid) -> bool {
    let [x, y, z] = class.extents;
    let powers = grid.rows.is_power_of_two() && grid.columns.is_power_of_two();
    powers && grid.columns <= x.min(y) && grid.rows <= y.min(z)
}

impl<M: Machine> Pencils<M> {
    /// For a grid of tasks that [`suits`].
    pub fn new(machine: &mut M, class: &Class, grid: Grid) -> Result<Self, M::Error> {
        let row_group = machine.group(grid.row_tasks())?;
        let column_group = machine.group(grid.column_tasks())?;
        Ok(Self { grid, extents: class.extents, row_group, column_group })
    }

    /// Elements at this task.
    pub fn len(&self) -> usize {
        self.extents.iter().product::<usize>() / (self.grid.rows * self.grid.columns)
    }

    /// Extents of this task's part of the array, outermost first, and where its outer two begin.
    pub fn part(&self, along: Along) -> ([usize; 3], [usize; 2]) {
        let [x, y, z] = self.extents;
        let Grid { rows, columns, row, column } = self.grid;
        let [outer, middle, inner] = match along {
            Along::X => [z, y, x],
            Along::Y => [z, x, y],
            Along::Z => [y, x, z],
        };
        let (outer, middle) = (outer / rows, middle / columns);
        ([outer, middle, inner], [row * outer, column * middle])
    }

    /// Turns the array between neighbouring arrangements, X and Y or Y and Z. `field` holds it before and after; what
    /// `room`, as long, holds is lost.
    pub fn turn(
        &self,
        machine: &mut M,
        from: Along,
        to: Along,
        field: &mut &'static mut [Complex],
        room: &mut &'static mut [Complex],
    ) -> Result<(), M::Error> {
        let ([outer, middle, inner], _) = self.part(from);
        let ([to_outer, to_middle, to_inner], _) = self.part(to);
        let (plane, to_plane) = (middle * inner, to_middle * to_inner);
        let Grid { rows, columns, .. } = self.grid;
        // The pencils are cut, and join up along the dimension that was cut before; the third stays as it is. A block
        // goes out in the order in which its receiver keeps it.
        let (group, members, cut, out, joined) = if from == Along::X || to == Along::X {
            let cut = inner / columns;
            let out = Walk { extents: [outer, cut, middle], strides: [plane, 1, inner] };
            (&self.row_group, columns, cut, out, middle)
        } else {
            let cut = inner / rows;
            let out = Walk { extents: [cut, middle, outer], strides: [1, inner, plane] };
            (&self.column_group, rows, cut, out, outer)
        };
        let back = Walk { extents: [to_outer, to_middle, joined], strides: [to_plane, to_inner, 1] };
        let mut places = room.iter_mut();
        for member in 0..members {
            out.visit(|at| {
                if let Some(place) = places.next() {
                    *place = field[member * cut + at];
                }
            });
        }
        machine.all_to_all(group, room.as_flattened_mut(), field.as_flattened_mut())?;
        let mut values = field.iter();
        for member in 0..members {
            back.visit(|at| {
                if let Some(value) = values.next() {
                    room[member * joined + at] = *value;
                }
            });
        }
        core::mem::swap(field, room);
        Ok(())
    }
}
