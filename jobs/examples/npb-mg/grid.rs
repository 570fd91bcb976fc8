//! Blocks of a periodic grid: one task's points and a layer of ghosts, copies of its neighbours' points.

use super::npb::machine::Machine;

/// A number for each of the dimensions x, y, z.
pub type Triple = [usize; 3];

/// The tasks as a box whose extents are powers of two, x running fastest, and one task's place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskBox {
    /// Tasks in each dimension.
    pub extents: Triple,
    /// The task's coordinates.
    pub place: Triple,
}

impl TaskBox {
    /// The box for `tasks`, a power of two: z is cut first, x last.
    pub fn new(task: usize, tasks: usize) -> Self {
        let cuts = tasks.ilog2() as usize;
        let extents = [0, 1, 2].map(|dimension| 1 << ((cuts + dimension) / 3));
        Self { extents, place: Self::place_of(extents, task) }
    }

    fn place_of([x, y, _]: Triple, task: usize) -> Triple {
        [task % x, task / x % y, task / (x * y)]
    }

    /// The coordinates of any task.
    pub fn coordinates(&self, task: usize) -> Triple {
        Self::place_of(self.extents, task)
    }

    /// The neighbour one up or down a dimension, around the end.
    fn neighbour(&self, dimension: usize, up: bool) -> usize {
        let extent = self.extents[dimension];
        let mut place = self.place;
        place[dimension] = (place[dimension] + if up { 1 } else { extent - 1 }) % extent;
        place[0] + self.extents[0] * (place[1] + self.extents[1] * place[2])
    }
}

/// The shape of a block of points with ghosts all around, x running fastest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Block {
    /// Points in each dimension, without ghosts.
    pub points: Triple,
}

impl Block {
    /// Points and ghosts.
    pub fn len(&self) -> usize {
        self.points.iter().map(|points| points + 2).product()
    }

    /// Points without ghosts.
    pub fn inner(&self) -> usize {
        self.points.iter().product()
    }

    /// From one point to the next in each dimension.
    pub fn strides(&self) -> Triple {
        let x = self.points[0] + 2;
        [1, x, x * (self.points[1] + 2)]
    }

    /// Where a point lies; 0 is the lower ghost, 1 the first point.
    pub fn at(&self, [x, y, z]: Triple) -> usize {
        let strides = self.strides();
        x + y * strides[1] + z * strides[2]
    }

    /// Values of a face's layer, ghosts of the other two dimensions included.
    fn face(&self, dimension: usize) -> usize {
        self.len() / (self.points[dimension] + 2)
    }

    /// Calls `visit` with the place of each value of a layer, in order.
    fn layer(&self, dimension: usize, layer: usize, mut visit: impl FnMut(usize)) {
        let strides = self.strides();
        let (inner, outer) = match dimension {
            0 => (1, 2),
            1 => (0, 2),
            _ => (0, 1),
        };
        for o in 0..self.points[outer] + 2 {
            for i in 0..self.points[inner] + 2 {
                visit(layer * strides[dimension] + i * strides[inner] + o * strides[outer]);
            }
        }
    }

    /// Calls `visit` for each row of points along x with the place of its first.
    pub fn rows(&self, mut visit: impl FnMut(usize)) {
        for z in 1..=self.points[2] {
            for y in 1..=self.points[1] {
                visit(self.at([1, y, z]));
            }
        }
    }

    /// Values of the largest face.
    fn largest_face(&self) -> usize {
        (0..3).map(|dimension| self.face(dimension)).max().unwrap_or(0)
    }
}

/// Fills ghosts.
pub struct Ghosts {
    tasks: TaskBox,
    out: &'static mut [f64],
    back: &'static mut [f64],
}

impl Ghosts {
    /// For blocks that are not wider than `largest`, or `whole`.
    pub fn new<M: Machine>(machine: &mut M, tasks: TaskBox, largest: Block) -> Result<Self, M::Error> {
        let room = largest.largest_face();
        Ok(Self { tasks, out: machine.reals(room)?, back: machine.reals(room)? })
    }

    /// Fills a block's ghosts from the neighbours' blocks; `whole` blocks are the whole grid, and their own
    /// neighbours. One dimension after the other, with the ghosts of those before, so that edges and corners come
    /// right.
    pub fn fill<M: Machine>(
        &mut self,
        machine: &mut M,
        block: Block,
        whole: bool,
        field: &mut [f64],
    ) -> Result<(), M::Error> {
        for dimension in 0..3 {
            let points = block.points[dimension];
            if whole || self.tasks.extents[dimension] == 1 {
                let stride = block.strides()[dimension];
                block.layer(dimension, 0, |at| field[at] = field[at + points * stride]);
                block.layer(dimension, points + 1, |at| field[at] = field[at - points * stride]);
                continue;
            }
            // Tasks with even coordinates turn up first, the others down, so that each swap has two willing sides.
            let even = self.tasks.place[dimension].is_multiple_of(2);
            for up in [even, !even] {
                let (mine, ghosts) = if up { (points, points + 1) } else { (1, 0) };
                let neighbour = self.tasks.neighbour(dimension, up);
                let face = block.face(dimension);
                let (out, back) = (&mut self.out[..face], &mut self.back[..face]);
                let mut values = out.iter_mut();
                block.layer(dimension, mine, |at| {
                    if let Some(value) = values.next() {
                        *value = field[at];
                    }
                });
                machine.exchange(neighbour, out, back)?;
                let mut values = back.iter();
                block.layer(dimension, ghosts, |at| {
                    if let Some(value) = values.next() {
                        field[at] = *value;
                    }
                });
            }
        }
        Ok(())
    }
}
