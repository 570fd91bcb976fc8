//! Trees in which every subtree is a range: members are numbered in preorder, and what is below a member is cut
//! into `radix` even ranges, one for each child. Reductions along them meet their operands in order.

use crate::partition::Partition;

/// A member's place in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nary {
    member: u32,
    parent: Option<u32>,
    extent: u32,
    radix: u32,
}

impl Nary {
    /// The place of `member`, below `size`; the root is member 0. Takes time in the depth of the tree.
    pub(crate) fn new(size: u32, radix: u32, member: u32) -> Self {
        let (mut first, mut extent, mut parent) = (0, size, None);
        // A chain is as deep as it is long.
        if radix == 1 {
            return Self { member, parent: member.checked_sub(1), extent: size - member, radix };
        }
        while first < member {
            let below = Partition::new(extent as usize - 1, radix.min(extent - 1));
            let part = below.range(below.part_of((member - first - 1) as usize));
            parent = Some(first);
            first += 1 + part.start as u32;
            extent = part.len() as u32;
        }
        Self { member, parent, extent, radix }
    }

    /// The member itself.
    pub(crate) fn member(&self) -> u32 {
        self.member
    }

    /// The member above, or `None` at the root.
    pub(crate) fn parent(&self) -> Option<u32> {
        self.parent
    }

    /// Members of the subtree; they follow its root.
    pub(crate) fn extent(&self) -> u32 {
        self.extent
    }

    /// Number of children.
    pub(crate) fn children(&self) -> u32 {
        self.radix.min(self.extent - 1)
    }

    /// The child with this number, below [`children`](Self::children); children stand in rising order.
    pub(crate) fn child(&self, index: u32) -> u32 {
        self.member + 1 + Partition::new(self.extent as usize - 1, self.children()).start(index) as u32
    }
}
