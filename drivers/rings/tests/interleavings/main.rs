//! Every order in which threads can meet in the rings, under loom's memory model.
#![cfg(loom)]

mod bell;
mod bulletin;
mod lines;
mod memory;
mod post;
mod sleep;

use loom::model::Builder;

fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
