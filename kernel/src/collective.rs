//! The collective network, if the node is on it (SPEC D-3, N-8): one adapter for all tasks and harts.
//!
//! Whoever sleeps on a port sleeps on the tree as well: what arrives there ends the sleep, and the job, or whoever runs
//! its collectives, looks.

use crate::Tree;
use spin::Once;

static TREE: Once<Tree> = Once::new();

/// Puts the node on the tree.
pub(crate) fn start(tree: Tree) -> &'static Tree {
    TREE.call_once(|| tree)
}

/// The tree, if the node is on it.
#[inline]
pub(crate) fn tree() -> Option<&'static Tree> {
    TREE.get()
}

/// This hart is about to sleep; returns whether it must not.
pub(crate) fn fall_asleep() -> bool {
    tree().is_some_and(Tree::fall_asleep)
}

/// This hart sleeps no more.
pub(crate) fn wake_up() {
    if let Some(tree) = tree() {
        tree.wake_up();
    }
}
