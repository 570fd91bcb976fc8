//! Alltoall by the leaders of nodes: each has the blocks of its node's ranks from them, exchanges with every other leader, in one
//! message each way, those between the two nodes, and hands each rank what is for it (Träff, Rougier, "MPI collectives and
//! datatypes for hierarchical all-to-all communication", 2014).
//!
//! Blocks are equal. In scratch memory a leader has what each rank of its node sends, what each is to have, and a message that
//! leaves and one that arrives.

use super::blocks::Blocks;
use super::call::Call;
use super::gather::{self, Store};
use super::step::{Area, Round, Span};
use super::tree::{Shape, Tree};
use crate::affinity::Domains;

/// The tree within the node of the call's rank, from its leader.
pub(super) fn within<'a>(call: &Call<'a>) -> Tree<'a> {
    match call.domains {
        Some(domains) => Tree::new(Shape::Node(domains), call.size, domains.leader(call.rank), call.rank),
        None => Tree::new(Shape::Alone, call.size, call.rank, call.rank),
    }
}

/// The same with all that a rank sends, or gets, as its block.
fn rows<'a>(call: &Call<'a>) -> Call<'a> {
    let rows = Blocks::equal(call.total());
    Call { blocks: rows, sources: rows, ..*call }
}

/// Elements of what the ranks of a node send.
fn of_node(call: &Call) -> usize {
    call.domains.map_or(1, |domains| domains.per_node() as usize) * call.total()
}

/// Where a rank has what those below it are to have.
fn results(call: &Call, tree: &Tree) -> Store {
    Store::Subtree(if tree.parent().is_none() { of_node(call) } else { 0 })
}

/// Elements of scratch memory of a rank with this place in its node.
pub(super) fn scratch(call: &Call, tree: &Tree) -> usize {
    if tree.parent().is_some() {
        return gather::scratch(&rows(call), tree, Store::Subtree(0));
    }
    let ranks = call.domains.map_or(1, |domains| domains.per_node() as usize);
    2 * of_node(call) + 2 * ranks * ranks * call.blocks.len(0)
}

/// First part: the leader gets what the ranks of its node send.
pub(super) fn collect(call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
    let own = Span::new(call.operand(), 0, call.total());
    gather::gather(&rows(call), tree, Store::Subtree(0), own, at, out)
}

/// Last part: each rank gets what is for it.
pub(super) fn deal(call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
    let own = Span::new(Area::Output, 0, call.total());
    gather::scatter(&rows(call), tree, results(call, tree), Some(own), at, out)
}

/// What a leader does in between: elements of a block, and of what a rank sends.
struct Exchange<'a> {
    domains: Domains<'a>,
    len: usize,
    total: usize,
}

impl Exchange<'_> {
    fn ranks(&self) -> usize {
        self.domains.per_node() as usize
    }

    /// Elements up to what the ranks of the node are to have.
    fn of_node(&self) -> usize {
        self.ranks() * self.total
    }

    /// The block that a rank of this node sends to one of `node`, and the one that it is to have from there.
    fn block(&self, base: usize, own: usize, node: u32, other: usize) -> Span {
        let rank = self.domains.rank(node, other as u32).unwrap_or_default();
        Span::new(Area::Scratch, base + own * self.total + rank as usize * self.len, self.len)
    }

    /// The message that leaves, or the one that arrives.
    fn message(&self, arrives: bool) -> Span {
        let len = self.ranks() * self.ranks() * self.len;
        Span::new(Area::Scratch, 2 * self.of_node() + if arrives { len } else { 0 }, len)
    }

    /// A block of a message: of those that one rank sends, the one for another.
    fn part(&self, arrives: bool, from: usize, to: usize) -> Span {
        self.message(arrives).part((from * self.ranks() + to) * self.len, self.len)
    }

    fn leader(&self, node: u32) -> u32 {
        self.domains.rank(node, 0).unwrap_or_default()
    }
}

/// Second part, at leaders: with the node `distance` on and the one as far back, all nodes in turn.
pub(super) fn exchange(call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
    let Some(domains) = call.domains.filter(|_| tree.parent().is_none()) else { return false };
    let nodes = domains.nodes();
    let node = domains.node(call.rank);
    let exchange = Exchange { domains, len: call.blocks.len(0), total: call.total() };
    let ranks = exchange.ranks();
    let pair = |index: usize| (index / ranks, index % ranks);
    let pairs = ranks * ranks;
    let results = exchange.of_node();
    let Some(at) = at.checked_sub(pairs) else {
        // Within the node.
        let (from, to) = pair(at);
        let sent = exchange.block(0, from, node, to);
        out.copy(exchange.block(results, to, node, from), sent);
        return true;
    };
    let (distance, at) = (at / (2 * pairs + 1) + 1, at % (2 * pairs + 1));
    let Some(distance) = u32::try_from(distance).ok().filter(|&distance| distance < nodes) else {
        return false;
    };
    let turn = |node: u32| node % nodes;
    let (ahead, behind) = (turn(node + distance), turn(node + (nodes - distance)));
    if at < pairs {
        let (from, to) = pair(at);
        out.copy(exchange.part(false, from, to), exchange.block(0, from, ahead, to));
    } else if at == pairs {
        out.send(exchange.leader(ahead), distance as usize, exchange.message(false));
        out.receive(exchange.leader(behind), distance as usize, exchange.message(true));
        out.wait();
    } else {
        let (from, to) = pair(at - pairs - 1);
        out.copy(exchange.block(results, to, behind, from), exchange.part(true, from, to));
    }
    true
}
