//! Every task processes messages into every other's memory at once, with FIFOs much smaller than what is under way.

use crate::machine::{Packet, Step, TestNode, World, filled, machine_of};
use crate::scene::{Ends, Port, context, ends};
use crate::stage::{Random, words};
use pami::balance::ADVICE_NS;
use pami::packet::{Envelope, Kind};
use pami::send::OPERATIONS;
use pami::{
    Client, ClientBuilder, Context, OperationError, Pools, Process, Recipe, RecipeElement, Region,
    RegionFault, Rights, SendError, Shared, Split,
};
use proptest::prelude::*;

const WORDS: usize = 150;

struct Crowd {
    _clients: Vec<Client<TestNode>>,
    contexts: Vec<Context<Port>>,
    /// Of each context.
    regions: Vec<Region>,
    world: &'static World,
    random: Random,
}

impl Crowd {
    fn new(tasks: u32, per_node: u32, contexts: u8, rights: Rights, seed: u64) -> Self {
        let create = |node| {
            ClientBuilder::new(node, "crowd")
                .contexts(contexts)
                .pools(Pools { unexpected: 0, ..Pools::LARGE })
                .create()
                .unwrap()
        };
        let mut clients: Vec<_> = machine_of(tasks, per_node).into_iter().map(create).collect();
        let mut all = Vec::new();
        for client in &mut clients {
            all.extend((0..contexts).map(|offset| context(client, offset)));
        }
        let register = |context: &mut Context<Port>| {
            context.register(filled(&[0; 8 * WORDS]), rights).map_err(|(error, _)| error).unwrap()
        };
        let regions = all.iter_mut().map(register).collect();
        let world = clients[0].node().world;
        let mut random = Random::new(seed);
        let mut state = world.lock();
        for context in &all {
            state.port(context.endpoint()).idle = random.below(1001) as u16;
        }
        drop(state);
        world.stepped();
        Self { _clients: clients, contexts: all, regions, world, random }
    }

    /// A context advances, or a packet moves; now and then time passes.
    fn tick(&mut self) {
        if self.random.below(3) == 0 {
            let which = self.random.below(self.contexts.len());
            self.contexts[which].advance();
            return;
        }
        let mut state = self.world.lock();
        let steps = state.steps();
        if !steps.is_empty() {
            state.step(steps[self.random.below(steps.len())]);
        }
        state.now += ADVICE_NS / 40_000;
    }

    fn settle(&mut self, ended: &Ends, count: usize) {
        let (mut ticks, mut last) = (0, 0);
        while last < count {
            self.tick();
            ticks += 1;
            let now = ended.lock().unwrap().len();
            if now > last {
                (ticks, last) = (0, now);
            }
            assert!(ticks < 200_000, "{last} of {count} ended, and nothing moves any more");
        }
    }

    /// So many from every context to each of `targets`. Returns their messages.
    fn all_to(
        &mut self,
        targets: &[usize],
        each: usize,
        split: Split,
        ended: &'static Ends,
        done: Ending,
    ) -> Vec<Shared> {
        let mut count = 0;
        let messages: Vec<Shared> = (0..self.contexts.len())
            .map(|origin| filled(&(origin as u64 + 1).to_ne_bytes().repeat(WORDS)).share())
            .collect();
        for _ in 0..each {
            for &target in targets {
                for (origin, message) in messages.iter().enumerate() {
                    count += 1;
                    loop {
                        let process = Process {
                            target: self.contexts[target].endpoint(),
                            region: self.regions[target].handle(),
                            offset: 0,
                            memory: message.clone(),
                            range: 0..message.len(),
                            recipe: Recipe::sum(RecipeElement::I64),
                            split,
                            local_done: None,
                            remote_done: done(target),
                        };
                        match self.contexts[origin].process(process) {
                            Err(SendError::Again) => self.tick(),
                            other => break assert_eq!(other, Ok(())),
                        }
                    }
                }
            }
        }
        self.settle(ended, count);
        messages
    }

    fn sum(&self) -> u64 {
        (1..=self.contexts.len() as u64).sum()
    }
}

