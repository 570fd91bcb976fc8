//! What an algorithm is reckoned to cost, after Hockney's model: a message takes a latency and a time for each byte,
//! to which hops and the ALU are added (Thakur, Rabenseifner, Gropp, 2005, give the formulas).
//!
//! A message of more bytes than go eagerly takes one more trip: its target clears it.
//!
//! The figures decide between algorithms; no more is claimed for them.

use super::call::{Algorithm, Collective, Tuning};
use crate::topology::{MAX_DIMENSIONS, TorusShape};

/// Most bytes of data that a message carries before its receive is there, if a packet has room for them: packets of all
/// nodes have the same.
pub const SHORT_LIMIT: usize = 4096;

/// The constants of the model, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// To post a message or to take one in, on the processor.
    pub overhead: u64,
    /// From the origin's adapter to a neighbour's, besides the link.
    pub latency: u64,
    /// Each link further.
    pub hop: u64,
    /// A byte over a link.
    pub byte: u64,
    /// A message inside the node.
    pub local_latency: u64,
    /// A byte inside the node.
    pub local_byte: u64,
    /// A byte that is copied.
    pub copy: u64,
    /// A byte of operand through the processor's ALU.
    pub reduce: u64,
    /// A stage of the tree network, one way, with its ALU.
    pub tree_stage: u64,
    /// A byte through the tree network.
    pub tree_byte: u64,
    /// Most bytes, and no picoseconds, of a message that goes eagerly.
    pub eager_limit: usize,
}

/// The table: a torus machine of the kind that is emulated, with links of 2 GB/s and cores of 1.6 GHz.
pub const COSTS: Costs = Costs {
    overhead: 300_000,
    latency: 500_000,
    hop: 40_000,
    byte: 500,
    local_latency: 150_000,
    local_byte: 150,
    copy: 60,
    reduce: 250,
    tree_stage: 60_000,
    tree_byte: 600,
    eager_limit: SHORT_LIMIT,
};

/// The same of nodes that reach each other's memory, where the tree network is a program's: links are copies by the sender or
/// the receiver, of 40 GB/s. Measured beside the rows of `cargo xtask bench peers`.
pub const MEMORY_COSTS: Costs = Costs {
    overhead: 30_000,
    latency: 60_000,
    hop: 0,
    byte: 25,
    local_latency: 60_000,
    local_byte: 25,
    copy: 25,
    reduce: 100,
    tree_stage: 20_000_000,
    tree_byte: 5_000,
    eager_limit: SHORT_LIMIT,
};

/// The same where there are more harts than cores: who is waited for has to be given a core first, so few messages count for more
/// than short ways.
pub const CROWDED_COSTS: Costs =
    Costs { latency: 1_500_000, local_latency: 1_500_000, byte: 50, local_byte: 50, ..MEMORY_COSTS };

/// What a geometry's place in the machine means for cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementStatistics {
    /// Number of ranks.
    pub size: u32,
    /// Ranks that share a node; 1 if that is not known.
    pub per_node: u32,
    /// Most children of a rank in the tree over affinity domains; 0 if they are not known.
    pub fanout: u32,
    /// Links between two ranks, on average.
    pub hops: u32,
    /// Links between the two ranks farthest apart.
    pub diameter: u32,
    /// What things cost there.
    pub costs: &'static Costs,
}

impl PlacementStatistics {
    /// Of so many tasks on a torus, where things cost so much.
    pub(crate) fn of_job(torus: &TorusShape, tasks: u32, costs: &'static Costs) -> Self {
        let nodes = torus.nodes().max(1);
        let across = |d: usize| {
            let extent = u32::from(torus.extent(d));
            if torus.wraps(d) { extent / 2 } else { extent - 1 }
        };
        let diameter = (0..MAX_DIMENSIONS).map(across).sum::<u32>();
        Self {
            size: tasks,
            per_node: tasks.div_ceil(nodes).max(1),
            fanout: 0,
            hops: diameter.div_ceil(2).max(1),
            diameter,
            costs,
        }
    }
}

/// Rounds of a tree of that radix, or of a dissemination: the logarithm, rounded up.
fn rounds(size: u32, radix: u32) -> u128 {
    let (mut reached, mut rounds) = (1u128, 0);
    while reached < size.into() {
        reached *= u128::from(radix.max(2));
        rounds += 1;
    }
    rounds
}

