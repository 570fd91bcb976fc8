//! The harts' stacks: each with an unmapped page below it, and a second, small one to report faults on (SPEC N-10).

use core::cell::UnsafeCell;
use core::mem::offset_of;

/// Most harts of a node (SPEC N-1).
pub const HARTS: usize = 8;
/// Bytes of a hart's stack.
pub const STACK_BYTES: usize = 256 * 1024;
/// Bytes of the stack that a hart's faults are reported on.
pub const EMERGENCY_BYTES: usize = 32 * 1024;
/// Bytes of the hole below each stack: one page.
pub const GUARD_BYTES: usize = 4096;

#[repr(C, align(4096))]
struct HartStacks {
    guard: [u8; GUARD_BYTES],
    stack: [u8; STACK_BYTES],
    emergency_guard: [u8; GUARD_BYTES],
    emergency: [u8; EMERGENCY_BYTES],
}

#[repr(transparent)]
struct AllStacks(UnsafeCell<[HartStacks; HARTS]>);

// SAFETY: each hart uses the stacks of its own number, and only the assembly hands them out.
unsafe impl Sync for AllStacks {}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".bss.stacks")]
static BOOT_STACKS: AllStacks = AllStacks(UnsafeCell::new(
    [const {
        HartStacks {
            guard: [0; GUARD_BYTES],
            stack: [0; STACK_BYTES],
            emergency_guard: [0; GUARD_BYTES],
            emergency: [0; EMERGENCY_BYTES],
        }
    }; HARTS],
));

/// Bytes from one hart's stacks to the next one's.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
pub(crate) const STRIDE: usize = size_of::<HartStacks>();
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

fn base(hart: usize) -> usize {
    assert!(hart < HARTS);
    BOOT_STACKS.0.get() as usize + hart * size_of::<HartStacks>()
}

/// The stack of `hart`'s kernel thread. `hart` is below [`HARTS`].
pub fn stack(hart: usize) -> Stack {
    let bottom = base(hart) + offset_of!(HartStacks, stack);
    Stack { bottom, top: bottom + STACK_BYTES }
}

/// The stack that `hart` reports faults on. `hart` is below [`HARTS`].
pub fn emergency_stack(hart: usize) -> Stack {
    let bottom = base(hart) + offset_of!(HartStacks, emergency);
    Stack { bottom, top: bottom + EMERGENCY_BYTES }
}

/// Addresses of the two pages that must not be mapped: below `hart`'s stack and below its emergency stack.
pub fn guard_pages(hart: usize) -> [usize; 2] {
    [base(hart), base(hart) + offset_of!(HartStacks, emergency_guard)]
}
