//! The share of recent time in which harts were idle (SPEC L-2).

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use pami::balance::RecentShare;
use spin::Mutex;

/// When each of `N` harts was idle. A hart notes its own time; those of its task look at it for a few instructions.
pub struct Idle<const N: usize> {
    harts: [Mutex<RecentShare>; N],
    /// How often each slept.
    sleeps: [AtomicU32; N],
    /// Harts of each task, which follow each other.
    each: AtomicUsize,
}

impl<const N: usize> Idle<N> {
    /// Nobody was idle yet; each hart is a task's.
    pub const fn new() -> Self {
        let harts = [const { Mutex::new(RecentShare::new()) }; N];
        Self { harts, sleeps: [const { AtomicU32::new(0) }; N], each: AtomicUsize::new(1) }
    }

    /// Each task has `each` harts from now on.
    pub fn divide(&self, each: usize) {
        self.each.store(each, Ordering::Relaxed);
    }

    /// Hart `hart`'s window.
    pub fn with(&self, hart: usize, what: impl FnOnce(&mut RecentShare)) {
        if let Some(window) = self.harts.get(hart) {
            what(&mut window.lock());
        }
    }

    /// Hart `hart` falls asleep.
    pub fn fall_asleep(&self, hart: usize, now: u64) {
        self.with(hart, |window| window.begin(now));
    }

    /// Hart `hart` was woken.
    pub fn wake_up(&self, hart: usize, now: u64) {
        self.with(hart, |window| window.end(now));
        if let Some(sleeps) = self.sleeps.get(hart) {
            sleeps.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often hart `hart` has slept and been woken; wraps.
    pub fn sleeps(&self, hart: usize) -> u32 {
        self.sleeps.get(hart).map_or(0, |sleeps| sleeps.load(Ordering::Relaxed))
    }

    /// The mean share of the harts of the task that `hart` is of, at `now`; of 1000.
    pub fn share(&self, hart: usize, now: u64) -> u16 {
        let each = self.each.load(Ordering::Relaxed).max(1);
        let mine = self.harts.chunks(each).nth(hart / each).unwrap_or_default();
        let all: usize = mine.iter().map(|window| usize::from(window.lock().share(now))).sum();
        (all / mine.len().max(1)) as u16
    }
}

impl<const N: usize> Default for Idle<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn l2_a_tasks_idle_share_is_that_of_its_harts() {
        let idle = Idle::<8>::new();
        // Hart 1 sleeps all the time, hart 2 slept for half of it; the others compute.
        idle.with(1, |window| window.begin(0));
        idle.with(2, |window| window.note(90 * MS, 95 * MS));
        assert_eq!([0, 1, 2, 3].map(|hart| idle.share(hart, 100 * MS)), [0, 1000, 500, 0]);
        for (each, shares) in [(4, [375, 375, 375, 375, 0]), (8, [187; 5]), (3, [500, 500, 500, 0, 0])] {
            idle.divide(each);
            assert_eq!([0, 1, 2, 3, 4].map(|hart| idle.share(hart, 100 * MS)), shares, "{each} harts");
        }
        assert_eq!(idle.share(99, 100 * MS), 0);
        idle.fall_asleep(3, 100 * MS);
        assert_eq!((idle.sleeps(3), idle.share(3, 110 * MS)), (0, 333));
        idle.wake_up(3, 110 * MS);
        assert_eq!((idle.sleeps(3), idle.sleeps(4)), (1, 0));
    }
}
