//! The collective network by itself: every operator and type, broadcasts, class routes, and what goes wrong.
//!
//! The first task of each node drives the adapter; nothing of PAMI's collectives is involved. Arguments:
//! `--allreduce N` does N combinations of one f64 and nothing else; the closing table has the steps that they took.
//! `--sum N` does N of a full packet and prints a checksum of all bits.
#![no_std]
#![no_main]

mod check;
mod network;

use check::{Contribution, Plain};
use kernel::{JobError, Task};
use network::Network;
use pami::combine::{
    AluOperation, CLASS_ROUTES, ClassRoute, Element, Operator, Role, RouteMembers, Status, WORLDS,
};

kernel::entry!(main, jobs::USAGE);

const WORLD: ClassRoute = ClassRoute::WORLD;
/// Packets of the long vector.
const PIECES: u32 = 64;
const SUM: AluOperation = AluOperation::new(Operator::Sum, Element::F64).unwrap();

fn main(task: &'static Task) -> Result<(), JobError> {
    // The tree network says itself who has left.
    task.survive_deaths();
    let mut client = task.client("tree").create()?;
    if task.local() > 0 {
        return Ok(());
    }
    let mut network = Network::new(task, kernel::context(&mut client, 0)?)?;
    let (arguments, most) = (task.arguments(), network.payload() / 8);
    for (what, elements) in [("--allreduce", 1), ("--sum", most)] {
        if let Some(count) = arguments.get(what)? {
            return allreduce(&mut network, count, elements);
        }
    }
    let combinations = every_operation(&mut network)?;
    long_vector(&mut network)?;
    let broadcasts = broadcasts(&mut network)?;
    let sums = sub_trees(&mut network)?;
    let routes = exhaustion(&mut network)?;
    mismatch(&mut network)?;
    network.barrier()?;
    if task.node() == 0 {
        defmt::println!("{=u32} combinations of all operators and types, all right", combinations);
        defmt::println!("a vector of {=usize} bytes, all right", PIECES as usize * network.payload());
        defmt::println!("{=u32} broadcasts, all right", broadcasts);
        defmt::println!("class routes ran out after {=usize} more, and came back", routes);
        defmt::println!("contributions that differ were reported");
    }
    if sums > 0 {
        defmt::println!("{=u32} sums on sub-trees, all right", sums);
    }
    Ok(())
}

fn wrong(what: &'static str) -> JobError {
    JobError::Other(what)
}

/// Everybody, in both roles.
fn world(network: &Network) -> [RouteMembers; 1] {
    [RouteMembers::range(0, network.nodes - 1, Role::BOTH)]
}

/// Sums `elements` elements, `count` times, one after the other.
fn allreduce(network: &mut Network, count: u32, elements: usize) -> Result<(), JobError> {
    let members = world(network);
    let plain = Plain::new(network.nodes, &members);
    let (node, start) = (network.node, network.now_ns());
    let checksum = core::cell::Cell::new(0u64);
    for round in 0..count {
        let part = |_| plain.part(Element::F64, node, round, elements);
        let good = network.pipeline(WORLD, SUM, 1, part, |_, result| {
            let words = result.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            checksum.set(words.fold(checksum.get(), |sum, word| sum.rotate_left(5) ^ word));
            plain.is_result(SUM, round, result)
        })?;
        if !good {
            return Err(wrong("a sum is wrong"));
        }
    }
    let time = network.now_ns() - start;
    if network.node == 0 {
        let (bytes, each) = (elements * 8, time / u64::from(count.max(1)));
        defmt::println!("{=u32} sums of {=usize} bytes, {=u64} ns each", count, bytes, each);
    }
    defmt::println!("checksum {=u64:016x}", checksum.get());
    Ok(())
}

