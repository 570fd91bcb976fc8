//! Dimensions of grids that are as near to cubes as can be.

use crate::error::{Error, Result};

/// `dims[at..]` becomes the factors of `rest`, none above `most`, largest first, the largest as small as can be, and so on.
/// Returns whether there are such.
fn factor(rest: u32, most: u32, dims: &mut [u32]) -> bool {
    let Some((first, others)) = dims.split_first_mut() else { return rest == 1 };
    if others.is_empty() {
        *first = rest;
        return rest <= most;
    }
    // The divisors, ascending: those up to the root, and what those leave.
    let root = rest.isqrt();
    let small = (1..=root).filter(|divisor| rest.is_multiple_of(*divisor));
    let large = small.clone().rev().map(|divisor| rest / divisor);
    for candidate in small.chain(large).take_while(|&candidate| candidate <= most) {
        // The others are at most as large.
        let enough = u64::from(candidate).checked_pow(others.len() as u32 + 1);
        if enough.is_none_or(|most| most >= rest.into()) && factor(rest / candidate, candidate, others) {
            *first = candidate;
            return true;
        }
    }
    false
}

/// `MPI_Dims_create`: fills in the dimensions that are 0, so that the product of all is `nodes`. Those are as near to each
/// other as can be, the larger ones first.
///
/// # Errors
/// [`Error::Dims`] if `nodes` is no multiple of the others' product.
pub fn dims_create(nodes: u32, dims: &mut [u32]) -> Result<()> {
    let given = dims.iter().filter(|&&dim| dim > 0).try_fold(1u32, |product, &dim| product.checked_mul(dim));
    let given = given.filter(|given| nodes > 0 && nodes.is_multiple_of(*given)).ok_or(Error::Dims)?;
    let free = dims.iter().filter(|&&dim| dim == 0).count();
    let mut found = [1u32; super::MAX_DIMS];
    let found = found.get_mut(..free).ok_or(Error::Dims)?;
    let rest = nodes / given;
    if !factor(rest, rest, found) {
        return Err(Error::Dims);
    }
    for (dim, &mut value) in dims.iter_mut().filter(|dim| **dim == 0).zip(found) {
        *dim = value;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// All ways to write `nodes` as so many factors, none greater than the one before.
    fn all(nodes: u32, count: usize, most: u32) -> Vec<Vec<u32>> {
        if count == 0 {
            return if nodes == 1 { vec![vec![]] } else { vec![] };
        }
        let divisors = (1..=nodes.min(most)).filter(|d| nodes.is_multiple_of(*d));
        let longer = |first| {
            all(nodes / first, count - 1, first).into_iter().map(move |rest| [&[first], &rest[..]].concat())
        };
        divisors.flat_map(longer).collect()
    }

    proptest! {
        #[test]
        fn g1_dimensions_are_as_near_to_each_other_as_can_be(nodes in 1u32..3000, count in 1usize..5) {
            let mut dims = vec![0; count];
            dims_create(nodes, &mut dims).unwrap();
            prop_assert_eq!(Some(dims), all(nodes, count, nodes).into_iter().min());
        }

        #[test]
        fn g1_dimensions_that_are_given_stay(a in 1u32..6, b in 1u32..40) {
            let mut dims = [0, a, 0];
            dims_create(a * b, &mut dims).unwrap();
            prop_assert_eq!((dims[1], dims[0] * dims[2]), (a, b));
            prop_assert!(dims[0] >= dims[2]);
        }
    }

    #[test]
    fn g1_dims_the_examples_of_the_standard() {
        let create = |nodes, mut dims: [u32; 3]| dims_create(nodes, &mut dims).map(|()| dims);
        assert_eq!(create(6, [0, 0, 1]), Ok([3, 2, 1]));
        assert_eq!(create(7, [0, 0, 1]), Ok([7, 1, 1]));
        assert_eq!(create(6, [0, 3, 0]), Ok([2, 3, 1]));
        assert_eq!(create(7, [0, 3, 0]), Err(Error::Dims));
        assert_eq!(create(0, [0, 0, 0]), Err(Error::Dims));
        assert_eq!(create(6, [2, 3, 2]), Err(Error::Dims));
        assert_eq!(create(12, [2, 3, 2]), Ok([2, 3, 2]));
        assert_eq!(create(u32::MAX - 4, [0, 0, 0]), Ok([u32::MAX - 4, 1, 1]));
        assert_eq!(dims_create(1 << 20, &mut [0; 9]), Err(Error::Dims));
    }
}
