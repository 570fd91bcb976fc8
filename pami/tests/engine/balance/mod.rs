//! Processing of messages, split between origin and target (SPEC L-1 to L-5).

mod bits;
mod endings;
mod split;

use crate::machine::{MTU, filled, machine};
use crate::stage::{Build, Port, Stage, Told, bytes, envelope, get, leak, process, put};
use pami::balance::{ADVICE_NS, Advice};
use pami::factory::SubOperationFunction;
use pami::packet::{Envelope, Kind};
use pami::{
    Active, ClientBuilder, Combination, Context, ElementFunction, Factor, Foreign, Operand, OperationError,
    Payload, Pools, Process, Progress, Recipe, RecipeElement, Region, RegionFault, Rights, Rule, SendError,
    Shared, Split, SubOperations, Work, WorkSlot,
};
use proptest::prelude::*;

/// Tasks of which one processes what the others have, and nobody keeps anything.
fn tasks(tasks: u32, local: bool, build: impl Build) -> Stage {
    Stage::of(machine(tasks, local), 1, Told::new(), |client| {
        build(client.pools(Pools { unexpected: 0, ..Pools::LARGE }))
    })
}

/// An origin, context 0, and a target, context 1.
fn pair(local: bool) -> Stage {
    tasks(2, local, |client| client)
}

/// How idle they are.
fn idle(stage: &Stage, origin: u16, target: u16) {
    let (mut world, [from, to]) = (stage.world.lock(), [stage.at(0), stage.at(1)]);
    world.port(from).idle = origin;
    world.port(to).idle = target;
}

/// A region of the target.
fn region(stage: &mut Stage, bytes: &[u8]) -> Region {
    stage.region(1, bytes, Rights::all())
}

/// The origin has all of a message processed. Its ends have the cookies 1 and 2.
fn start(stage: &mut Stage, region: &Region, message: &Shared, recipe: Recipe, split: Split) {
    let (local_done, remote_done) = (stage.done(1), stage.done(2));
    let all = process(stage.at(1), region, message, recipe, split);
    stage.process(0, Process { local_done, remote_done, ..all });
}

/// An operation as it is defined: element by element, one sub-operation after the other.
#[derive(Clone, Copy, Debug)]
struct Unsplit {
    element: RecipeElement,
    factor: Option<Factor>,
    foreign: Foreign,
    combine: Option<Combination>,
    narrow: bool,
}

/// The registered functions, by their numbers.
fn twice_less(elements: &mut [f64], operand: &[f64]) {
    elements.iter_mut().zip(operand).for_each(|(element, other)| *element = *element * 2.0 - other);
}

fn remainder(elements: &mut [i32], operand: &[i32]) {
    assert!(operand.is_empty());
    elements.iter_mut().for_each(|element| *element = 1_000_000 % (*element | 1));
}

impl Unsplit {
    /// Without an operand.
    fn plain(element: RecipeElement, factor: Option<Factor>, foreign: Foreign) -> Self {
        Self { element, factor, foreign, combine: None, narrow: false }
    }

    fn recipe(&self) -> Recipe {
        let recipe =
            self.factor.map_or(Recipe::sum(self.element), Recipe::accumulate).converted(self.foreign);
        let recipe = self.combine.map_or(recipe, |combine| recipe.combined(combine));
        if self.narrow { recipe.narrowed() } else { recipe }
    }

