//! Protocols that are nearly right: the model has to find each of them out (SPEC R-6).

use super::Item::{Acked, Eager, Fence, Plain, Quiet, Rendezvous};
use super::{ENDS, EXACT, INDEPENDENT, Instance, Item, check, check_all, crowded, instance};
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;

/// What the nodes do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A target forgets that it refused.
    Forgets,
    /// An origin does not hear that it was refused.
    Unheard,
    /// A target calls twice.
    CallsTwice,
    /// Only what was refused goes again, not what came behind it.
    Alone,
    /// A target says that a message is in before it has a place for it.
    SaysTooSoon,
    /// A target says that it has accepted what it only keeps.
    AcksKept,
    /// A target lets in what is behind a message that it refused.
    Overtakes,
    /// A fence is answered although what it is behind was refused.
    FencePasses,
    /// A fence is answered before what it is behind is accepted.
    FenceHurries,
    /// A message that one origin was refused keeps those of others out.
    OneDoor,
    /// An unexpected message waits for the application in front of others' too.
    Blocks,
    /// An origin asks after nothing.
    NeverAsks,
    /// It believes the answers to earlier questions.
    OldAnswers,
    /// It has several messages that ask under way to a target that may forget one.
    Unheld,
    /// A target says that it knows nothing of what it only has not told of.
    KnowsNothing,
    /// It takes in what asks though it cannot answer.
    LooksAnyway,
}

/// The first two are of one node that sends to another, which keeps one message; in the last two nodes send to a third.
const MESSAGES: &[&[Item]] = &[&[Eager(1, true), Eager(1, true), Plain(1)], &[]];
const FENCED: &[&[Item]] = &[&[Quiet(1), Quiet(1), Fence(1)], &[]];
const THREE: &[&[Item]] = &[&[Eager(2, true), Eager(2, true)], &[Rendezvous(2, false)], &[]];

/// Two nodes send to a third, which has a place for what it owes to one.
const ANSWERS: &[&[Item]] = &[&[Acked(2), Fence(2)], &[Acked(2)], &[]];
const ASKERS: &[&[Item]] = &[&[Eager(2, false), Eager(2, false)], &[Acked(2)], &[]];
const KEPT: &[&[Item]] = &[&[Eager(2, true)], &[Acked(2)], &[]];

#[test]
fn r9_r1_the_model_finds_each_fault_of_questions_that_are_nearly_right() {
    for items in [ANSWERS, ASKERS, KEPT] {
        check_all(crowded(items, false, None));
    }
    for (fault, items, property) in [
        (Fault::NeverAsks, ANSWERS, ENDS),
        (Fault::OldAnswers, ASKERS, EXACT),
        (Fault::Unheld, ASKERS, EXACT),
        (Fault::KnowsNothing, KEPT, EXACT),
        (Fault::LooksAnyway, ASKERS, EXACT),
    ] {
        find(fault, property, crowded(items, false, Some(fault)));
    }
}

/// Looks for what a fault does until it is found.
fn find(fault: Fault, property: &'static str, instance: Instance) {
    // Some go on for ever.
    let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = instance.checker().finish_when(until).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{fault:?} is not found by: {property}");
}

#[test]
fn r1_f1_the_model_finds_each_fault_of_a_protocol_that_is_nearly_right() {
    for (items, far) in [(MESSAGES, false), (FENCED, true), (THREE, true)] {
        check(items, far, 1);
    }
    for (fault, items, far, property) in [
        (Fault::Forgets, MESSAGES, false, EXACT),
        (Fault::Forgets, FENCED, true, ENDS),
        (Fault::Unheard, MESSAGES, false, ENDS),
        (Fault::CallsTwice, MESSAGES, false, EXACT),
        (Fault::Alone, MESSAGES, false, ENDS),
        (Fault::SaysTooSoon, MESSAGES, false, EXACT),
        (Fault::AcksKept, MESSAGES, false, EXACT),
        (Fault::Overtakes, MESSAGES, false, EXACT),
        (Fault::FencePasses, FENCED, true, EXACT),
        (Fault::FenceHurries, FENCED, true, EXACT),
        (Fault::OneDoor, THREE, true, INDEPENDENT),
        (Fault::Blocks, THREE, true, INDEPENDENT),
    ] {
        find(fault, property, instance(items, far, 1, Some(fault)));
    }
}
