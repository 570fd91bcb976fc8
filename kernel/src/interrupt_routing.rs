//! Which hart the adapter's interrupt goes to (SPEC N-8): one that sleeps on a port, so that a packet ends a sleep and
//! a busy hart is left alone.

/// The harts that sleep and the one that the interrupt is routed to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Routing {
    /// Bit n: hart n sleeps.
    asleep: u64,
    routed: Option<u8>,
}

/// Where the interrupt is to go from now on; `None`: nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reroute(pub Option<usize>);

impl Routing {
    /// Nobody sleeps, the interrupt goes nowhere.
    pub const fn new() -> Self {
        Self { asleep: 0, routed: None }
    }

    /// `hart` goes to sleep on a port. Says where to route the interrupt, if that changes.
    pub fn sleep(&mut self, hart: usize) -> Option<Reroute> {
        self.asleep |= 1 << hart;
        if self.routed.is_some_and(|routed| self.asleep & (1 << routed) != 0) {
            return None;
        }
        self.routed = Some(hart as u8);
        Some(Reroute(Some(hart)))
    }

    /// `hart` is awake. If the interrupt went to it and others sleep, one of them takes over; else it stays: the
    /// next sleeper takes it.
    pub fn wake(&mut self, hart: usize) -> Option<Reroute> {
        self.asleep &= !(1 << hart);
        if self.routed != Some(hart as u8) || self.asleep == 0 {
            return None;
        }
        let next = self.asleep.trailing_zeros() as u8;
        self.routed = Some(next);
        Some(Reroute(Some(usize::from(next))))
    }

    /// `hart` is about to idle without a port: an interrupt must not reach it, for it would not serve it.
    pub fn retire(&mut self, hart: usize) -> Option<Reroute> {
        if self.routed != Some(hart as u8) {
            return None;
        }
        self.routed = None;
        Some(Reroute(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n8_the_interrupt_goes_to_a_hart_that_sleeps() {
        let mut routing = Routing::new();
        assert_eq!(routing.sleep(2), Some(Reroute(Some(2))));
        assert_eq!(routing.sleep(1), None);
        assert_eq!(routing.wake(2), Some(Reroute(Some(1))));
        assert_eq!(routing.sleep(2), None);
        assert_eq!(routing.wake(2), None);
        assert_eq!(routing.wake(1), None);
        assert_eq!(routing.sleep(1), None);
        assert_eq!(routing.wake(1), None);
        assert_eq!(routing.sleep(0), Some(Reroute(Some(0))));
    }

    #[test]
    fn n8_an_idle_hart_gets_no_interrupt() {
        let mut routing = Routing::new();
        routing.sleep(3);
        routing.wake(3);
        assert_eq!(routing.retire(2), None);
        assert_eq!(routing.retire(3), Some(Reroute(None)));
        assert_eq!(routing.sleep(3), Some(Reroute(Some(3))));
    }

    /// Whatever harts do, in any order: while one sleeps, the interrupt goes to one that sleeps.
    #[test]
    fn n8_while_a_hart_sleeps_the_interrupt_ends_a_sleep() {
        let mut states = std::collections::HashSet::from([(Routing::new(), None)]);
        let mut fresh: std::vec::Vec<_> = states.iter().copied().collect();
        while let Some((routing, hardware)) = fresh.pop() {
            for hart in 0..4 {
                let steps: [fn(&mut Routing, usize) -> Option<Reroute>; 2] =
                    if routing.asleep & (1 << hart) == 0 {
                        [Routing::sleep, Routing::retire]
                    } else {
                        [Routing::wake, Routing::wake]
                    };
                for step in steps {
                    let mut next = routing;
                    let hardware = step(&mut next, hart).map_or(hardware, |Reroute(to)| to);
                    let served = hardware.is_some_and(|hart| next.asleep & (1 << hart) != 0);
                    assert!(next.asleep == 0 || served, "{routing:?} -> {next:?}, routed to {hardware:?}");
                    if states.insert((next, hardware)) {
                        fresh.push((next, hardware));
                    }
                }
            }
        }
    }
}
