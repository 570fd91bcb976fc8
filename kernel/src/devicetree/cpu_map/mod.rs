//! Where each hart is in its node, by the device tree's `/cpus/cpu-map` (SPEC A-2; Devicetree Specification and its
//! CPU topology binding).
//!
//! The map is a tree of nodes `socketN`, `clusterN`, `coreN` and `threadN`, in this order from the outside in. Any
//! kind but cores may be left out, and clusters may hold clusters: the innermost are the chips. Cores without
//! threads, and threads, have the phandle of a cpu node. Members of a node are numbered as they come in the tree.

use super::at::{cell, is_available};
use crate::personality::MAX_HARTS;
use core::fmt;
use dtoolkit::Node as _;
use dtoolkit::fdt::{Fdt, FdtNode};
use heapless::Vec;
use pami::affinity::HartPlace;

/// Clusters within clusters, and all the rest.
const MAX_DEPTH: usize = 8;

/// Why a map places no harts. Whoever wrote the tree is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuMapError {
    /// There is no map.
    Missing,
    /// Nodes of different kinds side by side, in the wrong order, too deep, or too many.
    Nodes,
    /// A socket or a cluster has a cpu, or a core with threads has one.
    Inner,
    /// No cpu, or a second place for one.
    Cpu(u32),
    /// The hart with this index is in no place.
    Unplaced(usize),
}

impl fmt::Display for CpuMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the device tree has no cpu-map"),
            Self::Nodes => f.write_str(
                "the cpu-map's nodes must be sockets of clusters of cores of threads, one kind a node",
            ),
            Self::Inner => f.write_str("only the innermost nodes of the cpu-map may have a cpu"),
            Self::Cpu(phandle) => write!(f, "the cpu-map's phandle {phandle:#x} is no cpu's, or there twice"),
            Self::Unplaced(hart) => write!(f, "cpu node {hart} is not in the cpu-map"),
        }
    }
}

impl core::error::Error for CpuMapError {}

/// What a node of the map is, from the outside in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CpuLevel {
    Socket,
    Cluster,
    Core,
    Thread,
}

impl CpuLevel {
    /// The kind that a node's name says, if it is one of the map's.
    fn of(name: &str) -> Option<Self> {
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some(match kind {
            "socket" => Self::Socket,
            "cluster" => Self::Cluster,
            "core" => Self::Core,
            "thread" => Self::Thread,
            _ => return None,
        })
    }

    fn may_hold(self, inner: Self) -> bool {
        self < inner || (self, inner) == (Self::Cluster, Self::Cluster)
    }
}

/// The places of the cpu nodes with these phandles, in their order. All are different. Cpus that are not available may be in
/// the map and have no place.
///
/// # Errors
/// The map's first mistake. Such a map is of no use for any hart.
pub fn places(tree: Fdt<'static>, cpus: &[Option<u32>]) -> Result<Vec<HartPlace, MAX_HARTS>, CpuMapError> {
    let map = tree.find_node("/cpus/cpu-map").ok_or(CpuMapError::Missing)?;
    let mut walk = Walk { tree, cpus, places: [None; MAX_HARTS], clusters: 0 };
    walk.visit(map, None, HartPlace::default(), MAX_DEPTH)?;
    let placed = walk.places.iter().take(cpus.len()).enumerate();
    placed.map(|(hart, place)| place.ok_or(CpuMapError::Unplaced(hart))).collect()
}

struct Walk<'a> {
    tree: Fdt<'static>,
    cpus: &'a [Option<u32>],
    places: [Option<HartPlace>; MAX_HARTS],
    /// Innermost clusters of the socket so far.
    clusters: u16,
}

impl Walk<'_> {
    /// Places what is inside a node at `place`; the map itself has no kind.
    fn visit(
        &mut self,
        node: FdtNode<'static>,
        kind: Option<CpuLevel>,
        mut place: HartPlace,
        depth: usize,
    ) -> Result<(), CpuMapError> {
        let mut children =
            node.children().filter_map(|child| Some((child, CpuLevel::of(child.name())?))).peekable();
        let Some(&(_, inner)) = children.peek() else { return self.innermost(node, kind, place) };
        if depth == 0 || kind.is_some_and(|kind| !kind.may_hold(inner)) {
            return Err(CpuMapError::Nodes);
        }
        if phandle(node).is_some() {
            return Err(CpuMapError::Inner);
        }
        if (kind, inner) == (Some(CpuLevel::Cluster), CpuLevel::Core) {
            place.cluster = self.clusters;
            self.clusters = self.clusters.checked_add(1).ok_or(CpuMapError::Nodes)?;
        }
        for (index, (child, found)) in children.enumerate() {
            let index = u16::try_from(index).map_err(|_| CpuMapError::Nodes)?;
            match found {
                _ if found != inner => return Err(CpuMapError::Nodes),
                CpuLevel::Socket => (place.socket, self.clusters) = (index, 0),
                CpuLevel::Cluster => {}
                CpuLevel::Core => place.core = index,
                CpuLevel::Thread => place.thread = index,
            }
            self.visit(child, Some(found), place, depth - 1)?;
        }
        Ok(())
    }

    fn innermost(
        &mut self,
        node: FdtNode<'static>,
        kind: Option<CpuLevel>,
        place: HartPlace,
    ) -> Result<(), CpuMapError> {
        let Some(phandle) = phandle(node) else { return Ok(()) };
        if !matches!(kind, Some(CpuLevel::Core | CpuLevel::Thread)) {
            return Err(CpuMapError::Inner);
        }
        let hart = self.cpus.iter().position(|&cpu| cpu == Some(phandle));
        if hart.is_none() && self.is_out_of_use(phandle) {
            return Ok(());
        }
        let free = hart.and_then(|hart| self.places.get_mut(hart)).filter(|free| free.is_none());
        *free.ok_or(CpuMapError::Cpu(phandle))? = Some(place);
        Ok(())
    }

    /// Whether a cpu node has this phandle that is not available.
    fn is_out_of_use(&self, phandle: u32) -> bool {
        let cpus = self.tree.find_node("/cpus").into_iter();
        let mut all = cpus.flat_map(|cpus| cpus.children());
        all.any(|cpu| cell(&cpu, "phandle") == Some(phandle) && !is_available(&cpu))
    }
}

/// What a node of the map names as its cpu.
fn phandle(node: FdtNode<'static>) -> Option<u32> {
    cell(&node, "cpu")
}

#[cfg(test)]
mod tests;
