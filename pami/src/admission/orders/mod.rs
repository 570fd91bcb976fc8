//! All orders of small instances of refusals, and of fences over them (SPEC R-1, F-1): two or three nodes with tables of one
//! place, over wires that keep the order of a pair and no other, and hold one packet.
//!
//! The nodes use the decisions of [`admission`](super), the sets of `acks` and the fences' own states; what moves
//! between them is packets without data.

mod faults;
mod node;
mod world;

use crate::device::OPERATIONS;
use crate::endpoint::{ClientId, ContextOffset, Endpoint};
use faults::Fault;
use node::Node;
use stateright::{Checker, Model, Property};
use std::vec::Vec;
use world::World;

/// What a node starts, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    /// A message that can always be taken in.
    Plain(u8),
    /// The same, whose sender wants to hear of it.
    Acked(u8),
    /// An eager one that the target may want later, and does if so.
    Eager(u8, bool),
    /// One that the target wants later, whose sender does not ask to hear of it.
    Quiet(u8),
    /// A rendezvous, that the target may want later.
    Rendezvous(u8, bool),
    Fence(u8),
    FenceAll,
}
use Item::{Acked, Eager, Fence, FenceAll, Plain, Quiet, Rendezvous};

impl Item {
    /// Whom it is a message to.
    fn target(self) -> Option<u8> {
        match self {
            Plain(to) | Acked(to) | Quiet(to) | Eager(to, _) | Rendezvous(to, _) => Some(to),
            Fence(_) | FenceAll => None,
        }
    }

    fn is_wanted_later(self) -> bool {
        matches!(self, Quiet(_) | Eager(_, true) | Rendezvous(_, true))
    }
}

struct Instance {
    /// By node.
    items: Vec<Vec<Item>>,
    /// Places of each for operations, receive requests and unexpected messages, and for packets in its injection FIFO.
    operations: usize,
    receive_requests: usize,
    unexpected: usize,
    room: usize,
    /// Places of each for what it owes to others: if they are more, they ask.
    records: usize,
    /// The nodes are no contexts of one node.
    far: bool,
    /// What they do wrong.
    fault: Option<Fault>,
}

