//! `memcpy`, `memmove` and `memset`, which the compiler calls for what it does not copy in place.
//!
//! Those of its own library copy a word at a time, and byte by byte what is short or not aligned alike, as headers and
//! descriptors are. These copy by pairs of 16-byte registers, and the ends of a piece by loads that overlap: once the MMU is
//! on, memory that is not a device's may be reached at any address. Before that no code runs that calls these.
//!
//! Of a piece of at most 64 bytes, and of the last 64 of a longer one, all is read before any is written: so `memmove` needs
//! a loop of its own only for a longer piece that goes up by less than its length.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.copies, "ax"
    .global memmove
    .type memmove, @function
    .global memcpy
    .type memcpy, @function
    // x0 to, x1 from, x2 bytes: x3 and x4 are the ends of both.
    .balign 16
memmove:
    sub     x5, x0, x1
    cmp     x5, x2
    b.lo    .Lbackward
memcpy:
    add     x3, x0, x2
    add     x4, x1, x2
    cmp     x2, #16
    b.hi    .Lover_16
    tbz     w2, #4, .Lup_to_15
    ldr     q0, [x1]
    str     q0, [x0]
    ret
.Lup_to_15:
    tbz     w2, #3, .Lup_to_7
    ldr     x5, [x1]
    ldr     x6, [x4, #-8]
    str     x5, [x0]
    str     x6, [x3, #-8]
    ret
.Lup_to_7:
    tbz     w2, #2, .Lup_to_3
    ldr     w5, [x1]
    ldr     w6, [x4, #-4]
    str     w5, [x0]
    str     w6, [x3, #-4]
    ret
.Lup_to_3:
    cbz     x2, .Lnothing
    ldrb    w5, [x1]
    tbz     w2, #1, .Lone
    ldrh    w6, [x4, #-2]
    strh    w6, [x3, #-2]
.Lone:
    strb    w5, [x0]
.Lnothing:
    ret
.Lover_16:
    ldr     q0, [x1]
    ldr     q1, [x4, #-16]
    cmp     x2, #32
    b.hi    .Lover_32
    str     q0, [x0]
    str     q1, [x3, #-16]
    ret
.Lover_32:
    ldr     q2, [x1, #16]
    ldr     q3, [x4, #-32]
    cmp     x2, #64
    b.hi    .Lover_64
    stp     q0, q2, [x0]
    stp     q3, q1, [x3, #-32]
    ret
.Lover_64:
    // The last 64 bytes, which may be some that the loop has copied, are in registers before it writes.
    ldp     q4, q5, [x4, #-64]
    mov     x5, x0
.Lforward:
    ldp     q6, q7, [x1]
    ldp     q16, q17, [x1, #32]
    sub     x2, x2, #64
    add     x1, x1, #64
    stp     q6, q7, [x5]
    stp     q16, q17, [x5, #32]
    add     x5, x5, #64
    cmp     x2, #64
    b.hi    .Lforward
    stp     q4, q5, [x3, #-64]
    stp     q3, q1, [x3, #-32]
    ret
    // To a place behind the first byte and before the last: from the end.
.Lbackward:
    cmp     x2, #64
    b.ls    memcpy
    add     x3, x0, x2
    add     x4, x1, x2
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
.Lback:
    ldp     q4, q5, [x4, #-32]
    ldp     q6, q7, [x4, #-64]
    sub     x2, x2, #64
    sub     x4, x4, #64
    stp     q4, q5, [x3, #-32]
    stp     q6, q7, [x3, #-64]
    sub     x3, x3, #64
    cmp     x2, #64
    b.hi    .Lback
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
    ret
    .size memmove, . - memmove
    .size memcpy, . - memcpy

    .global memset
    .type memset, @function
    // x0 to, w1 byte, x2 bytes.
    .balign 16
memset:
    dup     v0.16b, w1
    add     x3, x0, x2
    cmp     x2, #16
    b.hs    .Lset_16
    umov    x1, v0.d[0]
    tbz     w2, #3, .Lset_up_to_7
    str     x1, [x0]
    str     x1, [x3, #-8]
    ret
.Lset_up_to_7:
    tbz     w2, #2, .Lset_up_to_3
    str     w1, [x0]
    str     w1, [x3, #-4]
    ret
.Lset_up_to_3:
    cbz     x2, .Lset_nothing
    strb    w1, [x0]
    tbz     w2, #1, .Lset_nothing
    strh    w1, [x3, #-2]
.Lset_nothing:
    ret
.Lset_16:
    cmp     x2, #64
    b.hi    .Lset_over_64
    str     q0, [x0]
    str     q0, [x3, #-16]
    cmp     x2, #32
    b.ls    .Lset_nothing
    str     q0, [x0, #16]
    str     q0, [x3, #-32]
    ret
.Lset_over_64:
    mov     x5, x0
.Lset_more:
    stp     q0, q0, [x5]
    stp     q0, q0, [x5, #32]
    sub     x2, x2, #64
    add     x5, x5, #64
    cmp     x2, #64
    b.hi    .Lset_more
    stp     q0, q0, [x3, #-64]
    stp     q0, q0, [x3, #-32]
    ret
    .size memset, . - memset
"#
);
