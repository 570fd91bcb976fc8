//! Linux in the place of firmware: a process is a machine, its threads are harts (SPEC H-1).
//!
//! `main` of the process starts the first hart on its stack, as it would on bare metal; the process' own first thread does no
//! more. Pages below a hart's stacks are taken away when it starts, and it keeps its number as its thread's own. A signal
//! that says that a hart did what cannot be done is a fault.

use crate::stacks::{GUARD_BYTES, emergency_stack, guard_pages, set_stacks, stack};
use crate::{Fault, native};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

unsafe extern "C" {
    fn kernel_primary(tree: usize, id: u64, level: usize) -> !;
    fn kernel_first_stacks() -> usize;
    fn kernel_secondary(number: usize) -> !;
    fn kernel_fault(fault: &Fault) -> !;
    fn kernel_interrupt();
}

/// Signals by which the host tells a thread that it did what cannot be done.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// What the process ends with if it cannot even start.
const CANNOT_START: c_int = 71;

/// NUMA nodes have numbers below this.
const NUMA_NODES: usize = 1024;

static COUNT: AtomicI32 = AtomicI32::new(0);
static WORDS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());

/// The words that the process was started with, its name apart. Those that are no text are left out.
pub fn words() -> impl Iterator<Item = &'static str> {
    let (count, words) = (COUNT.load(Ordering::Acquire), WORDS.load(Ordering::Acquire));
    (1..usize::try_from(count).unwrap_or(0)).filter_map(move |place| {
        // SAFETY: `main` was given so many pointers to texts that live as long as the process.
        unsafe { CStr::from_ptr(words.add(place).read()) }.to_str().ok()
    })
}

/// What each thread keeps its number under.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The number of the hart that calls. The process' first thread is none and never asks.
#[inline]
pub fn hart() -> usize {
    // SAFETY: `main` has made the key before any hart runs.
    unsafe { libc::pthread_getspecific(NUMBER.load(Ordering::Relaxed)) }.addr()
}

/// Starts hart `number`, which does not run, on its stack.
///
/// # Errors
/// The host gives no more threads.
pub fn start_hart(number: usize) -> Result<(), &'static str> {
    start(number).then_some(()).ok_or("the host gives no thread")
}

fn start(number: usize) -> bool {
    let Some(place) = stack(number).filter(|_| guard(number)) else { return false };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are set up before they are used. The stack is of this hart's number alone, writable, and lives
    // as long as the process; `enter` takes the number that it is given.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr()) == 0
            && libc::pthread_attr_setstack(
                attributes.as_mut_ptr(),
                ptr::with_exposed_provenance_mut(place.bottom),
                place.top - place.bottom,
            ) == 0
            && libc::pthread_create(
                thread.as_mut_ptr(),
                attributes.as_ptr(),
                enter,
                ptr::without_provenance_mut(number),
            ) == 0
    }
}

/// A hart's first function.
extern "C" fn enter(number: *mut c_void) -> *mut c_void {
    let number = number.addr();
    let Some(emergency) = emergency_stack(number) else { leave(CANNOT_START) };
    let emergency = libc::stack_t {
        ss_sp: ptr::with_exposed_provenance_mut(emergency.bottom),
        ss_flags: 0,
        ss_size: emergency.top - emergency.bottom,
    };
    // SAFETY: the stack is of this hart's number alone, and lives as long as the process. The key was made by `main`, and its
    // values are numbers.
    let failed = unsafe {
        libc::sigaltstack(&raw const emergency, ptr::null_mut())
            | libc::pthread_setspecific(NUMBER.load(Ordering::Relaxed), ptr::without_provenance(number))
    };
    if failed != 0 {
        leave(CANNOT_START);
    }
    match number {
        // SAFETY: called once, on the first hart's stack.
        0 => unsafe { kernel_primary(0, 0, 0) },
        // SAFETY: called once for each other hart, on its stack.
        _ => unsafe { kernel_secondary(number) },
    }
}

/// Ends the process with this code.
pub fn leave(code: c_int) -> ! {
    // SAFETY: ends the process at once, whatever its threads do; nothing of it is to be put in order.
    unsafe { libc::_exit(code) }
}

/// Has the host take these pages, which nobody has touched, from NUMA node `numa`, as long as that has some, whoever touches them
/// first. Returns whether it does.
pub fn prefer_numa(start: usize, bytes: usize, numa: usize) -> bool {
    let mut nodes = [0u64; NUMA_NODES / 64];
    let Some(word) = nodes.get_mut(numa / 64) else { return false };
    *word = 1 << (numa % 64);
    let how = libc::c_long::from(libc::MPOL_PREFERRED);
    // SAFETY: it changes where pages are to lie, nothing of what is in them, and the host checks that they are this process's. It
    // reads no more bits of `nodes` than it is told.
    unsafe { libc::syscall(libc::SYS_mbind, start, bytes, how, nodes.as_ptr(), NUMA_NODES, 0usize) == 0 }
}

/// Where a signal is handled.
extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the host hands both to the handler of a signal that was asked for with them.
    let fault = unsafe { native::fault(signal, &*info, &*context.cast()) };
    // SAFETY: this hart is on its emergency stack, and does not go back.
    unsafe { kernel_fault(&fault) }
}

/// Has faults of this process come to [`fault`]. Returns whether that could be done.
fn take_faults() -> bool {
    FAULTS.iter().all(|&signal| {
        // SAFETY: all zero is a value of it.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler is one for a signal with information.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
    })
}

/// Takes the pages below a hart's stacks away, which nobody may touch.
fn guard(number: usize) -> bool {
    guard_pages(number).into_iter().flatten().all(|page| {
        let page = ptr::with_exposed_provenance_mut(page);
        // SAFETY: nothing lies in these pages.
        unsafe { libc::mprotect(page, GUARD_BYTES, libc::PROT_NONE) == 0 }
    })
}

/// Makes the key of harts' numbers.
fn make_key() -> bool {
    let mut key = 0;
    // SAFETY: a new key; nothing is done with its values at the end of a thread.
    let made = unsafe { libc::pthread_key_create(&raw mut key, None) == 0 };
    NUMBER.store(key, Ordering::Relaxed);
    made
}

/// Where the process begins.
// SAFETY: the C runtime calls it by this name, with the process' words.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *mut *const c_char) -> c_int {
    WORDS.store(words, Ordering::Release);
    COUNT.store(count, Ordering::Release);
    // Nobody interrupts a hart of a process.
    let _ = kernel_interrupt as unsafe extern "C" fn();
    // SAFETY: the words are there, and no hart runs. The memory that it finds is nobody else's, for ever.
    unsafe { set_stacks(0, kernel_first_stacks()) };
    if !(make_key() && take_faults() && start(0)) {
        return CANNOT_START;
    }
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// What `core` refers to where its own build could unwind; nothing unwinds here.
// SAFETY: nobody calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