impl Instance {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn is_crowded(&self) -> bool {
        self.records < self.items.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Packet {
    /// Of the item with this number; messages have one besides.
    Plain(u8),
    Acked(u8, u32),
    Asked(u8, u32),
    Rts(u8, u32),
    Fence(u32),
    Retry(u32),
    /// The same once more, of a node that calls twice.
    RetryAgain(u32),
    Acks(u64),
    Admitted(u64),
    FenceAcks(u64),
    RendezvousDone(u32),
    /// After operations, or of which nothing is known, with the number of the question.
    Query(u64, u32),
    Unknown(u64, u32),
    /// Of the receive request with this number: from unit to unit.
    Get(u8),
    Got(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Start(u8),
    /// A context goes on with what is under way; it calls origins again, or their pauses are not over.
    Progress(u8, bool),
    /// Time passes, and a context asks after what waits for an answer.
    Ask(u8, u8),
    /// The application accepts what it keeps.
    Accept(u8),
    /// The first packet of an injection FIFO, or of the unit's answers, leaves.
    Leave(u8),
    Reply(u8),
    Arrive(u8, u8),
}

fn endpoint(node: u8) -> Endpoint {
    Endpoint::from_parts(ClientId(0), node.into(), ContextOffset(0))
}

fn node_of(endpoint: Endpoint) -> u8 {
    endpoint.task() as u8
}

impl Model for Instance {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        assert!(self.operations <= OPERATIONS);
        let nodes: Vec<_> = self.items.iter().map(|items| Node::new(items.len(), self)).collect();
        let wires = std::vec![std::vec![None; nodes.len()]; nodes.len()];
        std::vec![World { nodes, wires, wrong: None }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let nodes = 0..world.nodes.len() as u8;
        for node in nodes.clone() {
            steps.extend([Step::Start(node), Step::Progress(node, false), Step::Progress(node, true)]);
            steps.extend([Step::Accept(node), Step::Leave(node), Step::Reply(node)]);
            steps.extend(nodes.clone().map(|to| Step::Ask(node, to)));
            steps.extend(nodes.clone().map(|to| Step::Arrive(node, to)));
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let moved = match step {
            Step::Start(node) => next.start(self, node),
            Step::Progress(node, calls) => {
                next.progress(self, node, calls);
                next != *world
            }
            // More would be ever more states; when all is to end there is no such bound.
            Step::Ask(node, _) if next.nodes[usize::from(node)].question >= MOST_QUESTIONS => false,
            Step::Ask(node, to) => next.nodes[usize::from(node)].ask_after(self, to),
            Step::Accept(node) => next.nodes[usize::from(node)].accept(self),
            Step::Leave(node) => next.leave(node),
            Step::Reply(node) => next.reply(node),
            Step::Arrive(from, to) => next.arrive(self, from, to),
        };
        moved.then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        std::vec![
            Property::always(EXACT, |_, world: &World| world.wrong.is_none()),
            Property::always(ENDS, |instance, world: &World| { world.clone().run(instance, true).is_done() }),
            Property::always(INDEPENDENT, |instance, world: &World| {
                let later = |items: &Vec<Item>| items.iter().any(|item| item.is_wanted_later());
                let after = world.clone().run(instance, false);
                let mut items = instance.items.iter().enumerate();
                items.all(|(node, items)| later(items) || after.has_ended(node))
            }),
            Property::sometimes(
                "something is refused, or an answer finds no place",
                |instance, world: &World| {
                    let refused = |node: &Node| node.doors.iter().any(|door| door.is_shut());
                    let forgot = |node: &Node| node.forgot;
                    if instance.is_crowded() {
                        world.nodes.iter().any(forgot)
                    } else {
                        world.nodes.iter().any(refused)
                    }
                }
            ),
            Property::sometimes("all ends", |_, world: &World| world.is_done()),
        ]
    }
}

/// Questions of a node before all is to end.
const MOST_QUESTIONS: u32 = 2;
const EXACT: &str = "nothing comes twice or out of order, and no fence ends early";
const ENDS: &str = "all ends once everything is accepted";
const INDEPENDENT: &str = "who sends nothing that is wanted later waits for no application";

fn instance(items: &[&[Item]], far: bool, room: usize, fault: Option<Fault>) -> Instance {
    let items: Vec<_> = items.iter().map(|items| items.to_vec()).collect();
    let operations = items.iter().map(Vec::len).max().unwrap_or(1);
    let records = items.len();
    Instance { items, operations, receive_requests: 1, unexpected: 1, room, records, far, fault }
}

/// With a place for what is owed to one of the others.
fn crowded(items: &[&[Item]], far: bool, fault: Option<Fault>) -> Instance {
    Instance { records: 1, ..instance(items, far, 1, fault) }
}

fn check(items: &[&[Item]], far: bool, room: usize) {
    check_all(instance(items, far, room, None));
}

fn check_all(instance: Instance) {
    let checker = instance.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    std::eprintln!("{} states, {} of them different", checker.state_count(), checker.unique_state_count());
}

#[test]
fn r1_f1_all_orders_of_messages_to_a_node_that_keeps_one() {
    check(&[&[Eager(1, true), Eager(1, true), Plain(1), Fence(1)], &[]], false, 1);
    check(&[&[Eager(1, true), Rendezvous(1, true), Fence(1), Plain(1)], &[]], true, 1);
    check(&[&[Quiet(1), Fence(1), Quiet(1), Fence(1)], &[]], false, 1);
    check(&[&[Quiet(1), Quiet(1), Fence(1), Fence(1)], &[]], true, 1);
}

#[test]
fn r1_f1_all_orders_of_rendezvous_and_fences_of_two_nodes_that_send_each_other() {
    check(&[&[Rendezvous(1, false), Rendezvous(1, false), Fence(1)], &[Rendezvous(0, false)]], true, 1);
    check(&[&[Eager(1, true), Fence(1)], &[Eager(0, true), Eager(0, true)]], false, 1);
}

#[test]
fn r1_f3_all_orders_of_two_nodes_that_send_to_a_third_which_accepts_late() {
    check(&[&[Eager(2, true), Eager(2, true)], &[Rendezvous(2, false), Fence(2)], &[]], true, 1);
    if std::env::var_os("PAMIR_LONG").is_some() {
        check(&[&[Eager(2, true), FenceAll], &[Eager(2, true)], &[]], false, 1);
        check(&[&[Rendezvous(2, false), FenceAll], &[Rendezvous(2, false), Plain(2)], &[]], true, 1);
    } else {
        check(&[&[Eager(1, true), Eager(1, true), FenceAll], &[]], false, 1);
    }
}
