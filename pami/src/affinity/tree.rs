//! A rank's place in the tree over all affinity domains (SPEC A-3).

use super::{Domains, LEVELS, Level};
use crate::mapping::TaskLocation;
use crate::nary::Nary;
use core::ops::Range;

/// A rank's place among the members of one domain.
#[derive(Clone, Copy)]
struct Member {
    nary: Nary,
    /// Number of members of the domain.
    members: u32,
    /// Index of its leader, from which the tree counts.
    leader: u32,
}

/// A rank's place in the tree over all domains, from a root on.
pub(crate) struct DomainTree<'a> {
    domains: Domains<'a>,
    root: TaskLocation,
    own: TaskLocation,
    rank: u32,
    /// For every level whose members include the rank.
    places: [Option<Member>; LEVELS.len()],
    /// The highest of them.
    top: usize,
}

impl<'a> DomainTree<'a> {
    /// The place of `rank` in the tree from `root`. Both are below the number of ranks.
    pub(crate) fn new(domains: Domains<'a>, root: u32, rank: u32) -> Self {
        Self::within(domains, root, rank, Level::Machine)
    }

    /// The place of `rank` in the tree over its node's domains alone, from the node's leader on.
    pub(crate) fn of_node(domains: Domains<'a>, rank: u32) -> Self {
        Self::within(domains, domains.leader(rank), rank, Level::Node)
    }

    /// The place of `rank` in the tree from `root` over the domains up to those of `highest`.
    fn within(domains: Domains<'a>, root: u32, rank: u32, highest: Level) -> Self {
        let place = |rank| domains.location(rank).unwrap_or(TaskLocation { node: 0, local: 0 });
        let mut tree =
            Self { domains, root: place(root), own: place(rank), rank, places: [None; LEVELS.len()], top: 0 };
        for (index, &level) in LEVELS[..=highest as usize].iter().enumerate() {
            let (own, leader, members) = tree.member(level);
            let turned = if own >= leader { own - leader } else { members - leader + own };
            let nary = Nary::new(members, domains.radix[index], turned);
            tree.places[index] = Some(Member { nary, members, leader });
            tree.top = index;
            if turned > 0 {
                break;
            }
        }
        tree
    }

    /// In the domain of `level` around this rank: its index, the leader's, and the number of members.
    fn member(&self, level: Level) -> (u32, u32, u32) {
        if level == Level::Machine {
            return (self.own.node, self.root.node, self.domains.nodes());
        }
        let (domain, own) = (self.domain(level), self.own.local as usize);
        let leader = self.leader(self.own.node, &domain) as usize;
        let index = |hart| self.steps(level, domain.start..hart);
        let own = index(own);
        let leader = if leader == domain.start { 0 } else { index(leader) };
        (own, leader, own + self.steps(level, self.own.local as usize..domain.end - 1) + 1)
    }

    /// The harts of the domain of `level` around this rank.
    fn domain(&self, level: Level) -> Range<usize> {
        let own = self.own.local as usize;
        let (mut start, mut end, per_node) = (own, own + 1, self.domains.per_node() as usize);
        while start > 0 && self.domains.step(start as u32) <= level {
            start -= 1;
        }
        while end < per_node && self.domains.step(end as u32) <= level {
            end += 1;
        }
        start..end
    }

    /// Steps at `level` from the first to the last of some harts of its domain, the last included.
    fn steps(&self, level: Level, harts: Range<usize>) -> u32 {
        harts.map(|hart| u32::from(self.domains.step(hart as u32 + 1) == level)).sum()
    }

    /// The hart that leads `domain` of `node`.
    fn leader(&self, node: u32, domain: &Range<usize>) -> u32 {
        let has_root = node == self.root.node && domain.contains(&(self.root.local as usize));
        if has_root { self.root.local } else { domain.start as u32 }
    }

    /// The harts of the `index`-th member of the domain of `level` around this rank.
    fn harts(&self, level: Level, index: u32) -> Range<usize> {
        let domain = self.domain(level);
        let (mut start, mut left) = (domain.start, index);
        for hart in domain.start + 1..domain.end {
            if self.domains.step(hart as u32) == level {
                if left == 0 {
                    return start..hart;
                }
                (start, left) = (hart, left - 1);
            }
        }
        start..domain.end
    }

    /// The rank of the member that the tree of the domain of level `index` calls `turned`.
    fn rank(&self, index: usize, turned: u32) -> u32 {
        let Some(Member { members, leader, .. }) = self.places[index] else { return self.rank };
        let to_end = members - leader;
        let member = if turned < to_end { leader + turned } else { turned - to_end };
        let (node, harts) = match LEVELS[index] {
            Level::Machine => (member, 0..self.domains.per_node() as usize),
            level => (self.own.node, self.harts(level, member)),
        };
        self.domains.rank(node, self.leader(node, &harts)).unwrap_or(self.rank)
    }

