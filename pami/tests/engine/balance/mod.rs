//! Processing of messages, split between origin and target (SPEC L-1 to L-5).

mod bits;
mod endings;
mod split;

use crate::machine::{MTU, filled, machine};
use crate::stage::{Build, Port, Stage, Told, bytes, envelope, get, leak, process, put};
use pami::balance::{ADVICE_NS, Advice};
use pami::packet::{Envelope, Kind};
use pami::{
    Active, Context, Factor, Foreign, OperationError, Payload, Pools, Process, Progress, Recipe,
    RecipeElement, Region, RegionFault, Rights, Rule, SendError, Shared, Split, SubOperations, Work,
    WorkSlot,
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

/// The operation as it is defined: element by element, one sub-operation after the other.
fn unsplit(
    region: &mut [u8],
    message: &[u8],
    factor: Option<Factor>,
    element: RecipeElement,
    foreign: Foreign,
) {
    let size = element.bytes();
    let reversed = |bytes: &[u8], yes: bool| -> Vec<u8> {
        if yes { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
    };
    macro_rules! add {
        ($type:ty, $variant:path, $scale:expr, $add:expr) => {
            for (old, new) in region.chunks_mut(size).zip(message.chunks(size)) {
                let read = |bytes: Vec<u8>| <$type>::from_ne_bytes(bytes.try_into().unwrap());
                let mut new = read(reversed(new, foreign == Foreign::Message));
                if let Some($variant(factor)) = factor {
                    new = $scale(new, factor);
                }
                let sum: $type = $add(read(reversed(old, foreign == Foreign::Target)), new);
                old.copy_from_slice(&reversed(&sum.to_ne_bytes(), foreign == Foreign::Target));
            }
        };
    }
    match element {
        RecipeElement::F32 => add!(f32, Factor::F32, |a, b| a * b, |a, b| a + b),
        RecipeElement::F64 => add!(f64, Factor::F64, |a, b| a * b, |a, b| a + b),
        RecipeElement::I32 => add!(i32, Factor::I32, i32::wrapping_mul, i32::wrapping_add),
        RecipeElement::I64 => add!(i64, Factor::I64, i64::wrapping_mul, i64::wrapping_add),
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

fn recipe_of(element: RecipeElement, scaled: bool, foreign: Foreign) -> (Recipe, Option<Factor>) {
    let factor = scaled.then(|| factor_of(element));
    let recipe = factor.map_or(Recipe::sum(element), Recipe::accumulate);
    (recipe.converted(foreign), factor)
}

const SHAREABLE: [SubOperations; 4] =
    [SubOperations::SWAP, SubOperations::SCALE, SubOperations::ADD, SubOperations::all()];

fn splits() -> impl Strategy<Value = Split> {
    let rule = (0usize..4, 0u16..1001).prop_map(|(origin, chunks)| {
        let rule = Rule { element: None, from_bytes: 0, origin: SHAREABLE[origin], chunks };
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
