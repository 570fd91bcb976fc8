//! Chapter "topologies": grids, and how they lie in the torus.

use super::check::{Comm, Outcome, Suite};
use super::desk::{holds, put};
use mpi::cartesian::dims_create;
use mpi::{Class, Data, Error, Op, PROC_NULL};

/// Dimensions of the grids.
const DIMS: usize = 3;
/// Most ranks of a run.
const RANKS: usize = 64;

pub fn run(suite: &Suite) -> Outcome {
    dimensions(suite);
    let mut dims = [0; DIMS];
    dims_create(suite.world.size(), &mut dims)?;
    for (reorder, periods) in [(false, [false, true, false]), (true, [true; DIMS])] {
        let made = suite.world.cart_create(&dims, &periods, reorder)?;
        suite.that("a grid of all processes has a place for each", made.is_some());
        let Some(cart) = made else { continue };
        numbers(suite, cart, &dims, &periods)?;
        shifts(suite, cart, &dims, &periods)?;
        if reorder {
            near(suite, cart)?;
        } else {
            suite.equal("without reorder ranks stay", cart.rank(), suite.world.rank());
        }
        lines(suite, cart, &dims)?;
        cart.free()?;
    }
    leftovers(suite)
}

fn dimensions(suite: &Suite) {
    let create = |nodes, mut dims: [u32; DIMS]| dims_create(nodes, &mut dims).map(|()| dims);
    suite.equal("6 in two dimensions", create(6, [0, 0, 1]), Ok([3, 2, 1]));
    suite.equal("7 in two dimensions", create(7, [0, 0, 1]), Ok([7, 1, 1]));
    suite.equal("6 with a dimension of 3", create(6, [0, 3, 0]), Ok([2, 3, 1]));
    suite.equal("7 with a dimension of 3", create(7, [0, 3, 0]), Err(Error::Dims));
    suite.equal("8 is a cube", create(8, [0; DIMS]), Ok([2; DIMS]));
    suite.equal("16 is nearly one", create(16, [0; DIMS]), Ok([4, 2, 2]));
    suite.equal("all given", create(12, [2, 3, 2]), Ok([2, 3, 2]));
    suite.equal("all given and wrong", create(12, [2, 3, 3]), Err(Error::Dims));
}

fn numbers(suite: &Suite, cart: Comm, dims: &[u32; DIMS], periods: &[bool; DIMS]) -> Outcome {
    let grid = cart.cart_get()?;
    suite.that("a grid says what it is", grid.dims() == dims && grid.periods() == periods);
    let mut right = true;
    for rank in 0..cart.size() {
        let coords = cart.cart_coords(rank)?;
        let expected = [rank / dims[2] / dims[1], rank / dims[2] % dims[1], rank % dims[2]];
        right &= coords[..DIMS] == expected;
        right &= cart.cart_rank(&expected.map(|coord| coord as i32))? == rank;
    }
    suite.that("ranks count the last dimension fastest", right);
    let outside = cart.cart_rank(&[dims[0] as i32, 0, 0]).map_err(|error| error.class());
    suite.equal(
        "outside is outside, or round the ring",
        outside,
        if periods[0] { Ok(0) } else { Err(Class::Arg) },
    );
    suite.equal("there is no such rank", cart.cart_coords(cart.size()).is_err(), true);
    Ok(())
}

fn shifts(suite: &Suite, cart: Comm, dims: &[u32; DIMS], periods: &[bool; DIMS]) -> Outcome {
    let mine = cart.cart_coords(cart.rank())?;
    let mut right = true;
    for dimension in 0..DIMS {
        for displacement in [-3, -1, 0, 1, 2] {
            let at = |step: i32| -> Result<i32, Error> {
                let mut coords = [mine[0] as i32, mine[1] as i32, mine[2] as i32];
                coords[dimension] += step;
                let inside = (0..dims[dimension] as i32).contains(&coords[dimension]);
                if inside || periods[dimension] { Ok(cart.cart_rank(&coords)? as i32) } else { Ok(PROC_NULL) }
            };
            right &= cart.cart_shift(dimension, displacement)? == (at(-displacement)?, at(displacement)?);
        }
    }
    suite.that("shifts end at edges and run round rings", right);
    suite.equal("there is no such dimension", cart.cart_shift(DIMS, 1).err(), Some(Error::Dims));
    Ok(())
}

/// Neighbours in the grid are neighbours in the torus.
fn near(suite: &Suite, cart: Comm) -> Outcome {
    let own = Data::of::<u32>(&suite.desk.left, 0, 1)?;
    let nodes = Data::of::<u32>(&suite.desk.right, 0, 1)?;
    put(&own, |_| suite.task.node())?;
    cart.allgather(&own, &nodes)?;
    let mut list = [0u32; RANKS];
    let list = &mut list[..cart.size() as usize];
    Data::of::<u32>(&suite.desk.right, 0, list.len())?.read(list)?;
    let shape = suite.task.shape();
    let mut most = 0;
    for dimension in 0..DIMS {
        let (_, next) = cart.cart_shift(dimension, 1)?;
        let there = usize::try_from(next).ok().and_then(|next| list.get(next)).copied();
        let there = there.and_then(|node| shape.coord(node));
        most = most.max(there.map_or(u32::MAX, |there| shape.hops(suite.task.coord(), there)));
    }
    suite.that("neighbours in the grid are neighbours in the torus", most <= 1);
    Ok(())
}

/// Sums along each dimension, in the communicators of its lines.
fn lines(suite: &Suite, cart: Comm, dims: &[u32; DIMS]) -> Outcome {
    for (dimension, &len) in dims.iter().enumerate() {
        let line = cart.cart_sub(&core::array::from_fn::<_, DIMS, _>(|other| other == dimension))?;
        let mine = cart.cart_coords(cart.rank())?;
        suite.equal(
            "a line has the ranks of its dimension",
            (line.size(), line.rank()),
            (len, mine[dimension]),
        );
        let (own, sum) =
            (Data::of::<u32>(&suite.desk.left, 0, 1)?, Data::of::<u32>(&suite.desk.right, 0, 1)?);
        put(&own, |_| cart.rank())?;
        line.allreduce(&own, &sum, Op::Sum)?;
        let weight: u32 = dims[dimension + 1..].iter().product();
        let first = cart.rank() - mine[dimension] * weight;
        let expected = (0..len).map(|coord| first + coord * weight).sum::<u32>();
        suite.that("sums along a line are of its processes", holds(&sum, |_| expected)?);
        line.free()?;
    }
    Ok(())
}

fn leftovers(suite: &Suite) -> Outcome {
    let world = suite.world;
    suite.equal("the world has no grid", world.cart_get().err(), Some(Error::Topology));
    let large = world.cart_create(&[world.size() + 1], &[false], true).err();
    suite.equal("a grid that is too large is refused", large, Some(Error::Dims));
    if world.size() > 1 {
        let made = world.cart_create(&[world.size() - 1], &[true], true)?;
        suite.equal("who is left over gets none", made.is_some(), world.rank() + 1 < world.size());
        if let Some(cart) = made {
            suite.equal("a grid of fewer has their number", cart.size(), world.size() - 1);
            cart.free()?;
        }
    }
    Ok(())
}