    /// The rank above, or `None` at the root.
    pub(crate) fn parent(&self) -> Option<u32> {
        let parent = self.places[self.top]?.nary.parent()?;
        Some(self.rank(self.top, parent))
    }

    /// Number of ranks right below: first those of its core, then leaders of cores, and so on.
    pub(crate) fn children(&self) -> usize {
        self.places.iter().flatten().map(|member| member.nary.children() as usize).sum()
    }

    /// The child with this number, below [`children`](Self::children).
    pub(crate) fn child(&self, index: usize) -> u32 {
        self.find(index).map_or(self.rank, |(level, turned)| self.rank(level, turned))
    }

    /// The level at which a child is one, and what the tree of that domain calls it.
    fn find(&self, index: usize) -> Option<(usize, u32)> {
        let mut rest = index as u32;
        for (level, member) in self.places.iter().enumerate() {
            let nary = member.as_ref()?.nary;
            if rest < nary.children() {
                return Some((level, nary.child(rest)));
            }
            rest -= nary.children();
        }
        None
    }

    /// This rank's place among those of all harts, node by node.
    fn own_place(&self) -> u32 {
        self.own.node * self.domains.per_node() + self.own.local
    }

    /// The places of the domain of level `index` around this rank.
    fn around(&self, index: usize) -> Range<u32> {
        match LEVELS[index] {
            Level::Machine => 0..self.domains.size(),
            level => {
                let (harts, node) = (self.domain(level), self.own_place() - self.own.local);
                node + harts.start as u32..node + harts.end as u32
            }
        }
    }

    /// The places around this rank at a level, and at the one below it.
    fn rim(&self, index: usize) -> (Range<u32>, Range<u32>) {
        let own = self.own_place();
        (index.checked_sub(1).map_or(own..own + 1, |below| self.around(below)), self.around(index))
    }

    /// Ranks of the subtree.
    pub(crate) fn extent(&self) -> u32 {
        let Some(Member { nary, leader, members }) = self.places[self.top] else { return 1 };
        let (own, domain) = (self.own_place(), self.around(self.top));
        if nary.extent() == members {
            return domain.len() as u32;
        }
        // The last member of the subtree, in the domain's order, ends it.
        let last = (nary.member() + nary.extent() - 1 + leader) % members;
        let end = match LEVELS[self.top] {
            Level::Machine => (last + 1) * self.domains.per_node(),
            level => own - self.own.local + self.harts(level, last).end as u32,
        };
        if end > own { end - own } else { domain.len() as u32 - (own - end) }
    }

    /// Ranks of the subtree in front of those below the child with this number. Parents stand in front of children, children in
    /// their order: so what is below a rank stands together.
    pub(crate) fn below(&self, index: usize) -> u32 {
        let Some((level, turned)) = self.find(index) else { return self.extent() };
        let (inner, outer) = self.rim(level);
        let child = self.domains.place(self.rank(level, turned));
        let rest =
            if child >= inner.end { child - inner.end } else { outer.end - inner.end + child - outer.start };
        inner.len() as u32 + rest
    }

    /// Where the ranks of the subtree are, in that order: within each domain from this rank's place on, and round its end.
    fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let own = self.own_place();
        let rims = (0..=self.top).flat_map(|index| {
            let (inner, outer) = self.rim(index);
            [inner.end..outer.end, outer.start..inner.start]
        });
        core::iter::once(own..own + 1).chain(rims)
    }

    /// Where `count` ranks of the subtree from the one with number `first` on are.
    fn runs_of(&self, first: u32, count: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let (mut skip, mut left) = (first, count);
        self.runs().filter_map(move |run| {
            let skipped = skip.min(run.len() as u32);
            let start = run.start + skipped;
            let end = start + left.min(run.end - start);
            (skip, left) = (skip - skipped, left - (end - start));
            (start < end).then_some(start..end)
        })
    }

    /// The rank of the subtree with this number.
    pub(crate) fn entry(&self, number: u32) -> u32 {
        self.runs_of(number, 1).next().and_then(|run| self.domains.rank_at(run.start)).unwrap_or(self.rank)
    }

    /// `count` ranks of the subtree from the one with number `first` on, as ranges of ranks in no order.
    pub(crate) fn ranks(&self, first: u32, count: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs_of(first, count).flat_map(|run| self.domains.ranks_at(run))
    }

    /// The same, if they follow each other.
    pub(crate) fn range(&self, first: u32, count: u32) -> Option<Range<u32>> {
        let mut runs = self.runs_of(first, count);
        let head = runs.next()?;
        let run = runs.try_fold(head, |all, run| (all.end == run.start).then_some(all.start..run.end))?;
        let mut ranks = self.domains.ranks_at(run);
        ranks.next().filter(|ranks| ranks.len() as u32 == count)
    }
}
