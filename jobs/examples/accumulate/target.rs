//! The target: does what it is told, and its part of what is processed.

use super::cases::{CASES, Of};
use super::{ADVANCE, ADVANCE_ON, ANSWER, CHECK, PREPARE, STOP, Side, handle_words};
use kernel::{JobError, Rights};

/// Bytes behind the elements: a place for messages that only have advice asked for.
pub const SPARE: usize = 64;

pub fn run(mut side: Side) -> Result<(), JobError> {
    let count = side.count;
    let buffer = side.task.memory().buffer(8 * count + SPARE)?;
    let region = side.data.register(buffer, Rights::all()).map_err(|(error, _)| JobError::from(error))?;
    let (memory, handle) = (region.memory().clone(), handle_words(&region.handle()));
    let (mut seen, mut on) = (0, 0);
    loop {
        let [what, first, second, _] = side.listen(seen);
        seen += 1;
        let case = CASES.get(first as usize);
        let answer = match (what, case) {
            (PREPARE, Some(case)) => {
                side.counted = 0;
                case.write(&memory, count, Of::Region);
                if second != 0 {
                    side.be_busy();
                }
                handle
            }
            (ADVANCE, _) => {
                side.counted = 0;
                side.advance();
                [side.counted.into(), on]
            }
            (ADVANCE_ON, _) => {
                side.say([ANSWER, 0, 0, 0])?;
                side.counted = 0;
                while side.heard() == seen {
                    side.counting(|side| side.data.advance() > 0);
                    // It may run the engine for the other.
                    side.counting(|side| side.talk.advance() > 0);
                }
                on = side.counted.into();
                continue;
            }
            (CHECK, Some(case)) => [case.wrong(&memory, count) as u64, 0],
            (STOP, _) => return Ok(()),
            _ => return Err(JobError::Other("the origin said what nobody understands")),
        };
        side.say([ANSWER, answer[0], answer[1], 0])?;
    }
}
