//! How large a type is and how far it reaches.

use super::TypeError;
use super::basic::Basic;

/// What is asked of a type besides its runs. Bytes; bounds are relative to the element's origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Bytes of data.
    pub size: usize,
    /// Basic values.
    pub elements: usize,
    pub lb: isize,
    pub ub: isize,
    /// Whether the bounds were set by hand: then they outweigh those of plain parts.
    pub marked: bool,
    pub true_lb: isize,
    pub true_ub: isize,
    /// The strictest alignment of its values.
    pub align: usize,
}

impl Shape {
    pub const WORDS: usize = 8;
    pub const EMPTY: Self =
        Self { size: 0, elements: 0, lb: 0, ub: 0, marked: false, true_lb: 0, true_ub: 0, align: 1 };

    pub const fn of(basic: Basic) -> Self {
        let bytes = basic.bytes();
        let ub = bytes as isize;
        Self { size: bytes, elements: 1, ub, true_ub: ub, align: basic.align(), ..Self::EMPTY }
    }

    pub fn extent(&self) -> isize {
        // Both were found by checked arithmetic.
        self.ub.wrapping_sub(self.lb)
    }

    /// With parts added: `count` copies of `part`, at `first` and every `step` bytes.
    pub fn with(self, part: &Self, first: isize, step: isize, count: usize) -> Result<Self, TypeError> {
        let overflow = TypeError::Overflow;
        let Some(last) = count.checked_sub(1) else { return Ok(self) };
        let last = isize::try_from(last).ok().and_then(|last| last.checked_mul(step));
        let last = last.and_then(|last| last.checked_add(first)).ok_or(overflow)?;
        let (low, high) = (first.min(last), first.max(last));
        let bounds = |lb: isize, ub: isize| Some((lb.checked_add(low)?, ub.checked_add(high)?));
        let join = |have: bool, (a, b): (isize, isize), (c, d): (isize, isize)| {
            if have { (a.min(c), b.max(d)) } else { (c, d) }
        };
        let mut new = self;
        if part.size > 0 {
            let reach = bounds(part.true_lb, part.true_ub).ok_or(overflow)?;
            (new.true_lb, new.true_ub) = join(self.size > 0, (self.true_lb, self.true_ub), reach);
        }
        if part.marked {
            let reach = bounds(part.lb, part.ub).ok_or(overflow)?;
            (new.lb, new.ub) = join(self.marked, (self.lb, self.ub), reach);
            new.marked = true;
        }
        let add = |sum: usize, each: usize| each.checked_mul(count).and_then(|all| all.checked_add(sum));
        new.size = add(self.size, part.size).filter(|&size| isize::try_from(size).is_ok()).ok_or(overflow)?;
        new.elements = add(self.elements, part.elements).ok_or(overflow)?;
        new.align = self.align.max(part.align);
        Ok(new)
    }

    /// With the bounds that follow from the data if none were set: the extent is rounded up to the alignment.
    pub fn closed(self) -> Result<Self, TypeError> {
        if self.marked {
            return Ok(self);
        }
        let extent = self.true_ub.checked_sub(self.true_lb).and_then(|extent| usize::try_from(extent).ok());
        let extent = extent.and_then(|extent| extent.checked_next_multiple_of(self.align));
        let extent = extent.and_then(|extent| isize::try_from(extent).ok());
        let ub = extent.and_then(|extent| self.true_lb.checked_add(extent)).ok_or(TypeError::Overflow)?;
        Ok(Self { lb: self.true_lb, ub, ..self })
    }

    pub fn into_words(self) -> [isize; Self::WORDS] {
        let Self { size, elements, lb, ub, marked, true_lb, true_ub, align } = self;
        [size as isize, elements as isize, lb, ub, marked.into(), true_lb, true_ub, align as isize]
    }

    pub fn from_words(words: [isize; Self::WORDS]) -> Self {
        let [size, elements, lb, ub, marked, true_lb, true_ub, align] = words;
        let (size, elements, align) = (size as usize, elements as usize, align as usize);
        Self { size, elements, lb, ub, marked: marked != 0, true_lb, true_ub, align }
    }
}
