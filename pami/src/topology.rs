//! The torus: shapes, coordinates, ranks and dimension-ordered routes (SPEC D-2).
//!
//! A shape has one to five dimensions. Each is a ring (torus) or, marked with `m`, a line (mesh):
//! `2x2x2` is a three-dimensional torus, `8x4m` a cylinder. Ranks count the first dimension fastest.
//! The same arithmetic serves the nodes and the host's model of the routers.

use core::fmt;
use core::str::FromStr;

/// The largest number of dimensions.
pub const MAX_DIMENSIONS: usize = 5;
/// The largest extent of one dimension, in nodes.
pub const MAX_EXTENT: u16 = 1024;

/// The extent of each dimension and whether its ends are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TorusShape {
    extents: [u16; MAX_DIMENSIONS],
    wraps: [bool; MAX_DIMENSIONS],
    dimensions: usize,
}

/// A node's place: one coordinate per dimension; those beyond the shape's dimensions are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct TorusCoord(pub [u16; MAX_DIMENSIONS]);

/// One link of a router: along `dimension`, towards higher coordinates if `positive`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Direction {
    /// 0 is the dimension that ranks count fastest.
    pub dimension: u8,
    /// Towards the next higher coordinate (modulo the extent).
    pub positive: bool,
}

impl Direction {
    /// Index of the link at its router, `2 * dimension + (positive as usize)`.
    pub const fn index(self) -> usize {
        self.dimension as usize * 2 + self.positive as usize
    }

    /// The direction with this [`index`](Self::index).
    pub const fn from_index(index: usize) -> Self {
        Self { dimension: (index / 2) as u8, positive: index % 2 == 1 }
    }

    /// The direction that the neighbour sees this link in.
    pub const fn opposite(self) -> Self {
        Self { dimension: self.dimension, positive: !self.positive }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["x", "y", "z", "u", "v"][usize::from(self.dimension)];
        write!(f, "{}{name}", if self.positive { '+' } else { '-' })
    }
}

/// Why a shape's text was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShapeError {
    /// No dimension, or more than [`MAX_DIMENSIONS`].
    Dimensions,
    /// An extent is no number from 1 to [`MAX_EXTENT`].
    Extent,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dimensions => write!(f, "a torus has 1 to {MAX_DIMENSIONS} dimensions, as in 2x2x2"),
            Self::Extent => {
                write!(
                    f,
                    "an extent is a number from 1 to {MAX_EXTENT}, with an m behind it for a mesh, as in 4x2m"
                )
            }
        }
    }
}

impl core::error::Error for ShapeError {}

impl FromStr for TorusShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut shape = Self { extents: [1; MAX_DIMENSIONS], wraps: [true; MAX_DIMENSIONS], dimensions: 0 };
        for word in text.split('x') {
            if shape.dimensions == MAX_DIMENSIONS {
                return Err(ShapeError::Dimensions);
            }
            let digits = word.strip_suffix('m');
            shape.wraps[shape.dimensions] = digits.is_none();
            let digits = digits.unwrap_or(word);
            // `u16::from_str` takes a sign; a shape does not.
            if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(ShapeError::Extent);
            }
            let extent: u16 = digits.parse().map_err(|_| ShapeError::Extent)?;
            if extent == 0 || extent > MAX_EXTENT {
                return Err(ShapeError::Extent);
            }
            shape.extents[shape.dimensions] = extent;
            shape.dimensions += 1;
        }
        let nodes = shape.extents.iter().try_fold(1u32, |n, &e| n.checked_mul(u32::from(e)));
        nodes.map(|_| shape).ok_or(ShapeError::Extent)
    }
}

impl fmt::Display for TorusShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dimension in 0..self.dimensions {
            let separator = if dimension == 0 { "" } else { "x" };
            let mesh = if self.wraps[dimension] { "" } else { "m" };
            write!(f, "{separator}{}{mesh}", self.extents[dimension])?;
        }
        Ok(())
    }
}

impl fmt::Display for TorusCoord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([x, y, z, u, v]) = self;
        write!(f, "({x},{y},{z},{u},{v})")
    }
}