/// Picoseconds that an algorithm is reckoned to take on vectors, or blocks, of `bytes`. `chunk` is the bytes of a
/// pipeline's chunk, at least 1.
pub fn estimate(
    placement: &PlacementStatistics,
    collective: Collective,
    algorithm: Algorithm,
    bytes: usize,
    radix: u32,
    chunk: usize,
) -> u128 {
    use {Algorithm as A, Collective as C};
    let costs = placement.costs;
    let wide = |cost: u64| u128::from(cost);
    let (size, bytes) = (u128::from(placement.size), bytes as u128);
    let (others, log) = (size.saturating_sub(1), rounds(placement.size, 2));
    let near = 2 * wide(costs.overhead) + wide(costs.latency);
    let far = near + wide(costs.hop) * u128::from(placement.hops.saturating_sub(1));
    // What a message takes more if it does not go eagerly; and the messages of rounds that halve or double the data.
    let clear = |bytes: u128| if bytes > costs.eager_limit as u128 { far } else { 0 };
    let clears = |total: u128| (1..=log).map(|round| clear(total >> round)).sum::<u128>();
    let (byte, overhead) = (wide(costs.byte), wide(costs.overhead));
    // All ranks send far at once, and share the links between them, of which each has one in either direction.
    let shared = byte * u128::from(placement.hops.div_ceil(2).max(1));
    let alu = if collective.reduces() { wide(costs.reduce) } else { 0 };
    // A tree of `depth` stages in which a rank serves `children`, one after the other.
    let tree = |depth: u128, children: u128, bytes: u128| {
        depth * (far + clear(bytes) + (children - 1) * overhead + children * bytes * (byte + alu))
    };
    let both = if matches!(collective, C::Allreduce | C::Barrier | C::Allgather | C::Scan | C::Exscan) {
        2
    } else {
        1
    };
    let nary = |radix| tree(rounds(placement.size, radix), radix.max(2).into(), bytes);
    let chunk = (chunk.max(1) as u128).min(bytes.max(1));
    let chunks = bytes.div_ceil(chunk);
    // A tree within each node.
    let local = |bytes| wide(costs.local_latency) + bytes * (wide(costs.local_byte) + alu);
    let within = |bytes| rounds(placement.per_node, 2) * local(bytes);
    // All but the own part of what all ranks have.
    let rest = |total: u128| total * others / size.max(1);
    let (total, part) = (size * bytes, bytes.div_ceil(size.max(1)));
    match (collective, algorithm) {
        (_, A::Dissemination) => {
            let signals = u128::from(radix.max(2)) - 1;
            rounds(placement.size, radix) * (far + (signals - 1) * 2 * overhead)
        }
        (C::Allgather, A::Affinity) | (_, A::GatherBroadcast) => {
            2 * log * far + rest(total) * byte + log * total * byte
        }
        (_, A::Affinity) => {
            let nodes = placement.size.div_ceil(placement.per_node.max(1));
            match collective {
                C::Gather | C::Scatter => within(bytes) + rounds(nodes, 2) * far + rest(total) * byte,
                C::Scan | C::Exscan => {
                    // Inside a node, messages are handled as others are.
                    let within = within(bytes) + rounds(placement.per_node, 2) * 2 * overhead;
                    both * (within + tree(rounds(nodes, 2), 1, bytes))
                }
                C::Alltoall => {
                    // Leaders handle each block of their nodes twice, and take part in all messages.
                    let (nodes, ranks) = (u128::from(nodes), u128::from(placement.per_node));
                    let node = ranks * total;
                    let hands = rounds(placement.per_node, 2) * (2 * overhead + wide(costs.local_latency))
                        + (node - total) * wide(costs.local_byte);
                    let copies = 2 * ranks * size * overhead / 8 + 2 * node * wide(costs.copy);
                    let messages = (nodes - 1) * (far + clear(ranks * ranks * bytes));
                    2 * hands + copies + messages + node * (nodes - 1) / nodes * shared
                }
                C::ReduceScatter => {
                    within(total) + tree(rounds(nodes, 2), 1, total) + log * far + rest(total) * byte
                }
                _ => both * (within(bytes) + tree(rounds(nodes, 2), 1, bytes)),
            }
        }
        (_, A::TreeNetwork) => {
            let stages = rounds(placement.size.div_ceil(placement.per_node.max(1)), 2) + 1;
            let bytes = if collective == C::Allgather { total } else { bytes };
            near + both * within(bytes) + 2 * stages * wide(costs.tree_stage) + bytes * wide(costs.tree_byte)
        }
        (_, A::SharedMemory) => {
            // One way for all, and then each reads from each.
            let read = wide(costs.overhead) / 4 + bytes * (wide(costs.copy) + alu);
            wide(costs.overhead) + wide(costs.local_latency) + others * read
        }
        (_, A::DirectRead) => {
            // A way for all at each stage; what is read once, or in parts by each.
            let (stages, read) = match collective {
                C::Broadcast => (2, bytes * byte),
                C::Reduce | C::Allreduce => (3, rest(bytes) * (2 * byte + alu)),
                _ => (2, rest(total) * (byte + alu)),
            };
            stages * (overhead + wide(costs.local_latency)) + others * overhead + read
        }
        (C::Gather | C::Scatter, A::Binomial) => log * far + clears(total) + rest(total) * byte,
        (C::Gather | C::Scatter, _) | (_, A::Flat) => far + clear(bytes) + others * (overhead + bytes * byte),
        (_, A::Binomial) => both * tree(log, 1, bytes),
        (_, A::Nary) => both * nary(radix),
        (_, A::Pipeline) => {
            (others.saturating_sub(1) + chunks) * (near + clear(chunk) + chunk * (byte + alu))
        }
        (_, A::Rectangle) => {
            (u128::from(placement.diameter) + chunks) * (near + clear(chunk) + overhead + chunk * byte)
        }
        (_, A::ScatterAllgather) => {
            log * far + clears(bytes) + others * (near + clear(part)) + 2 * rest(bytes) * byte
        }
        (C::Allreduce | C::Reduce, A::RecursiveDoubling) => {
            // A size that is no power of two takes a round more at each end.
            let folds = if placement.size.is_power_of_two() { 0 } else { 1 };
            (log + folds) * (far + clear(bytes) + bytes * (shared + alu)) + bytes * wide(costs.copy)
        }
        (_, A::Rabenseifner) => {
            let fold = far + clear(bytes) + bytes * shared;
            let folds = if placement.size.is_power_of_two() { 0 } else { 2 * fold };
            2 * (log * far + clears(bytes))
                + rest(bytes) * (2 * shared + alu)
                + folds
                + bytes * wide(costs.copy)
        }
        (_, A::RecursiveHalving) => {
            let fold = far + clear(total) + total * shared;
            let folds = if placement.size.is_power_of_two() { 0 } else { fold };
            log * far + clears(total) + rest(total) * (shared + alu) + folds + total * wide(costs.copy)
        }
        (C::Allreduce | C::Reduce, A::Ring) => {
            2 * others * (near + clear(part)) + rest(bytes) * (2 * byte + alu)
        }
        (_, A::Ring) => others * (near + clear(bytes)) + rest(total) * (byte + alu),
        (C::Alltoall, A::Bruck) => {
            log * (far + clear(total / 2))
                + log * total / 2 * (shared + 2 * wide(costs.copy))
                + 2 * total * wide(costs.copy)
        }
        (_, A::Bruck) => log * far + clears(total) + rest(total) * shared + 2 * total * wide(costs.copy),
        (_, A::Pairwise) => others * (far + clear(bytes)) + rest(total) * (shared + alu),
        (C::Scan | C::Exscan, _) => (log + 1) * (far + clear(bytes) + bytes * (shared + alu)),
        (_, A::RecursiveDoubling) => log * far + clears(total) + rest(total) * shared,
    }
}

/// What an algorithm is tuned by if the caller says nothing: few children, and chunks that take as long on a link
/// as a message's latency.
pub const fn tuning(costs: &Costs, element_len: usize) -> Tuning {
    let bytes = (2 * costs.overhead + costs.latency) / costs.byte;
    let chunk = bytes as usize / if element_len == 0 { 1 } else { element_len };
    Tuning { radix: 4, chunk: if chunk == 0 { 1 } else { chunk } }
}