type Ending<'a> = &'a dyn Fn(usize) -> Option<pami::Done<Port>>;

fn splits() -> impl Strategy<Value = Split> {
    prop_oneof![3 => Just(Split::Advice), 1 => Just(Split::TargetOnly)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn l2_all_process_into_all_at_once(per_node in prop_oneof![Just(1u32), Just(2), Just(16)], split in splits(), seed in any::<u64>()) {
        let mut crowd = Crowd::new(16, per_node, 1, Rights::all(), seed);
        let (ended, done) = ends();
        let targets: Vec<usize> = (0..16).collect();
        crowd.all_to(&targets, 3, split, ended, &done);
        prop_assert!(ended.lock().unwrap().iter().all(|end| end.2 == Ok(())));
        // Once for a message at most, however many targets there are.
        prop_assert!(crowd.world.count(Kind::AskAdvice) <= 3 * 16 * 16);
        for region in &crowd.regions {
            prop_assert_eq!(words(region.memory()), vec![3 * crowd.sum(); WORDS]);
        }
    }

    #[test]
    fn l3_all_refuse_all_at_once(per_node in prop_oneof![Just(1u32), Just(4)], split in splits(), seed in any::<u64>()) {
        let mut crowd = Crowd::new(8, per_node, 2, Rights::READ, seed);
        let (ended, done) = ends();
        crowd.all_to(&[0, 3, 15], 30, split, ended, &done);
        let refused = Err(OperationError::Region(RegionFault::Rights));
        prop_assert!(ended.lock().unwrap().iter().all(|end| end.2 == refused));
        prop_assert!(crowd.regions.iter().all(|region| words(region.memory()) == vec![0; WORDS]));
    }
}

/// A context whose injection FIFO is full and does not move takes in whatever processing sends it.
#[test]
fn l2_l3_no_answer_that_is_owed_keeps_a_context_from_taking_in_what_is_processed() {
    for rights in [Rights::all(), Rights::READ] {
        let mut crowd = Crowd::new(16, 1, 1, rights, 1);
        let (ended, done) = ends();
        let target = crowd.contexts[0].endpoint();
        let message = filled(&1u64.to_ne_bytes().repeat(WORDS)).share();
        let process = |target, region: &Region, remote_done| Process {
            target,
            region: region.handle(),
            offset: 0,
            memory: message.clone(),
            range: 0..message.len(),
            recipe: Recipe::sum(RecipeElement::I64),
            split: Split::TargetOnly,
            local_done: None,
            remote_done,
        };
        for other in 1..5 {
            let blocking = process(crowd.contexts[other].endpoint(), &crowd.regions[other], None);
            assert_eq!(crowd.contexts[0].process(blocking), Ok(()));
        }
        for context in &mut crowd.contexts[1..] {
            for _ in 0..OPERATIONS {
                assert_eq!(context.process(process(target, &crowd.regions[0], done(0))), Ok(()));
            }
        }
        // As many questions as tasks could ask; the tasks are fewer, so some ask again.
        for number in 0..200 {
            let origin = crowd.contexts[1 + number % 15].endpoint();
            let kind = Kind::AskAdvice;
            let envelope = Envelope { kind, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 };
            crowd.world.forge(Packet::new(envelope, &[], &[]));
        }
        for _ in 0..100 {
            crowd.contexts[0].advance();
        }
        loop {
            let steps = crowd.world.lock().steps();
            let from_others = |step: &Step| !matches!(step, Step::Send((_, 0, _)));
            let Some(step) = steps.into_iter().find(from_others) else { break };
            crowd.world.lock().step(step);
            crowd.contexts.iter_mut().for_each(|context| _ = context.advance());
        }
        let mut state = crowd.world.lock();
        assert!(state.port(target).reception.is_empty());
        drop(state);
        assert_eq!(crowd.world.count(Kind::Chunk), 15 * OPERATIONS * 3);
        crowd.settle(ended, 15 * OPERATIONS);
        let result =
            if rights == Rights::READ { Err(OperationError::Region(RegionFault::Rights)) } else { Ok(()) };
        assert!(ended.lock().unwrap().iter().all(|end| end.2 == result));
    }
}
