//! The origin: has messages processed in all ways, and prints the table.

use super::cases::{CASES, Case, Of};
use super::target::SPARE;
use super::{ADVANCE, ADVANCE_ON, BEFORE_NS, CHECK, PREPARE, STOP, Side, say};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{
    Active, Client, Completion, Done, Endpoint, JobError, Operand, Process, RegionHandle, Rule, Shared,
    Split, SubOperations,
};
use zerocopy::{FromBytes, IntoBytes};

/// Who was busy before: the target, the origin.
const BEFORE: [(&str, bool, bool); 3] =
    [("busy target", true, false), ("busy origin", false, true), ("both idle", false, false)];

/// An application's rule set: what can be done before the addition is done at the origin.
const RULES: &[Rule] = &[Rule {
    element: None,
    from_bytes: 0,
    origin: SubOperations::ADD.complement(),
    chunks: 1000,
    others: SubOperations::empty(),
}];

const SPLITS: [(&str, Split); 3] =
    [("target only", Split::TargetOnly), ("rule set", Split::Rules(RULES)), ("advice", Split::Advice)];

struct Origin {
    side: Side,
    target: Endpoint,
    message: Shared,
    operand: Shared,
    ended: &'static AtomicU64,
    done: Done,
    /// Both tasks are on this node, and so take turns.
    turns: bool,
}

/// What a message cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    origin: u64,
    target: u64,
    elapsed_ns: u64,
    /// Bytes of it that were added by the origin.
    placed: u64,
}

impl Cost {
    fn busiest(&self) -> u64 {
        self.origin.max(self.target).max(1)
    }
}

pub fn run(side: Side, client: &Client, word: &str) -> Result<(), JobError> {
    let memory = side.task.memory();
    let ended: &'static AtomicU64 = memory.place(AtomicU64::new(0))?;
    let call = memory.place(move |_: &mut Active, completion: Completion| {
        // The upper half counts what failed.
        let failed = u64::from(completion.result.is_err());
        ended.fetch_add(1 | failed << 32, Relaxed);
    })?;
    let message = memory.buffer(8 * side.count + SPARE)?.share();
    let operand = memory.buffer(8 * side.count + SPARE)?.share();
    let turns = side.task.shape().nodes() == 1;
    let target = client.endpoint(1, 0)?;
    let mut origin = Origin { side, target, message, operand, ended, done: Done { call, cookie: 0 }, turns };
    say(format_args!(
        "{} elements; instructions of origin, target and the busiest of them:",
        origin.side.count
    ));
    let (mut rows, mut wrong) = (0, 0);
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| case.name.contains(word)) {
        for before in BEFORE {
            let mut alone = 0;
            for (name, split) in SPLITS {
                let cost = origin.measure((number, case), before, split)?;
                if split == Split::TargetOnly {
                    alone = cost.busiest();
                }
                let gain = alone * 100 / cost.busiest();
                let here = cost.placed * 100 / case.bytes(origin.side.count) as u64;
                say(format_args!(
                    "{}, {}, {name}: {} {} {}, gain {}.{:02}, {here} % by the origin, {} us",
                    case.name,
                    before.0,
                    cost.origin,
                    cost.target,
                    cost.busiest(),
                    gain / 100,
                    gain % 100,
                    cost.elapsed_ns / 1000,
                ));
                wrong += origin.ask([CHECK, number as u64, 0, 0])?[1];
                rows += 1;
            }
        }
    }
    origin.side.say([STOP, 0, 0, 0])?;
    say(format_args!("{rows} rows, {wrong} elements wrong"));
    if wrong == 0 { Ok(()) } else { Err(JobError::Other("splits differ from the unsplit operation")) }
}

impl Origin {
    fn ask(&mut self, words: [u64; 4]) -> Result<[u64; 4], JobError> {
        let seen = self.side.heard();
        self.side.say(words)?;
        Ok(self.side.listen(seen))
    }

    fn measure(
        &mut self,
        (number, case): (usize, &Case),
        (_, target_busy, origin_busy): (&str, bool, bool),
        split: Split,
    ) -> Result<Cost, JobError> {
        case.write(&self.message, self.side.count, Of::Message);
        case.write(&self.operand, self.side.count, Of::Operand);
        let [_, first, second, _] = self.ask([PREPARE, number as u64, target_busy.into(), 0])?;
        let words = [first, second];
        let region = RegionHandle::read_from_bytes(words.as_bytes());
        let region = region.map_err(|_| JobError::Other("no handle came"))?;
        if !target_busy {
            self.side.talk.wait_for(BEFORE_NS, |_| false);
        }
        let len = case.bytes(self.side.count);
        if !self.turns {
            self.ask([ADVANCE_ON, 0, 0, 0])?;
        }
        if split == Split::Advice {
            // Has the target asked; its answer is believed when the message comes.
            let spare = self.message.len() - SPARE;
            self.process(case, split, (region, 8 * self.side.count as u32), spare..spare + SPARE)?;
        }
        if origin_busy {
            self.side.be_busy();
        } else {
            self.side.talk.wait_for(BEFORE_NS, |_| false);
        }
        let placed = self.side.data.counters().placed_bytes;
        let mut cost = self.process(case, split, (region, 0), 0..len)?;
        if !self.turns {
            // With the little that it took to ask for advice.
            cost.target = self.ask([ADVANCE, 0, 0, 0])?[2];
        }
        Ok(Cost { placed: self.side.data.counters().placed_bytes - placed, ..cost })
    }

    /// Processes a message to its end.
    fn process(
        &mut self,
        case: &Case,
        split: Split,
        (region, offset): (RegionHandle, u32),
        range: Range<usize>,
    ) -> Result<Cost, JobError> {
        let recipe = case.recipe();
        let operand = Operand { memory: self.operand.clone(), start: range.start };
        let process = Process {
            target: self.target,
            region,
            offset,
            memory: self.message.clone(),
            range,
            operand: recipe.has_operand().then_some(operand),
            recipe,
            split,
            local_done: None,
            remote_done: Some(self.done),
        };
        let ended = self.ended;
        let before = ended.load(Relaxed);
        let mut cost = Cost::default();
        let start = self.side.data.now_ns();
        self.side.counted = 0;
        let mut outcome = Ok(());
        self.side.counting(|side| {
            outcome = side.data.process(process);
            true
        });
        outcome?;
        loop {
            if self.turns {
                self.side.advance();
            } else {
                self.side.counting(|side| side.data.advance() > 0);
            }
            if ended.load(Relaxed) != before {
                break;
            }
            if self.turns {
                cost.target += self.ask([ADVANCE, 0, 0, 0])?[1];
            }
        }
        cost.elapsed_ns = self.side.data.now_ns() - start;
        cost.origin = self.side.counted.into();
        if ended.load(Relaxed) == before + 1 { Ok(cost) } else { Err(JobError::Other("the target refused")) }
    }
}