    fn apply(&self, region: &mut [u8], message: &[u8], operand: &[u8]) {
        let &Self { element, factor, foreign, combine, narrow } = self;
        let size = element.bytes();
        let reversed = |bytes: &[u8], yes: bool| -> Vec<u8> {
            if yes { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
        };
        macro_rules! add {
            ($type:ty, $variant:path, $scale:expr, $add:expr, $own:expr, $narrow:expr) => {
                for (at, (old, new)) in region.chunks_mut(size).zip(message.chunks(size)).enumerate() {
                    let read = |bytes: Vec<u8>| <$type>::from_ne_bytes(bytes.try_into().unwrap());
                    let mut new = read(reversed(new, foreign == Foreign::Message));
                    let other = operand.chunks(size).nth(at);
                    let other = other.map(|other| read(reversed(other, foreign == Foreign::Message)));
                    new = match (combine, other) {
                        (None, _) => new,
                        (Some(Combination::Sum), Some(other)) => $add(new, other),
                        (Some(Combination::Product), Some(other)) => $scale(new, other),
                        (Some(Combination::Min), Some(other)) => {
                            if other < new {
                                other
                            } else {
                                new
                            }
                        }
                        (Some(Combination::Max), Some(other)) => {
                            if other > new {
                                other
                            } else {
                                new
                            }
                        }
                        (Some(_), other) => $own(new, other),
                    };
                    if let Some($variant(factor)) = factor {
                        new = $scale(new, factor);
                    }
                    if narrow {
                        new = $narrow(new);
                    }
                    let sum: $type = $add(read(reversed(old, foreign == Foreign::Target)), new);
                    old.copy_from_slice(&reversed(&sum.to_ne_bytes(), foreign == Foreign::Target));
                }
            };
        }
        let own = |element: f64, other: Option<f64>| element * 2.0 - other.unwrap();
        let remainder = |element: i32, _| 1_000_000 % (element | 1);
        match element {
            RecipeElement::F32 => add!(f32, Factor::F32, |a, b| a * b, |a, b| a + b, |a, _| a, |a| a),
            RecipeElement::F64 => {
                add!(f64, Factor::F64, |a, b| a * b, |a, b| a + b, own, |a| f64::from(a as f32))
            }
            RecipeElement::I32 => {
                add!(i32, Factor::I32, i32::wrapping_mul, i32::wrapping_add, remainder, |a| a)
            }
            RecipeElement::I64 => {
                add!(i64, Factor::I64, i64::wrapping_mul, i64::wrapping_add, |a, _| a, |a| a)
            }
        }
    }
}

/// Bytes of `count` elements without a NaN, which the hardware may choose among; of very different size.
fn numbers(element: RecipeElement, foreign: bool, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::new();
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let scale = (state >> 40) as i32 % 20;
        let real = (state as i32 as f64) * 2f64.powi(scale);
        let mut one = match element {
            RecipeElement::F32 => (real as f32).to_ne_bytes().to_vec(),
            RecipeElement::F64 => real.to_ne_bytes().to_vec(),
            RecipeElement::I32 => (state as i32).to_ne_bytes().to_vec(),
            RecipeElement::I64 => (state as i64).to_ne_bytes().to_vec(),
        };
        if foreign {
            one.reverse();
        }
        bytes.extend(one);
    }
    bytes
}

fn factor_of(element: RecipeElement) -> Factor {
    match element {
        RecipeElement::F32 => Factor::F32(-1.1),
        RecipeElement::F64 => Factor::F64(0.3),
        RecipeElement::I32 => Factor::I32(-77_777_777),
        RecipeElement::I64 => Factor::I64(0x1234_5678_9abc_def1),
    }
}

/// Any operation. Registered functions have their numbers in the order of [`own_pair`].
fn operations() -> impl Strategy<Value = Unsplit> {
    let combines = proptest::option::of(0usize..5);
    (elements(), any::<bool>(), foreigns(), combines, any::<bool>()).prop_map(
        |(element, scaled, foreign, combine, narrow)| {
            let own = match element {
                RecipeElement::F64 => Combination::Own(0),
                RecipeElement::I32 => Combination::OwnAlone(1),
                _ => Combination::Max,
            };
            let combine = combine.map(|at| {
                [Combination::Sum, Combination::Product, Combination::Min, Combination::Max, own][at]
            });
            let narrow = narrow && element == RecipeElement::F64;
            let factor = scaled.then(|| factor_of(element));
            Unsplit { element, factor, foreign, combine, narrow }
        },
    )
}

/// A pair whose client has both functions.
fn own_pair(local: bool) -> Stage {
    let build = |client: ClientBuilder<_>| client.pools(Pools { unexpected: 0, ..Pools::LARGE }).factories(2);
    let mut stage = Stage::closed(machine(2, local), 1, Told::new(), build);
    for client in &mut stage.clients {
        let protocol = client.protocol("own").unwrap();
        let functions = [(ElementFunction::F64(twice_less), true), (ElementFunction::I32(remainder), false)];
        for (number, (function, operand)) in functions.into_iter().enumerate() {
            let factory =
                client.register(&protocol, SubOperationFunction { function, operand, additions: 3 }).unwrap();
            assert_eq!(usize::from(factory.number()), number);
        }
    }
    (0..2).for_each(|task| _ = stage.open(task, 0));
    stage
}

const SHAREABLE: [SubOperations; 6] = [
    SubOperations::SWAP,
    SubOperations::SCALE,
    SubOperations::COMBINE,
    SubOperations::COMBINE.union(SubOperations::SCALE).union(SubOperations::NARROW),
    SubOperations::ADD,
    SubOperations::all(),
];

fn splits() -> impl Strategy<Value = Split> {
    let rule = (0usize..6, 0u16..1001, 0usize..6).prop_map(|(origin, chunks, others)| {
        let rule = Rule {
            element: None,
            from_bytes: 0,
            origin: SHAREABLE[origin],
            chunks,
            others: SHAREABLE[others],
        };
        Split::Rules(vec![rule].leak())
    });
    prop_oneof![Just(Split::TargetOnly), Just(Split::OriginOnly), Just(Split::Advice), rule]
}

fn elements() -> impl Strategy<Value = RecipeElement> {
    (0usize..4).prop_map(|at| RecipeElement::ALL[at])
}

fn foreigns() -> impl Strategy<Value = Foreign> {
    prop_oneof![Just(Foreign::Neither), Just(Foreign::Message), Just(Foreign::Target)]
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}
