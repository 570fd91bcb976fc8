//! A schedule that an endpoint is to run: a collective, or a share of one.

use crate::collective::division::Group;
use crate::collective::{Area, Call, schedule};
use crate::geometry::Members;

/// Where each area is the caller's own.
pub(super) const OWN: [(Area, usize); 3] = [(Area::Input, 0), (Area::Output, 0), (Area::Scratch, 0)];

/// Who the ranks of a part are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peers {
    /// Those of the geometry.
    All,
    /// Those of one task, from this rank on.
    Endpoints { first: u32 },
    /// Some of the root's, in the order of the segments that they serve. Its first one has this rank.
    Servers { group: Group, first: u32 },
    /// A group of tasks, each by its lowest endpoint, but the server.
    Tasks { group: Group, server: u32 },
    /// All tasks, each by the endpoint whose turn this slice is, or by its lowest if that one has no access to the task's memory. At
    /// the root all are at home, or have the slice.
    Slice { number: u32, root: u32 },
}

/// Whether an endpoint of a task, of which the first is given, is one of the task's own, with access to its memory.
pub(super) fn is_at_home(members: &Members<'_>, first: u32, rank: u32) -> bool {
    let task = |rank| members.endpoint(rank).map(|endpoint| endpoint.task());
    rank == first || task(rank) == task(first)
}

impl Peers {
    /// The geometry's rank of a rank of the part.
    #[inline]
    pub(super) fn member(&self, members: &Members, rank: u32) -> Option<u32> {
        if matches!(self, Self::All) { Some(rank) } else { self.member_of_some(members, rank) }
    }

    fn member_of_some(&self, members: &Members, rank: u32) -> Option<u32> {
        match self {
            Self::All => Some(rank),
            Self::Endpoints { first } => Some(first + rank),
            Self::Servers { group, first } => Some(first + group.place(rank)?),
            Self::Tasks { group, server } if rank == group.root() => Some(*server),
            Self::Tasks { group, .. } => Some(members.ranks(group.task(rank)?)?.start),
            Self::Slice { number, root } => {
                let ranks = members.ranks(rank)?;
                let turn = ranks.start + number % (ranks.end - ranks.start);
                let speaks = rank == *root || is_at_home(members, ranks.start, turn);
                Some(if speaks { turn } else { ranks.start })
            }
        }
    }
}

/// A schedule that an endpoint is to run.
#[derive(Clone, Copy)]
pub(super) struct SchedulePart {
    /// Number among the parts of the collective, the same at all endpoints.
    pub(super) number: u32,
    pub(super) turn: u8,
    pub(super) call: Call<'static>,
    /// Elements of the vector, or of each block, that go at a time.
    pub(super) run: usize,
    pub(super) peers: Peers,
    /// For each area, the caller's area and the bytes of it in front.
    pub(super) areas: [(Area, usize); 3],
    /// What is received is there already.
    pub(super) discards: bool,
}

impl SchedulePart {
    /// A part of all endpoints, in the caller's areas.
    pub(super) fn whole(number: u32, turn: u8, call: Call<'static>) -> Self {
        Self::of(number, turn, call, Peers::All)
    }

    /// A part of some, in the caller's areas, all of it at once.
    pub(super) fn of(number: u32, turn: u8, call: Call<'static>, peers: Peers) -> Self {
        Self { number, turn, call, run: usize::MAX, peers, areas: OWN, discards: false }
    }

    /// Elements of scratch memory that it takes.
    pub(super) fn scratch_len(&self) -> usize {
        schedule::scratch_len(&self.call.run(0, self.run))
    }
}
