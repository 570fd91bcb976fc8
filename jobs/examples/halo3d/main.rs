//! Jacobi on a cube with a stencil of seven points; faces go by puts with signal; compared with the analytic solution.
//!
//! The cube's Laplace equation has the values of a harmonic polynomial at its border, so the solution is that polynomial.
//! Blocks of the cube lie on the torus as their tasks do: each has its neighbours one hop away. Two grids are solved, the
//! second with half the spacing, and both compared with the polynomial in every point.
//!
//! Chebyshev's weights make of Jacobi's steps few; each still needs the faces of the step before, and nothing else.
//!
//! What is verified: the stencil applied to the polynomial gives exactly `h^2/12 * 144`, and by the maximum principle a field
//! whose stencil is at most `c` everywhere, and 0 at the border, is at most `c/8`. So the difference is at most
//! `1.5 h^2 + residual/8`, whatever the number of tasks; and it falls to about a quarter from grid to grid, as the method is
//! of second order.
//!
//! Arguments: `--size N` inner points of the finer grid along each dimension, 3 over a multiple of 4, so that both grids have
//! the cube's centre; `--iterations N` at most on each grid.
#![no_std]
#![no_main]

mod field;
mod grid;
mod halo;
#[path = "../meeting/mod.rs"]
mod meeting;

use core::fmt::{Arguments, Write};
use field::{FOURTH_DERIVATIVES, Field};
use grid::Blocks;
use halo::Halo;
use kernel::{JobError, Task};

kernel::entry!(main, jobs::USAGE);

/// Steps from one look at the largest change to the next.
const STEPS: u32 = 10;
/// The residual may add this share to the bound of the error.
const TOLERANCE: f64 = 0.01;
/// What the error falls by when the spacing is halved, and how far from that is still second order.
const SECOND_ORDER: core::ops::RangeInclusive<f64> = 3.5..=4.5;

struct Settings {
    size: usize,
    iterations: u32,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let settings = settings(task)?;
    let blocks = Blocks::new(task);
    let [x, y, z] = blocks.extents();
    let coarse = settings.size / 2;
    if [x, y, z].iter().any(|&extent| extent > coarse) {
        return Err(JobError::Argument(
            "--size",
            "is too small: the coarser grid has fewer points than tasks in some direction",
        ));
    }
    // Faces of the largest block of the finer grid.
    let side = [x, y, z].iter().map(|&extent| settings.size.div_ceil(extent)).max().unwrap_or(0);
    let mut halo = Halo::new(task, &blocks, side * side)?;
    say(task, format_args!("a cube on {x}x{y}x{z} tasks; Laplace, harmonic polynomial at the border"));
    let mut errors = [0.0; 2];
    for (error, points) in errors.iter_mut().zip([coarse, settings.size]) {
        *error = solve(task, &blocks, &mut halo, points, settings.iterations)?;
    }
    let ratio = errors[0] / errors[1];
    let good = SECOND_ORDER.contains(&ratio);
    let verdict = if good { "verified" } else { "WRONG" };
    say(task, format_args!("half the spacing divides the error by {ratio:.3}, second order by 4: {verdict}"));
    if good { Ok(()) } else { Err(JobError::Other("the error does not fall as the method's order says")) }
}

fn settings(task: &Task) -> Result<Settings, JobError> {
    let arguments = task.arguments();
    let iterations = arguments.get("--iterations")?.unwrap_or(100_000);
    Ok(Settings { size: arguments.get("--size")?.unwrap_or(15), iterations })
}

/// Solves one grid. Returns the largest error.
fn solve(
    task: &'static Task,
    blocks: &Blocks,
    halo: &mut Halo,
    points: usize,
    most: u32,
) -> Result<f64, JobError> {
    let mut field = Field::new(task, blocks, points)?;
    let spacing = 1.0 / (points + 1) as f64;
    let bound = FOURTH_DERIVATIVES / 12.0 * spacing * spacing / 8.0;
    // A point's difference from the mean is a sixth of the stencil's value without its h^2.
    let residual = |change: f64| 6.0 * change / (spacing * spacing);
    let start = task.now_ns();
    let (mut steps, mut change) = (0, f64::MAX);
    while residual(change) / 8.0 > TOLERANCE * bound {
        if steps >= most {
            return Err(JobError::Argument("--iterations", "are too few: the field still changes"));
        }
        let mut last = 0.0;
        for _ in 0..STEPS.min(most - steps) {
            halo.exchange(&mut field)?;
            last = field.step();
            steps += 1;
        }
        change = halo.largest(last)?;
    }
    let elapsed_us = ((task.now_ns() - start) / 1000).max(1);
    let error = halo.largest(field.error())?;
    let residual = residual(change);
    let bound = bound + residual / 8.0;
    let good = error <= bound;
    let verdict = if good { "verified" } else { "WRONG" };
    let rate = u64::from(steps) * 1_000_000 / elapsed_us;
    say(
        task,
        format_args!(
            "{points}x{points}x{points} points, h 1/{}: {steps} steps, {rate} steps/s, residual {residual:.2e}, \
         error {error:.4e} of at most {bound:.4e}: {verdict}",
            points + 1
        ),
    );
    if good { Ok(error) } else { Err(JobError::Other("the error is over its bound")) }
}

/// Task 0 says it.
fn say(task: &Task, words: Arguments) {
    if task.number() == 0 {
        let mut line = heapless::String::<256>::new();
        // A line that is too long ends early.
        let _ = line.write_fmt(words);
        defmt::println!("{=str}", line.as_str());
    }
}
