//! Every task processes messages into every other's memory at once, with FIFOs much smaller than what is under way.

use crate::machine::{Step, filled, machine_of};
use crate::stage::{Port, Random, Stage, Told, envelope, process, words};
use pami::balance::ADVICE_NS;
use pami::packet::Kind;
use pami::send::OPERATIONS;
use pami::{
    Endpoint, OperationError, Pools, Process, Recipe, RecipeElement, Region, RegionFault, Rights, SendError,
    Shared, Split,
};
use proptest::prelude::*;

const WORDS: usize = 150;
const REFUSED: Result<(), OperationError> = Err(OperationError::Region(RegionFault::Rights));

struct Crowd {
    stage: Stage,
    /// Of each context.
    regions: Vec<Region>,
}

/// A sum of a message into a region.
fn sum(target: Endpoint, region: &Region, message: &Shared, split: Split) -> Process<Port> {
    process(target, region, message, Recipe::sum(RecipeElement::I64), split)
}

impl Crowd {
    fn new(tasks: u32, per_node: u32, contexts: u8, rights: Rights, seed: u64) -> Self {
        let nodes = machine_of(tasks, per_node);
        let mut stage = Stage::of(nodes, contexts, Told::new(), |client| {
            client.pools(Pools { unexpected: 0, ..Pools::LARGE })
        });
        (stage.random, stage.tick_ns) = (Random::new(seed), ADVICE_NS / 40_000);
        let all = 0..stage.contexts.len();
        let regions = all.clone().map(|at| stage.region(at, &[0; 8 * WORDS], rights)).collect();
        for at in all {
            let (idle, me) = (stage.random.below(1001) as u16, stage.at(at));
            stage.world.lock().port(me).idle = idle;
        }
        stage.world.stepped();
        Self { stage, regions }
    }

    /// So many from every context to each of `targets`.
    fn all_to(&mut self, targets: &[usize], each: usize, split: Split) {
        let all = 0..self.stage.contexts.len();
        let message = |origin: usize| filled(&(origin as u64 + 1).to_ne_bytes().repeat(WORDS)).share();
        let messages: Vec<Shared> = all.clone().map(message).collect();
        let calls =
            (0..each).flat_map(|_| targets).flat_map(|&target| all.clone().map(move |it| (target, it)));
        for (target, origin) in calls {
            let remote_done = self.stage.done(target);
            loop {
                let sum = sum(self.stage.at(target), &self.regions[target], &messages[origin], split);
                match self.stage[origin].process(Process { remote_done, ..sum }) {
                    Err(SendError::Again) => self.stage.tick(),
                    other => break assert_eq!(other, Ok(())),
                }
            }
        }
        self.stage.until(each * targets.len() * all.len());
    }

    /// How often each word was added to if each context did so once.
    fn sum(&self) -> u64 {
        (1..=self.stage.contexts.len() as u64).sum()
    }
}

fn splits() -> impl Strategy<Value = Split> {
    prop_oneof![3 => Just(Split::Advice), 1 => Just(Split::TargetOnly)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn l2_all_process_into_all_at_once(per_node in prop_oneof![Just(1u32), Just(2), Just(16)], split in splits(), seed in any::<u64>()) {
        let mut crowd = Crowd::new(16, per_node, 1, Rights::all(), seed);
        let targets: Vec<usize> = (0..16).collect();
        crowd.all_to(&targets, 3, split);
        crowd.stage.all_good();
        // Once for a message at most, however many targets there are.
        prop_assert!(crowd.stage.count(Kind::AskAdvice) <= 3 * 16 * 16);
        for region in &crowd.regions {
            prop_assert_eq!(words(region.memory()), vec![3 * crowd.sum(); WORDS]);
        }
    }

    #[test]
    fn l3_all_refuse_all_at_once(per_node in prop_oneof![Just(1u32), Just(4)], split in splits(), seed in any::<u64>()) {
        let mut crowd = Crowd::new(8, per_node, 2, Rights::READ, seed);
        crowd.all_to(&[0, 3, 15], 30, split);
        prop_assert!(crowd.stage.ends().iter().all(|end| end.2 == REFUSED));
        prop_assert!(crowd.regions.iter().all(|region| words(region.memory()) == vec![0; WORDS]));
    }
}

/// A context whose injection FIFO is full and does not move takes in whatever processing sends it.
#[test]
fn l2_l3_no_answer_that_is_owed_keeps_a_context_from_taking_in_what_is_processed() {
    for (rights, result) in [(Rights::all(), Ok(())), (Rights::READ, REFUSED)] {
        let Crowd { mut stage, regions } = Crowd::new(16, 1, 1, rights, 1);
        let (me, split) = (stage.at(0), Split::TargetOnly);
        let message = filled(&1u64.to_ne_bytes().repeat(WORDS)).share();
        for (other, region) in regions.iter().enumerate().take(5).skip(1) {
            stage.process(0, sum(stage.at(other), region, &message, split));
        }
        for other in (1..16).flat_map(|other| [other; OPERATIONS]) {
            let remote_done = stage.done(0);
            stage.process(other, Process { remote_done, ..sum(me, &regions[0], &message, split) });
        }
        // As many questions as tasks could ask; the tasks are fewer, so some ask again.
        for number in 0..200 {
            stage.forge(envelope(Kind::AskAdvice, stage.at(1 + number % 15), me), &[], &[]);
        }
        stage.advance(0, 100);
        let all: Vec<usize> = (0..16).collect();
        while stage.step(|step| !matches!(step, Step::Send((_, 0, _)))) {
            stage.turn(&all);
        }
        assert!(stage.world.lock().port(me).reception.is_empty());
        assert_eq!(stage.count(Kind::Chunk), 15 * OPERATIONS * 3);
        stage.until(15 * OPERATIONS);
        assert!(stage.ends().iter().all(|end| end.2 == result));
    }
}
