//! One of two kinds, chosen when a node starts: what a board's tree has found (SPEC B-1, B-5).
//!
//! A third kind makes it `Either<A, Either<B, C>>`. No call is virtual: each method looks which kind it is, and goes on in
//! code that was compiled for that kind. As a card this look comes with each call; the collective network pays it.

use crate::nic::{Acknowledge, Lent, Nic, Told, Watch};

/// One of two.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// The first kind.
    First(A),
    /// The second.
    Second(B),
}

/// Has both kinds do the same, each in its way.
macro_rules! each {
    ($either:expr, $it:ident => $what:expr) => {
        match $either {
            $crate::either::Either::First($it) => $what,
            $crate::either::Either::Second($it) => $what,
        }
    };
}

pub(crate) use each;

impl<A: Acknowledge, B: Acknowledge> Acknowledge for Either<A, B> {
    fn acknowledge(&self) {
        each!(self, interrupt => interrupt.acknowledge());
    }

    fn serve(&self) -> Told {
        each!(self, interrupt => interrupt.serve())
    }

    fn link_is_up(&self, was: bool) -> bool {
        each!(self, interrupt => interrupt.link_is_up(was))
    }
}

impl<A: Nic, B: Nic> Nic for Either<A, B> {
    type Interrupt = Either<A::Interrupt, B::Interrupt>;

    fn mtu(&self) -> u16 {
        each!(self, nic => nic.mtu())
    }

    fn line(&self) -> usize {
        each!(self, nic => nic.line())
    }

    fn station(&self) -> Option<[u8; 6]> {
        each!(self, nic => nic.station())
    }

    fn start(&mut self, own: [[u8; 6]; 2], start: usize, most: usize) {
        each!(self, nic => nic.start(own, start, most));
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        each!(self, nic => nic.has_room())
    }

    #[inline(always)]
    unsafe fn transmit(&mut self, front: Lent, lent: [Lent; 2], cookie: u16) -> bool {
        // SAFETY: the caller's promise.
        each!(self, nic => unsafe { nic.transmit(front, lent, cookie) })
    }

    #[inline(always)]
    fn reclaim(&mut self) -> Option<u16> {
        each!(self, nic => nic.reclaim())
    }

    #[inline(always)]
    fn lend(&mut self, buffer: &'static mut [u8]) {
        each!(self, nic => nic.lend(buffer));
    }

    #[inline(always)]
    fn receive(&mut self) -> Option<(&'static mut [u8], usize)> {
        each!(self, nic => nic.receive())
    }

    #[inline(always)]
    fn flush(&mut self) {
        each!(self, nic => nic.flush());
    }

    fn kick_again(&mut self) {
        each!(self, nic => nic.kick_again());
    }

    fn arm(&mut self, sent: bool) -> bool {
        each!(self, nic => nic.arm(sent))
    }

    fn watch(&self) -> Option<Watch> {
        each!(self, nic => nic.watch())
    }

    fn interrupt(&self) -> Self::Interrupt {
        match self {
            Self::First(nic) => Either::First(nic.interrupt()),
            Self::Second(nic) => Either::Second(nic.interrupt()),
        }
    }

    fn faults(&self) -> u64 {
        each!(self, nic => nic.faults())
    }
}

#[cfg(test)]
mod tests;
