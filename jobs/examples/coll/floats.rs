//! Sums of floats have the same bits at all ranks, in all rounds and in all runs (SPEC G-9).

use super::bench::Bench;
use super::case::{Case, get, put};
use core::fmt::Write;
use heapless::String;
use kernel::{JobError, Shared};
use pami::collective::Collective;

/// Bytes of the vectors.
pub const BYTES: usize = 256;

/// Sums as often by each algorithm, and prints a checksum of the bits.
pub fn sum(bench: &mut Bench, rounds: u32) -> Result<(), JobError> {
    let case = Case { what: Collective::Allreduce, bytes: BYTES, ..bench.case() };
    for algorithm in bench.valid(&case)? {
        let case = Case { algorithm: Some(algorithm), ..case };
        let mut first = None;
        for _ in 0..rounds {
            let bits = bench.sum_floats(&case)?;
            if *first.get_or_insert(bits) != bits {
                return Err(JobError::Other("a sum of floats had other bits than the one before it"));
            }
        }
        let mut line = String::<80>::new();
        let _ = write!(line, "{rounds} sums by {algorithm}: checksum {:016x}", first.unwrap_or(0));
        defmt::println!("{=str}", line.as_str());
    }
    Ok(())
}

/// What a rank contributes: of very different sizes, so that another order of adding gives other bits.
pub fn fill(case: &Case, input: &Shared) {
    for at in 0..case.words() {
        let word = case.word(case.rank, at);
        let scale = [1e-8, 1.0, 1e8][(word % 3) as usize];
        let value = ((word >> 11) as f64 / 1e15 - 4.5) * scale;
        put(input, at, value.to_bits());
    }
}

/// A checksum of the first words of `output`.
pub fn checksum(case: &Case, output: &Shared) -> u64 {
    (0..case.words()).fold(0, |sum: u64, at| sum.rotate_left(5) ^ get(output, at).unwrap_or(0))
}
