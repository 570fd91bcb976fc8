//! The harts' stacks: each with an unmapped page below it, and a second, small one to report faults on (SPEC N-10).
//!
//! The first hart's are part of the image, but those of a process; whoever starts another hart finds memory for its stacks, so
//! that a node has those of the harts that it has.

#[cfg(not(hosted))]
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Most harts of a node (SPEC N-1).
pub const HARTS: usize = 64;
/// Bytes of a hart's stack.
pub const STACK_BYTES: usize = 256 * 1024;
/// Bytes of the stack that a hart's faults are reported on.
pub const EMERGENCY_BYTES: usize = 32 * 1024;
/// Bytes of the hole below each stack: one page.
pub const GUARD_BYTES: usize = 4096;
/// Bytes of all that, for one hart; whole pages.
pub const STACKS_BYTES: usize = size_of::<HartStacks>();

#[repr(C, align(4096))]
struct HartStacks {
    guard: [u8; GUARD_BYTES],
    stack: [u8; STACK_BYTES],
    emergency_guard: [u8; GUARD_BYTES],
    emergency: [u8; EMERGENCY_BYTES],
}

#[cfg(not(hosted))]
#[repr(transparent)]
struct FirstStacks(UnsafeCell<HartStacks>);

// SAFETY: the first hart uses them, and only the assembly hands them out.
#[cfg(not(hosted))]
unsafe impl Sync for FirstStacks {}

#[cfg(not(hosted))]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".bss.stacks")]
static BOOT_FIRST_STACKS: FirstStacks = FirstStacks(UnsafeCell::new(HartStacks {
    guard: [0; GUARD_BYTES],
    stack: [0; STACK_BYTES],
    emergency_guard: [0; GUARD_BYTES],
    emergency: [0; EMERGENCY_BYTES],
}));

/// Where the stacks of each hart lie; 0 is nowhere. The first hart's are noted by the assembly.
#[unsafe(no_mangle)]
static BOOT_STACKS: [AtomicUsize; HARTS] = [const { AtomicUsize::new(0) }; HARTS];

/// Where a hart's stack starts, going down from here, from the base of its stacks.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
pub(crate) const STACK_TOP: usize = offset_of!(HartStacks, emergency_guard);
/// Where its emergency stack starts.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
pub(crate) const EMERGENCY_TOP: usize = size_of::<HartStacks>();

/// Addresses of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Lowest address.
    pub bottom: usize,
    /// First address above.
    pub top: usize,
}

impl Stack {
    /// Whether `address` lies in it.
    pub fn contains(&self, address: usize) -> bool {
        (self.bottom..self.top).contains(&address)
    }
}

/// `hart`, other than the first of an image that has that one's, has its stacks at `base` from now on.
///
/// # Safety
/// [`STACKS_BYTES`] from `base` on are whole pages of memory that is nobody else's, for ever.
pub unsafe fn set_stacks(hart: usize, base: usize) {
    BOOT_STACKS[hart].store(base, Ordering::Release);
}

/// Where the stacks of `hart` lie, if it has any.
fn base(hart: usize) -> Option<usize> {
    BOOT_STACKS.get(hart).map(|base| base.load(Ordering::Acquire)).filter(|&base| base != 0)
}

/// The stack of `hart`'s kernel thread, if it has one.
pub fn stack(hart: usize) -> Option<Stack> {
    let bottom = base(hart)? + offset_of!(HartStacks, stack);
    Some(Stack { bottom, top: bottom + STACK_BYTES })
}

/// The stack that `hart` reports faults on, if it has one.
pub fn emergency_stack(hart: usize) -> Option<Stack> {
    let bottom = base(hart)? + offset_of!(HartStacks, emergency);
    Some(Stack { bottom, top: bottom + EMERGENCY_BYTES })
}

/// Addresses of the two pages that must not be mapped: below `hart`'s stack and below its emergency stack.
pub fn guard_pages(hart: usize) -> Option<[usize; 2]> {
    let base = base(hart)?;
    Some([base, base + offset_of!(HartStacks, emergency_guard)])
}
