use super::*;
use crate::endpoint::{ClientId, ContextOffset};
use std::boxed::Box;
use std::vec::Vec;

#[test]
fn r1_n8_a_context_that_owes_sleeps_as_long_as_it_likes_and_one_that_has_refused_does_not() {
    let origin = Endpoint::from_parts(ClientId(0), 1, ContextOffset(0));
    let mut acks = Acks::new(Box::leak(Box::new([const { None }; 4])), 2);
    let told = |acks: &Acks| (acks.has_told_all(0), acks.has_let_all_in(), acks.most_sleep_ns());
    assert_eq!(told(&acks), (true, true, None));
    assert!(acks.owe(origin, || false, |_| false).is_none() && acks.is_empty());
    acks.owe(origin, || true, |_| false).unwrap().owed().acknowledge(1);
    assert_eq!(told(&acks), (false, true, None));
    let record = acks.owe(origin, || false, |_| false).unwrap();
    record.owed().told(Owing::Acks, 1);
    record.refuse(0, Lack::Half);
    assert_eq!(told(&acks), (true, false, Some(PAUSE_NS)));
}

#[test]
fn r9_in_a_crowded_job_a_record_lies_in_one_of_a_few_places_however_many_were_replaced() {
    let endpoints = 1 << 14;
    let mut acks = Acks::new(Box::leak(Box::new([const { None }; 512])), endpoints);
    assert!(acks.is_crowded());
    // Half messages of all contexts of a few tasks, as many as there may be, leave room for everybody.
    let of = |task, context| Endpoint::from_parts(ClientId(0), task, ContextOffset(context));
    let halves: Vec<_> = (0..16).flat_map(|task| (0..8).map(move |context| of(task * 7, context))).collect();
    for &origin in &halves {
        assert!(acks.owe(origin, || true, |_| false).is_some());
    }
    for task in 0..endpoints as u32 {
        assert!(acks.owe(of(task, 0), || true, |other| halves.contains(&other)).is_some(), "{task}");
    }
    // All places are taken, and then each record again.
    for task in (0..endpoints as u32).map(|task| task.wrapping_mul(0x0101_0101) % (1 << 20)) {
        let origin = of(task, 0);
        let record = acks.owe(origin, || true, |_| false).expect("nobody is owed anything");
        record.owed().acknowledge(1);
        record.owed().told(Owing::Acks, 1);
        acks.take_turn();
        assert_eq!(acks.ways(origin).count(), WAYS);
        assert!(acks.ways(origin).any(|at| acks.places[at].as_ref().is_some_and(|it| it.origin == origin)));
    }
    assert!(acks.places.iter().all(Option::is_some));
}
