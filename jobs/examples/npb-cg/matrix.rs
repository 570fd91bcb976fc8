//! The benchmark's random sparse symmetric matrix, and one task's block of it.
//!
//! The matrix is the sum over i of w_i x_i x_i', plus 0.1 - shift on the diagonal. Each x_i has nonzeros at random
//! places and 0.5 at place i; the weights w_i fall geometrically from 1 to 0.1. All tasks draw all vectors, as the
//! places drawn decide how far the generator goes, and keep what falls into their block.

use super::class::Class;
use super::npb::machine::Machine;
use super::npb::random::{Random, SEED};
use core::ops::Range;

/// Ratio of the last weight to the first, and what is added to the diagonal.
const CONDITION: f64 = 0.1;
/// Every vector x_i has this at place i.
const OWN_VALUE: f64 = 0.5;

/// A block of a sparse matrix: its rows, one after the other, as pairs of a column and a value.
pub struct Block {
    /// Where each row starts, and the end of the last.
    starts: &'static mut [u32],
    /// Counted from the block's first.
    columns: &'static mut [u32],
    values: &'static mut [f64],
}

/// The vectors x_i: at most `stride` places and values of each.
struct Vectors {
    stride: usize,
    lens: &'static mut [u32],
    places: &'static mut [u32],
    values: &'static mut [f64],
}

impl Vectors {
    fn draw<M: Machine>(machine: &mut M, class: &Class) -> Result<Self, M::Error> {
        let (order, stride) = (class.order, class.nonzeros + 1);
        let mut vectors = Self {
            stride,
            lens: machine.indices(order)?,
            places: machine.indices(order * stride)?,
            values: machine.reals(order * stride)?,
        };
        // The benchmark throws the first number away.
        let mut random = Random::after(SEED, 1);
        for number in 0..order {
            vectors.draw_one(&mut random, number, class);
        }
        Ok(vectors)
    }

    /// Vector `number`: values at distinct random places, then its own value at its own place.
    fn draw_one(&mut self, random: &mut Random, number: usize, class: &Class) {
        let start = number * self.stride;
        let places = &mut self.places[start..start + self.stride];
        let values = &mut self.values[start..start + self.stride];
        // Places are drawn below a power of two, and again if they lie outside.
        let range = class.order.next_power_of_two() as f64;
        let mut len = 0;
        while len < class.nonzeros {
            let value = random.next();
            let place = (range * random.next()) as u32;
            if (place as usize) < class.order && !places[..len].contains(&place) {
                (places[len], values[len]) = (place, value);
                len += 1;
            }
        }
        let own = places[..len].iter().position(|&place| place as usize == number).unwrap_or(len);
        (places[own], values[own]) = (number as u32, OWN_VALUE);
        self.lens[number] = len.max(own + 1) as u32;
    }

    /// Places and values of a vector.
    fn entries(&self, number: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let range = number * self.stride..number * self.stride + self.lens[number] as usize;
        let places = self.places[range.clone()].iter().map(|&place| place as usize);
        places.zip(self.values[range].iter().copied())
    }
}

impl Block {
    /// These rows and columns of the class's matrix, less its shift.
    pub fn of<M: Machine>(
        machine: &mut M,
        class: &Class,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Result<Self, M::Error> {
        let vectors = Vectors::draw(machine, class)?;
        // Room for each product's entries, though some of different products meet.
        let starts = machine.indices(rows.len() + 1)?;
        for number in 0..class.order {
            let inside = vectors.entries(number).filter(|(place, _)| columns.contains(place)).count() as u32;
            for (place, _) in vectors.entries(number).filter(|(place, _)| rows.contains(place)) {
                starts[place - rows.start + 1] += inside;
            }
        }
        for row in 1..starts.len() {
            starts[row] += starts[row - 1];
        }
        let room = starts[rows.len()] as usize;
        let mut block = Self { starts, columns: machine.indices(room)?, values: machine.reals(room)? };
        let ends = machine.indices(rows.len())?;
        ends.copy_from_slice(&block.starts[..rows.len()]);
        let ratio = libm::pow(CONDITION, 1.0 / class.order as f64);
        let mut weight = 1.0;
        for number in 0..class.order {
            for (row, value) in vectors.entries(number).filter(|(place, _)| rows.contains(place)) {
                let end = &mut ends[row - rows.start];
                for (column, other) in vectors.entries(number).filter(|(place, _)| columns.contains(place)) {
                    let own = row == column && column == number;
                    let diagonal = if own { CONDITION - class.shift } else { 0.0 };
                    block.columns[*end as usize] = (column - columns.start) as u32;
                    block.values[*end as usize] = weight * value * other + diagonal;
                    *end += 1;
                }
            }
            weight *= ratio;
        }
        block.merge(machine.indices(columns.len())?);
        Ok(block)
    }

    /// Adds up entries of the same place. `seen` is a zero for each column.
    fn merge(&mut self, seen: &mut [u32]) {
        let mut end = 0;
        for row in 0..self.starts.len() - 1 {
            let entries = self.starts[row] as usize..self.starts[row + 1] as usize;
            let first = end;
            for entry in entries {
                let (column, value) = (self.columns[entry], self.values[entry]);
                // One past the place where the column's last entry went: of this row if behind its first.
                let last = &mut seen[column as usize];
                if *last as usize > first {
                    self.values[*last as usize - 1] += value;
                } else {
                    (self.columns[end], self.values[end]) = (column, value);
                    end += 1;
                    *last = end as u32;
                }
            }
            self.starts[row] = first as u32;
        }
        if let Some(last) = self.starts.last_mut() {
            *last = end as u32;
        }
    }

    /// `product` becomes the block times `vector`, which are as long as the block has rows and columns.
    pub fn times(&self, vector: &[f64], product: &mut [f64]) {
        for (row, sum) in product.iter_mut().enumerate() {
            let entries = self.starts[row] as usize..self.starts[row + 1] as usize;
            let entries = self.columns[entries.clone()].iter().zip(&self.values[entries]);
            *sum = entries.map(|(&column, value)| value * vector[column as usize]).sum();
        }
    }
}
