//! Copies, moves and fills pieces of all short lengths, from and to all places in a word, against the same byte by byte.
#![no_std]
#![no_main]

use core::hint::black_box;
use kernel::{JobError, Task};

kernel::entry!(main, jobs::USAGE);

/// Longer than what each of the image's loops takes in one turn, more than twice.
const LONGEST: usize = 200;
/// Places in the largest word that is copied by.
const PLACES: usize = 16;
const ROOM: usize = LONGEST + 2 * PLACES;

type Bytes = [u8; ROOM];

/// Bytes that differ from their neighbours, and from those of another `seed`.
fn pattern(seed: u8) -> Bytes {
    core::array::from_fn(|at| (at as u8).wrapping_mul(37).wrapping_add(seed))
}

fn main(_: &'static Task) -> Result<(), JobError> {
    let (from, into) = (pattern(1), pattern(100));
    let mut pieces = 0u32;
    for len in 0..=LONGEST {
        for at in 0..PLACES {
            let mut filled = into;
            black_box(&mut filled[at..at + len]).fill(black_box(0xA5));
            let expected = |place: usize| if (at..at + len).contains(&place) { 0xA5 } else { into[place] };
            same(&filled, expected, "a fill")?;
            for to in 0..PLACES {
                let mut copied = into;
                black_box(&mut copied[to..to + len]).copy_from_slice(black_box(&from[at..at + len]));
                let inside = |place: usize| (to..to + len).contains(&place);
                same(
                    &copied,
                    |place| if inside(place) { from[place - to + at] } else { into[place] },
                    "a copy",
                )?;
                let mut moved = from;
                black_box(&mut moved).copy_within(at..at + len, to);
                same(
                    &moved,
                    |place| if inside(place) { from[place - to + at] } else { from[place] },
                    "a move",
                )?;
                pieces += 1;
            }
        }
    }
    defmt::println!("{=u32} pieces of up to {=usize} bytes were copied and moved right", pieces, LONGEST);
    Ok(())
}

fn same(bytes: &Bytes, expected: impl Fn(usize) -> u8, what: &'static str) -> Result<(), JobError> {
    match (0..ROOM).find(|&place| bytes[place] != expected(place)) {
        None => Ok(()),
        Some(place) => {
            defmt::error!(
                "{=str}: byte {=usize} is {=u8}, not {=u8}",
                what,
                place,
                bytes[place],
                expected(place)
            );
            Err(JobError::Other("a piece of memory was not copied right"))
        }
    }
}
