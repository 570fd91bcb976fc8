//! Grids laid into the torus, so that neighbours are neighbours.
//!
//! A dimension of the grid takes some of the torus's dimensions, or of the factors of the number of tasks of a node, whose
//! extents have its length as product, and runs through them as a reflected Gray code does: from each point to the next
//! only one of them changes, by one. Where the first of them is even and a ring, the last point is beside the first.

use super::MAX_DIMS;
use heapless::Vec;
use pami::topology::{TorusCoord, TorusShape};

/// Most factors of a machine: dimensions of a torus, and prime factors of tasks of a node.
const FACTORS: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Axis {
    Torus(usize),
    /// The local number's digit with this weight.
    Local(u32),
}

#[derive(Clone, Copy, Debug)]
struct Factor {
    axis: Axis,
    extent: u32,
    /// Dimension of the grid.
    dimension: usize,
}

/// How a machine's tasks are a grid.
#[derive(Debug)]
pub(crate) struct Embedding(Vec<Factor, FACTORS>);

/// Gives each factor to a dimension of which it divides what is left.
fn assign(factors: &mut [Factor], left: &mut [u32]) -> bool {
    let Some((first, others)) = factors.split_first_mut() else { return left.iter().all(|&left| left == 1) };
    for dimension in 0..left.len() {
        if left[dimension].is_multiple_of(first.extent) {
            left[dimension] /= first.extent;
            if assign(others, left) {
                first.dimension = dimension;
                return true;
            }
            left[dimension] *= first.extent;
        }
    }
    false
}

impl Embedding {
    /// An embedding of a grid of all tasks of a machine, if its shape allows one.
    pub fn find(shape: &TorusShape, per_node: u32, dims: &[u32]) -> Option<Self> {
        let mut factors = Vec::new();
        let torus = (0..shape.dimensions()).filter(|&dimension| shape.extent(dimension) > 1);
        let torus = torus.map(|dimension| {
            let extent = u32::from(shape.extent(dimension));
            let closes = extent.is_multiple_of(2) && (shape.wraps(dimension) || extent == 2);
            (!closes, Factor { axis: Axis::Torus(dimension), extent, dimension: 0 })
        });
        // Those that close a ring come first.
        for wanted in [false, true] {
            for (_, factor) in torus.clone().filter(|(open, _)| *open == wanted) {
                factors.push(factor).ok()?;
            }
        }
        let (mut rest, mut weight, mut prime) = (per_node, 1, 2);
        while rest > 1 {
            // What has no smaller factor is one itself.
            prime = if prime * prime > rest { rest } else { prime };
            if !rest.is_multiple_of(prime) {
                prime += 1;
                continue;
            }
            factors.push(Factor { axis: Axis::Local(weight), extent: prime, dimension: 0 }).ok()?;
            (rest, weight) = (rest / prime, weight * prime);
        }
        let mut left = [1; MAX_DIMS];
        let left = left.get_mut(..dims.len())?;
        left.copy_from_slice(dims);
        assign(&mut factors, left).then_some(Self(factors))
    }

    /// The point of the grid that the task at a place is.
    pub fn coords(&self, node: TorusCoord, local: u32) -> [u32; MAX_DIMS] {
        let mut coords = [0; MAX_DIMS];
        for factor in &self.0 {
            let digit = match factor.axis {
                Axis::Torus(dimension) => u32::from(node.0[dimension]),
                Axis::Local(weight) => local / weight % factor.extent,
            };
            let coord = &mut coords[factor.dimension];
            // Every other time it is run through backwards.
            let digit = if *coord % 2 == 1 { factor.extent - 1 - digit } else { digit };
            *coord = *coord * factor.extent + digit;
        }
        coords
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pami::mapping::{MapOrder, TaskLocation, TaskMap};
    use std::collections::HashMap;

    fn check(shape: &str, per_node: u32, dims: &[u32], closes: bool) {
        let shape: TorusShape = shape.parse().unwrap();
        let embedding = Embedding::find(&shape, per_node, dims).unwrap();
        let map = TaskMap::new(shape.nodes(), per_node, MapOrder::NodesFirst).unwrap();
        let places: HashMap<_, _> = (0..map.tasks())
            .map(|task| {
                let TaskLocation { node, local } = map.place(task).unwrap();
                let node = shape.coord(node).unwrap();
                (embedding.coords(node, local), node)
            })
            .collect();
        assert_eq!(places.len() as u32, map.tasks(), "no two are the same");
        for (coords, node) in &places {
            for (dimension, &extent) in dims.iter().enumerate() {
                assert!(coords[dimension] < extent);
                let mut next = *coords;
                next[dimension] = (next[dimension] + 1) % extent;
                if next[dimension] > 0 || closes {
                    let hops = shape.hops(*node, places[&next]);
                    assert!(hops <= 1, "{coords:?} and {next:?} are {hops} apart in {shape}");
                }
            }
        }
    }

    #[test]
    fn d2_neighbours_in_the_grid_are_neighbours_in_the_torus() {
        check("2x2x2", 2, &[4, 2, 2], true);
        check("2x2x2", 1, &[4, 2], true);
        check("2x2x2", 1, &[8], true);
        check("2x2x2", 2, &[16], true);
        check("4x4x2", 4, &[8, 16], true);
        check("4x2x3", 6, &[12, 12], true);
        check("3x5", 2, &[15, 2], false);
        check("3x5m", 1, &[3, 5], false);
        check("4mx4m", 1, &[16], false);
        check("4x4x4x4x2", 16, &[32, 16, 16], true);
        check("1x1", 7, &[1, 7, 1], true);
    }

    #[test]
    fn d2_a_grid_that_does_not_fit_has_no_embedding() {
        let shape: TorusShape = "3x4".parse().unwrap();
        assert!(Embedding::find(&shape, 1, &[6, 2]).is_none());
        assert!(Embedding::find(&shape, 1, &[2, 2]).is_none());
        assert!(Embedding::find(&shape, 2, &[6, 4]).is_some());
    }
}
