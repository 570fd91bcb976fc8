//! Where memory lies that the nodes of one machine have in common (SPEC H-1): a desk for each node, then the memory of each.

/// Where it begins at all nodes. Neither images nor what a host maps by itself lies there, in address spaces of 39 bits and
/// more.
pub const SHARED_AT: usize = 0x20_0000_0000;
/// Most bytes of it.
pub const MOST_SHARED: usize = 256 << 30;
/// Most harts of all nodes together: a descriptor for each is handed to each node at once.
pub const MOST_BELLS: usize = 240;
/// Most ports that each port of a node may talk with, of its own node and of all.
pub const MOST_REACHED: usize = 4096;
/// Bytes of a desk.
pub const DESK_BYTES: usize = 64;
/// What the desks' end, and so memory, is a multiple of.
const PART: usize = 2 << 20;

/// Bytes of the desks of so many nodes, and what is left free behind them.
pub const fn desk_bytes(nodes: usize) -> usize {
    (nodes * DESK_BYTES).next_multiple_of(PART)
}

/// Bytes of the memory of so many nodes with `each` bytes each, if there can be so many.
pub const fn shared_bytes(nodes: usize, each: usize) -> Option<usize> {
    let all = desk_bytes(nodes) as u128 + nodes as u128 * each as u128;
    if all <= MOST_SHARED as u128 && each.is_multiple_of(4096) { Some(all as usize) } else { None }
}

/// Whether so many nodes have more harts together than there are cores for them.
pub const fn is_crowded(nodes: usize, harts: usize, cores: usize) -> bool {
    nodes * harts > cores
}

/// Ports that each of a node's `ports` may talk with, where `nodes` nodes reach each other's memory.
pub const fn reach(ports: usize, nodes: usize) -> usize {
    ports * (1 + nodes)
}