/// Combines nothing, a few elements and a full packet of each type by each operator.
fn every_operation(network: &mut Network) -> Result<u32, JobError> {
    let (members, node) = (world(network), network.node);
    let plain = Plain::new(network.nodes, &members);
    let mut count = 0;
    for operation in AluOperation::all() {
        let len = operation.element_len();
        for elements in [0, 1, 3, network.payload() / len] {
            let round = count;
            let part = |_| plain.part(operation.element(), node, round, elements);
            let good = network.pipeline(WORLD, operation, 1, part, |_, result| {
                result.len() == elements * len && plain.is_result(operation, round, result)
            })?;
            if !good {
                let (operator, element) = operation.to_wire();
                defmt::error!("{=u8} on type {=u8}, {=usize} elements", operator, element, elements);
                return Err(wrong("a combination is wrong"));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// Many packets, as many on their way at once as the window lets through.
fn long_vector(network: &mut Network) -> Result<(), JobError> {
    let (members, node, elements) = (world(network), network.node, network.payload() / 8);
    let plain = Plain::new(network.nodes, &members);
    let part = |piece| plain.part(Element::F64, node, piece, elements);
    let good = network.pipeline(WORLD, SUM, PIECES, part, |piece, result| {
        result.len() == elements * 8 && plain.is_result(SUM, piece, result)
    })?;
    if good { Ok(()) } else { Err(wrong("a piece of the vector is wrong")) }
}

/// Each node in turn, the root first.
fn broadcasts(network: &mut Network) -> Result<u32, JobError> {
    for root in 0..network.nodes {
        let len = (root as usize * 37 + 1) % network.payload();
        let bytes: Contribution = (0..len).map(|at| (at as u32 * 13 + root * 101) as u8).collect();
        if !network.broadcast(root, &bytes, |payload| *payload == *bytes)? {
            return Err(wrong("a broadcast is wrong"));
        }
    }
    Ok(network.nodes)
}

/// Class routes of even nodes, of odd nodes, and of all that contribute for node 0 only.
fn sub_trees(network: &mut Network) -> Result<u32, JobError> {
    let last = network.nodes - 1;
    let every_second = |first| [RouteMembers { first, last, stride: 2, role: Role::BOTH }];
    let (even, odd) = (every_second(0), every_second(1));
    let for_0 = [RouteMembers::range(0, 0, Role::RECEIVES), RouteMembers::range(0, last, Role::CONTRIBUTES)];
    let mut sums = 0;
    for (tag, owner, members) in [(100, 0, &even[..]), (101, 1, &odd), (102, 0, &for_0)] {
        if owner <= last {
            sums += sums_on(network, tag, owner, members)?;
        }
    }
    network.barrier()?;
    Ok(sums)
}

/// Sums on a class route of `members`, which `owner` asks for; returns how many of them this node has seen.
fn sums_on(network: &mut Network, tag: u32, owner: u32, members: &[RouteMembers]) -> Result<u32, JobError> {
    const EACH: u32 = 20;
    let (plain, node) = (Plain::new(network.nodes, members), network.node);
    let role = plain.role(node);
    if !role.is_member() {
        return Ok(0);
    }
    if node == owner
        && let Err(why) = network.allocate(tag, members)?
    {
        defmt::error!("no class route: {}", defmt::Display2Format(&why));
        return Err(wrong("a class route was refused"));
    }
    let route = network.find(owner, tag);
    if network.role(route) != Some(role) {
        return Err(wrong("a node was given another role"));
    }
    let mut rounds = 0;
    for operation in AluOperation::all().filter(|operation| operation.operator() == Operator::Sum) {
        rounds += EACH;
        let part = |round| plain.part(operation.element(), node, round, 4);
        let is_right = |round, result: &[u8]| plain.is_result(operation, round, result);
        if !network.pipeline(route, operation, EACH, part, is_right)? {
            return Err(wrong("a sum on a sub-tree is wrong"));
        }
    }
    network.leave(owner, route)?;
    Ok(if role.receives { rounds } else { 0 })
}

/// Node 0 asks for class routes of all nodes until there are no more, twice; returns how many there were.
fn exhaustion(network: &mut Network) -> Result<usize, JobError> {
    let all = world(network);
    let mut routes = heapless::Vec::<ClassRoute, CLASS_ROUTES>::new();
    for _ in 0..2 {
        for route in core::mem::take(&mut routes) {
            network.release(route)?;
        }
        while network.node == 0 {
            match network.allocate(200, &all)? {
                Ok(route) => routes.push(route).map_err(|_| wrong("there is no end of class routes"))?,
                Err(Status::Exhausted) => break,
                Err(_) => return Err(wrong("a class route was refused for another reason")),
            }
        }
        network.barrier()?;
    }
    if network.node == 0 && routes.len() != CLASS_ROUTES - WORLDS {
        return Err(wrong("class routes ran out too early"));
    }
    Ok(routes.len())
}

/// The last node contributes another operation than the others.
fn mismatch(network: &mut Network) -> Result<(), JobError> {
    let odd = network.node == network.nodes - 1 && network.nodes > 1;
    let operator = if odd { Operator::Max } else { Operator::Sum };
    let operation = AluOperation::new(operator, Element::U32).unwrap_or(AluOperation::NOTHING);
    let status = network.status_of(WORLD, operation, &[1; 4])?;
    let expected = if network.nodes > 1 { Status::Mismatch } else { Status::Good };
    if status == expected { Ok(()) } else { Err(wrong("contributions that differ were combined")) }
}
