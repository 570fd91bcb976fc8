//! What nodes contribute, and what must come of it by plain arithmetic.

use pami::combine::{AluOperation, Element, Operator, Role, RouteMembers, TreeShape};

/// Most bytes of a contribution.
pub const MOST_BYTES: usize = 4096;

/// A contribution.
pub type Contribution = heapless::Vec<u8, MOST_BYTES>;

/// The members of a class route.
pub struct Plain<'a> {
    tree: TreeShape,
    members: &'a [RouteMembers],
}

/// A type of element.
trait Number: Copy {
    fn of(seed: i64) -> Self;
    fn combine(operator: Operator, left: Self, right: Self) -> Option<Self>;
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn of(seed: i64) -> Self {
                (seed * 1_234_567) as $type
            }
            fn combine(operator: Operator, left: Self, right: Self) -> Option<Self> {
                Some(match operator {
                    Operator::Sum => left.wrapping_add(right),
                    Operator::Min => left.min(right),
                    Operator::Max => left.max(right),
                    Operator::BitAnd => left & right,
                    Operator::BitOr => left | right,
                    Operator::BitXor => left ^ right,
                    _ => return None,
                })
            }
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
integers!(i32 i64 u32 u64);

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn of(seed: i64) -> Self {
                // No two orders of adding these up give the same.
                1.0 / (seed as $type + 0.5)
            }
            fn combine(operator: Operator, left: Self, right: Self) -> Option<Self> {
                Some(match operator {
                    Operator::Sum => left + right,
                    Operator::Min => left.min(right),
                    Operator::Max => left.max(right),
                    _ => return None,
                })
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}
floats!(f32 f64);

impl<'a> Plain<'a> {
    /// A class route on a tree of `nodes` nodes.
    pub fn new(nodes: u32, members: &'a [RouteMembers]) -> Self {
        Self { tree: TreeShape::new(nodes), members }
    }

    /// What `node` does on it.
    pub fn role(&self, node: u32) -> Role {
        let of = self.members.iter().filter(|members| members.ranks().any(|rank| rank == node));
        of.fold(Role::default(), |role, members| role.or(members.role))
    }

    /// What `node` contributes to round `round`: `elements` elements.
    pub fn part(&self, element: Element, node: u32, round: u32, elements: usize) -> Contribution {
        let mut part = Contribution::new();
        for at in 0..elements {
            let seed = seed(node, round, at);
            let bits = match element {
                Element::I32 => i32::of(seed).bits(),
                Element::I64 => i64::of(seed).bits(),
                Element::U32 => u32::of(seed).bits(),
                Element::U64 => u64::of(seed).bits(),
                Element::F32 => f32::of(seed).bits(),
                // The network has no others.
                _ => f64::of(seed).bits(),
            };
            // The caller keeps to a packet's length.
            let _ = part.extend_from_slice(&bits.to_le_bytes()[..element.bytes()]);
        }
        part
    }

    /// Whether `bytes` is the combination of all contributions to round `round`.
    pub fn is_result(&self, operation: AluOperation, round: u32, bytes: &[u8]) -> bool {
        let (operator, len) = (operation.operator(), operation.element_len());
        bytes.chunks(len).enumerate().all(|(at, seen)| {
            let bits = match operation.element() {
                Element::I32 => self.combine::<i32>(operator, round, at, 0).map(Number::bits),
                Element::I64 => self.combine::<i64>(operator, round, at, 0).map(Number::bits),
                Element::U32 => self.combine::<u32>(operator, round, at, 0).map(Number::bits),
                Element::U64 => self.combine::<u64>(operator, round, at, 0).map(Number::bits),
                Element::F32 => self.combine::<f32>(operator, round, at, 0).map(Number::bits),
                Element::F64 => self.combine::<f64>(operator, round, at, 0).map(Number::bits),
                _ => None,
            };
            bits.is_some_and(|bits| bits.to_le_bytes()[..len] == *seen)
        })
    }

    /// Own, left, right, at `rank` and below it.
    fn combine<T: Number>(&self, operator: Operator, round: u32, at: usize, rank: u32) -> Option<T> {
        let own = self.role(rank).contributes.then(|| T::of(seed(rank, round, at)));
        let below = |side| self.combine(operator, round, at, self.tree.child(rank, side)?);
        let mut parts = [own, below(0), below(1)].into_iter().flatten();
        let first = parts.next()?;
        parts.try_fold(first, |left, right| T::combine(operator, left, right))
    }
}

fn seed(node: u32, round: u32, at: usize) -> i64 {
    i64::from(node) * 7919 + i64::from(round % 1000) * 31 + at as i64 * 3 - 9000
}
