//! Lists whose links lie in what is listed (SPEC Q-2): each has one link, so it is in one list at most. Whoever is
//! listed is named by a number, and found by it in a table.

/// No number: the end of a list.
const END: u32 = u32::MAX;

/// The number of the next one in a list.
#[derive(Clone, Copy, Debug)]
pub struct Link(u32);

/// What is listed, by number.
pub trait Links {
    /// The link of the one with this number, if there is one.
    fn link(&self, number: u32) -> Option<&Link>;
    /// The same.
    fn link_mut(&mut self, number: u32) -> Option<&mut Link>;
}

impl Links for [Link] {
    fn link(&self, number: u32) -> Option<&Link> {
        self.get(number as usize)
    }

    fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        self.get_mut(number as usize)
    }
}

impl Link {
    /// Of what is in no list.
    pub const NONE: Self = Self(END);
}

impl Default for Link {
    fn default() -> Self {
        Self::NONE
    }
}

/// A list, in the order of pushes.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl List {
    /// Nothing.
    pub const EMPTY: Self = Self { first: END, last: END };

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == END
    }

    /// The first one.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    /// The last one.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        (self.last != END).then_some(self.last)
    }

    /// The one behind one that is in it.
    #[inline]
    pub fn after<L: Links + ?Sized>(&self, links: &L, number: u32) -> Option<u32> {
        links.link(number).map(|next| next.0).filter(|&next| next != END)
    }

    /// All, in order.
    pub fn iter<'a, L: Links + ?Sized>(&self, links: &'a L) -> impl Iterator<Item = u32> + use<'a, L> {
        let list = *self;
        core::iter::successors(self.first(), move |&number| list.after(links, number))
    }

    /// Puts one last that is in no list.
    #[inline]
    pub fn push<L: Links + ?Sized>(&mut self, links: &mut L, number: u32) {
        let Some(link) = links.link_mut(number) else { return };
        *link = Link::NONE;
        self.append(links, number);
    }

    /// As [`push`](Self::push), of one whose link is [`Link::NONE`], as it is of a new one.
    #[inline]
    pub fn append<L: Links + ?Sized>(&mut self, links: &mut L, number: u32) {
        match links.link_mut(self.last) {
            Some(last) => last.0 = number,
            None => self.first = number,
        }
        self.last = number;
    }

    /// Puts one first that is in no list.
    #[inline]
    pub fn push_front<L: Links + ?Sized>(&mut self, links: &mut L, number: u32) {
        self.prepend(links, Self { first: number, last: number });
    }

    /// Puts one first that is in no list, and has this link.
    #[inline(always)]
    pub(crate) fn push_front_of(&mut self, link: &mut Link, number: u32) {
        link.0 = self.first;
        if self.is_empty() {
            self.last = number;
        }
        self.first = number;
    }

    /// Puts all of another list first.
    #[inline]
    pub fn prepend<L: Links + ?Sized>(&mut self, links: &mut L, other: Self) {
        let Some(link) = links.link_mut(other.last) else { return };
        link.0 = self.first;
        if self.is_empty() {
            self.last = other.last;
        }
        self.first = other.first;
    }

    /// Takes the first out.
    #[inline]
    pub fn pop<L: Links + ?Sized>(&mut self, links: &mut L) -> Option<u32> {
        self.take(links, |_, _| true)
    }

    /// What was first, and had this link, is out.
    #[inline]
    pub fn shift(&mut self, link: Link) {
        self.first = link.0;
        if link.0 == END {
            self.last = END;
        }
    }

    /// Takes the first out for which `holds` holds.
    #[inline]
    pub fn take<L: Links + ?Sized>(&mut self, links: &mut L, holds: impl Fn(u32, &L) -> bool) -> Option<u32> {
        let (mut before, mut at) = (END, self.first);
        while let Some(&Link(next)) = links.link(at) {
            if holds(at, links) {
                match links.link_mut(before) {
                    Some(before) => before.0 = next,
                    None => self.first = next,
                }
                if self.last == at {
                    self.last = before;
                }
                return Some(at);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Takes one out. Returns whether it was in.
    pub fn remove<L: Links + ?Sized>(&mut self, links: &mut L, number: u32) -> bool {
        self.take(links, |other, _| other == number).is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
