//! Processing of messages, split between origin and target (SPEC L-1 to L-5).

mod bits;
mod endings;
mod split;

use crate::machine::{MTU, Packet, TestNode, filled};
use crate::scene::{advance_all, clients, context, ends};
use crate::stage::{Port, bytes, leak, process};
use pami::balance::{ADVICE_NS, Advice};
use pami::packet::{Envelope, Kind};
use pami::{
    Client, ClientBuilder, Context, Factor, Foreign, Get, Layout, OperationError, Payload, Pools, Process,
    Put, Recipe, RecipeElement, Region, RegionFault, Rights, Rule, SendError, Split, SubOperations,
};
use proptest::prelude::*;

/// An origin and a target, with their tasks' clients.
struct Pair {
    clients: Vec<Client<TestNode>>,
    origin: Context<Port>,
    target: Context<Port>,
}

fn pair_with(local: bool, build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>) -> Pair {
    let mut clients =
        clients(2, local, |client| build(client.pools(Pools { unexpected: 0, ..Pools::LARGE })));
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    Pair { clients, origin, target }
}

fn pair(local: bool) -> Pair {
    pair_with(local, |client| client)
}

impl Pair {
    fn advance(&mut self) {
        advance_all(&mut [&mut self.origin, &mut self.target]);
    }

    fn idle(&self, origin: u16, target: u16) {
        let mut world = self.clients[0].node().world.lock();
        world.port(self.origin.endpoint()).idle = origin;
        world.port(self.target.endpoint()).idle = target;
    }

    fn region(&mut self, bytes: &[u8]) -> Region {
        self.target.register(filled(bytes), Rights::all()).map_err(|(error, _)| error).unwrap()
    }
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
