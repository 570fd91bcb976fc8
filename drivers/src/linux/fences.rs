//! Fences of which one side costs nothing (asymmetric fences, C++ P1202; SPEC H-5): the host has all harts of all nodes that asked
//! for it pass a full fence (`membarrier`) when a hart is about to sleep, so that one that sends a message needs none.
//!
//! Who cannot register has full fences of its own. A sleeper asks for the others' fences in any case: whether they have registered
//! it cannot know. Where harts sleep so often that this costs more than it saves, none asks and none registers.

use core::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};
use rustix::thread::{MembarrierCommand, membarrier};

/// All nodes are to register.
static WANTED: AtomicBool = AtomicBool::new(false);
/// This process passes a full fence whenever another asks.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Has this process pass a full fence whenever a hart of another node, or of this, passes a [heavy](heavy_fence) one. All nodes do
/// so before they send anything, or none does.
pub fn register_fences() {
    WANTED.store(true, Ordering::Relaxed);
    let registered = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
    REGISTERED.store(registered, Ordering::Relaxed);
}

/// Orders what this hart has written before what it reads from here on, as who passes a [heavy fence](heavy_fence) sees it.
#[inline(always)]
pub fn light_fence() {
    if REGISTERED.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The other side.
pub fn heavy_fence() {
    fence(Ordering::SeqCst);
    if WANTED.load(Ordering::Relaxed) {
        // Where the host knows of no such call nobody has registered.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}