impl TorusShape {
    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.extents.iter().map(|&extent| u32::from(extent)).product()
    }

    /// Number of dimensions, 1 to [`MAX_DIMENSIONS`].
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Nodes along `dimension`; 1 beyond the shape's dimensions.
    pub fn extent(&self, dimension: usize) -> u16 {
        self.extents[dimension]
    }

    /// Whether the ends of `dimension` are joined.
    pub fn wraps(&self, dimension: usize) -> bool {
        self.wraps[dimension]
    }

    /// Coordinates of `rank`, or `None` outside the torus.
    pub fn coord(&self, rank: u32) -> Option<TorusCoord> {
        if rank >= self.nodes() {
            return None;
        }
        let mut rest = rank;
        let mut coord = TorusCoord::default();
        for (place, extent) in coord.0.iter_mut().zip(self.extents.map(u32::from)) {
            *place = (rest % extent) as u16;
            rest /= extent;
        }
        Some(coord)
    }

    /// Rank of `coord`, or `None` outside the torus.
    pub fn rank(&self, coord: TorusCoord) -> Option<u32> {
        let mut rank = 0;
        for (&place, &extent) in coord.0.iter().zip(&self.extents).rev() {
            if place >= extent {
                return None;
            }
            rank = rank * u32::from(extent) + u32::from(place);
        }
        Some(rank)
    }

    /// The neighbour of `coord` over one link, or `None` where a mesh ends or the dimension has one node.
    pub fn neighbour(&self, coord: TorusCoord, direction: Direction) -> Option<TorusCoord> {
        let dimension = usize::from(direction.dimension);
        let (extent, place) = (self.extents[dimension], coord.0[dimension]);
        let at_end = place == if direction.positive { extent - 1 } else { 0 };
        if extent == 1 || (at_end && !self.wraps[dimension]) {
            return None;
        }
        let mut next = coord;
        next.0[dimension] = match (direction.positive, at_end) {
            (true, true) => 0,
            (true, false) => place + 1,
            (false, true) => extent - 1,
            (false, false) => place - 1,
        };
        Some(next)
    }

    /// The next link of the dimension-ordered route, or `None` once `from == to`.
    ///
    /// The lowest dimension that differs is travelled first, the shorter way round; of two equal ways the
    /// positive one. Every packet of a pair so takes one path, which keeps the pair in order (SPEC D-2).
    pub fn next_hop(&self, from: TorusCoord, to: TorusCoord) -> Option<Direction> {
        let dimension = (0..self.dimensions).find(|&d| from.0[d] != to.0[d])?;
        let (here, there) = (from.0[dimension], to.0[dimension]);
        let positive = if self.wraps[dimension] {
            let extent = self.extents[dimension];
            let ahead = (there + extent - here) % extent;
            ahead <= extent - ahead
        } else {
            there > here
        };
        Some(Direction { dimension: dimension as u8, positive })
    }

    /// Number of links on the route between two nodes.
    pub fn hops(&self, from: TorusCoord, to: TorusCoord) -> u32 {
        (0..self.dimensions)
            .map(|d| {
                let (extent, line) = (self.extents[d], from.0[d].abs_diff(to.0[d]));
                u32::from(if self.wraps[d] { line.min(extent - line) } else { line })
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn shapes() -> impl Strategy<Value = TorusShape> {
        proptest::collection::vec((1u16..6, any::<bool>()), 1..=5).prop_map(|dimensions| {
            let words: std::vec::Vec<_> = dimensions
                .iter()
                .map(|(extent, mesh)| std::format!("{extent}{}", if *mesh { "m" } else { "" }))
                .collect();
            words.join("x").parse().unwrap()
        })
    }

    proptest! {
        #[test]
        fn d2_coordinates_and_ranks_are_inverse(shape in shapes()) {
            for rank in 0..shape.nodes() {
                prop_assert_eq!(shape.rank(shape.coord(rank).unwrap()), Some(rank));
            }
            prop_assert_eq!(shape.coord(shape.nodes()), None);
        }

        #[test]
        fn d2_a_route_is_dimension_ordered_and_as_long_as_the_distance(
            shape in shapes(), a in any::<u32>(), b in any::<u32>()
        ) {
            let mut at = shape.coord(a % shape.nodes()).unwrap();
            let to = shape.coord(b % shape.nodes()).unwrap();
            let (distance, mut hops, mut last) = (shape.hops(at, to), 0, 0);
            while let Some(direction) = shape.next_hop(at, to) {
                prop_assert!(direction.dimension >= last);
                last = direction.dimension;
                at = shape.neighbour(at, direction).unwrap();
                hops += 1;
            }
            prop_assert_eq!(at, to);
            prop_assert_eq!(hops, distance);
        }

        #[test]
        fn d2_a_neighbour_sees_us_the_other_way(shape in shapes(), rank in any::<u32>(), link in 0usize..10) {
            let here = shape.coord(rank % shape.nodes()).unwrap();
            let direction = Direction::from_index(link);
            if let Some(there) = shape.neighbour(here, direction) {
                prop_assert_eq!(shape.neighbour(there, direction.opposite()), Some(here));
            }
        }

        #[test]
        fn d2_a_shape_reads_back_what_it_prints(shape in shapes()) {
            prop_assert_eq!(shape.to_string().parse(), Ok(shape));
        }
    }

    #[test]
    fn n4_a_bad_shape_is_refused() {
        for text in ["", "x", "2x", "0", "2x-2", "+2", "1x1x1x1x1x1", "2000", "2xm", "1024x1024x1024x1024"] {
            assert!(text.parse::<TorusShape>().is_err(), "{text}");
        }
    }
}
