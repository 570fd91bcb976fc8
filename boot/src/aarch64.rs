//! AArch64: entered at EL1, EL2 or EL3, with the MMU off, x0 = device tree or 0.
//!
//! It begins again at EL1 with the MMU off as well: [`begin_again`](crate::begin_again).
//!
//! The kernel thread runs at EL1 with SP_EL0; SP_EL1 is the emergency stack, so a fault gets a good stack whatever
//! became of the thread's; the one interrupt that is taken is served on it. TPIDR_EL1 holds the hart's number. The
//! kernel is told at which level the first hart was entered: at EL3 no firmware is there that could start other harts,
//! but there is a console to say so on.
//!
//! What the Arm Architecture Reference Manual wants, which no emulator misses:
//!
//! | where | what | section of the manual |
//! |---|---|---|
//! | boot tables, addresses in an image that is moved | written past the caches, so stale lines are invalidated before (none may be evicted over them) and after (none may be hit by the walks, which are cacheable) | B2 "Mismatched memory attributes", D7 "Cache maintenance instructions" |
//! | `.bss`, `.data` | cleared, and copied or put back, when the caches are on, and never touched before, so nothing is to be maintained. The image itself is clean to the point of coherency by the boot protocol | as above |
//! | change of translation | with the MMU off: an old and a new entry for an address never meet in a TLB | D8 "Using break-before-make" |
//! | writes to system registers | `isb` before what relies on them, `dsb` before `isb` behind maintenance | D24 "Synchronization requirements for AArch64 System registers" |
//! | SCTLR_EL1, MDCR_EL2, CPTR_EL2 ... | are not known after reset: written before the level below them runs | D24, "This register is UNKNOWN on a Warm reset" |
//!
//! Mapped at boot are the pages of the image, each part with its rights, and those of the device tree, read-only: a
//! core may read ahead from all that is mapped as normal memory.

mod copies;

use crate::stacks::{EMERGENCY_TOP, HARTS, STACK_TOP};

/// Tables of the translation at boot: a root; two of each level for the image, and one for each 2 MiB of it (`linker.ld` has
/// the most); two of each level for the tree, and two for its at most 2 MiB.
const BOOT_TABLES: usize = 1 + 4 + 9 + 4 + 2;

core::arch::global_asm!(
    r#"
    .section .text.entry, "ax"
    .globl _start
_start:
    // The header of a Linux image, by which boot loaders know where to put it.
    b       boot_primary
    .word   0
    .quad   0                           // from a multiple of 2 MiB
    .quad   __image_bytes
    .quad   0xa                         // little-endian, 4 KiB pages, anywhere in memory
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .word   0

boot_primary:
    mov     x19, x0
    mov     x20, xzr
    mov     x24, xzr
    bl      enter_el1

    // Elsewhere than it was linked for, what holds an address in the image is moved along.
    adr     x23, _start
    ldr     x5, =IMAGE_BASE
    subs    x23, x23, x5
    b.eq    9f
    adrp    x0, __text_end
    adrp    x1, __data_end
    bl      invalidate
    adrp    x0, __relocations_start
    add     x0, x0, :lo12:__relocations_start
    adrp    x1, __relocations_end
    add     x1, x1, :lo12:__relocations_end
7:  cmp     x0, x1
    b.hs    8f
    ldp     x2, x3, [x0], #16
    ldr     x4, [x0], #8
    cmp     x3, #1027                   // R_AARCH64_RELATIVE: an address of the image
    b.ne    stop
    cmp     x2, x5                      // below is what names of log lines are made of, which is not loaded
    b.lo    7b
    add     x4, x4, x23
    str     x4, [x2, x23]
    b       7b
8:  adrp    x0, __text_end
    adrp    x1, __data_end
    bl      invalidate
9:
    // The tree: where the firmware says, else where an emulator that says nothing puts it: at the start of the
    // gigabyte of RAM. x19 = 0 if there is none, or one that could not be mapped; x22 = its end.
    cbnz    x19, 1f
    adr     x19, _start
    lsr     x19, x19, #30
    lsl     x19, x19, #30
1:  tst     x19, #7
    b.ne    2f
    lsr     x0, x19, #48
    cbnz    x0, 2f
    ldp     w0, w1, [x19]
    rev     w0, w0
    rev     w1, w1
    movz    w2, #0xfeed
    movk    w2, #0xd00d, lsl #16
    cmp     w0, w2
    b.ne    2f
    add     x22, x19, x1
    mov     x2, #(2 << 20)
    cmp     x1, x2
    b.ls    3f
2:  mov     x19, xzr
    mov     x22, xzr

3:  adrp    x9, boot_tables
    adrp    x11, boot_tables_end
    mov     x0, x9
    mov     x1, x11
    bl      invalidate
    mov     x0, x9
4:  stp     xzr, xzr, [x0], #16
    cmp     x0, x11
    b.lo    4b
    add     x10, x9, #4096
    movz    x2, #0x787                  // page, normal memory, read-only, inner shareable, accessed
    movk    x2, #0x0040, lsl #48        // never executed by user code
    adrp    x0, __image_start
    adrp    x1, __text_end
    bl      map_pages
    movk    x2, #0x0060, lsl #48        // nor by ours
    adrp    x1, __rodata_end
    bl      map_pages
    and     x0, x19, #~0xfff
    add     x1, x22, #0xfff
    and     x1, x1, #~0xfff
    bl      map_pages
    bic     x2, x2, #0x80               // written, too
    adrp    x0, __rodata_end
    adrp    x1, __image_end
    bl      map_pages
    mov     x0, x9
    mov     x1, x11
    bl      invalidate
    mov     x0, x9
    bl      mmu_on

    // Variables with a value are kept as they are now, for when they are to be so again.
    adrp    x0, __rodata_end
    adrp    x1, __data_copy
    add     x1, x1, :lo12:__data_copy
    adrp    x2, __data_end
    sub     x2, x2, x0
    cbz     x24, 10f
    mov     x3, x0
    mov     x0, x1
    mov     x1, x3
10: cbz     x2, 11f
    ldp     x3, x4, [x0], #16
    stp     x3, x4, [x1], #16
    sub     x2, x2, #16
    b       10b
11:
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
5:  cmp     x0, x1
    b.hs    6f
    stp     xzr, xzr, [x0], #16
    b       5b
6:  adrp    x0, BOOT_FIRST_STACKS
    add     x0, x0, :lo12:BOOT_FIRST_STACKS
    adrp    x1, BOOT_STACKS
    str     x0, [x1, :lo12:BOOT_STACKS]
    bl      hart_stacks
    mov     x0, x19
    mrs     x1, mpidr_el1
    mov     x2, x21
    b       kernel_primary

    // The first hart begins again, from the kernel: x0 = device tree. What was moved along stays so.
    .globl boot_again
boot_again:
    dsb     sy
    mov     x19, x0
    mov     x20, xzr
    mov     x24, #1
    bl      enter_el1
    b       9b

    // From a spin table, with nothing in x0: the number is that of this hart's id. One that is not ours stays here.
    .globl boot_released
boot_released:
    mrs     x1, mpidr_el1
    movz    x2, #0xffff                 // the affinity
    movk    x2, #0x00ff, lsl #16
    movk    x2, #0x00ff, lsl #32
    and     x1, x1, x2
    adrp    x2, BOOT_HART_IDS
    add     x2, x2, :lo12:BOOT_HART_IDS
    mov     x0, xzr
1:  ldr     x3, [x2, x0, lsl #3]
    cmp     x3, x1
    b.eq    boot_secondary
    add     x0, x0, #1
    cmp     x0, #{harts}
    b.lo    1b
    b       stop

    .globl boot_secondary
boot_secondary:
    mov     x20, x0
    bl      enter_el1
    // Cleaned to the point of coherency by whoever wrote it.
    adrp    x0, BOOT_TRANSLATION
    ldr     x0, [x0, :lo12:BOOT_TRANSLATION]
    bl      mmu_on
    bl      hart_stacks
    mov     x0, x20
    b       kernel_secondary

    // To EL1 with SP_EL1, all masked, MMU off, floating point on and as IEEE 754 has it. x21 = the level before.
    // Clobbers x0, x1.
enter_el1:
    msr     daifset, #0xf
    mrs     x21, CurrentEL
    lsr     x21, x21, #2
    cmp     x21, #3
    b.ne    2f
    mov     x0, #0x5b1                  // the levels below are not secure, are AArch64, may HVC and must not SMC
    msr     scr_el3, x0
    msr     cptr_el3, xzr
    msr     mdcr_el3, xzr
    mrs     x1, id_aa64pfr0_el1
    tst     x1, #(0xf << 24)
    b.eq    1f
    mov     x0, #0xf                    // GIC by system registers, below as well
    msr     S3_6_C12_C12_5, x0          // ICC_SRE_EL3
    isb
1:  movz    x0, #0x0830                 // MMU off
    movk    x0, #0x30c5, lsl #16
    tst     x1, #(0xf << 8)             // is there an EL2?
    b.eq    5f
    msr     sctlr_el2, x0
    mov     x0, #0x3c9                  // EL2h, all masked
    b       6f
5:  movz    x0, #0x0800
    movk    x0, #0x30d0, lsl #16
    msr     sctlr_el1, x0
    mov     x0, #0x3c5                  // EL1h, all masked
6:  msr     spsr_el3, x0
    adr     x0, 2f
    msr     elr_el3, x0
    isb
    eret

2:  mrs     x0, CurrentEL
    cmp     x0, #(2 << 2)
    b.ne    4f
    mov     x0, #(1 << 31)              // EL1 is AArch64; no E2H, which changes what the registers below mean
    msr     hcr_el2, x0
    isb
    movz    x0, #0x0800                 // MMU off
    movk    x0, #0x30d0, lsl #16
    msr     sctlr_el1, x0
    mov     x0, #3                      // EL1 may use counter and timers
    msr     cnthctl_el2, x0
    msr     cntvoff_el2, xzr
    mov     x0, #0x33ff                 // no floating-point traps
    msr     cptr_el2, x0
    msr     hstr_el2, xzr
    mrs     x0, midr_el1
    msr     vpidr_el2, x0
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0
    // No debug traps, and all event counters, if there are any, are EL1's.
    mov     x1, xzr
    mrs     x0, id_aa64dfr0_el1
    ubfx    x0, x0, #8, #4              // 0: no such unit, 15: one of another kind
    sub     x0, x0, #1
    cmp     x0, #14
    b.hs    3f
    mrs     x1, pmcr_el0
    ubfx    x1, x1, #11, #5
3:  msr     mdcr_el2, x1
    mrs     x0, id_aa64pfr0_el1
    tst     x0, #(0xf << 24)
    b.eq    7f
    mov     x0, #0xf                    // GIC by system registers, at EL1 too
    msr     S3_4_C12_C9_5, x0           // ICC_SRE_EL2
    isb
    msr     S3_4_C12_C11_0, xzr         // ICH_HCR_EL2
7:  mov     x0, #0x3c5                  // EL1h, all masked
    msr     spsr_el2, x0
    adr     x0, 4f
    msr     elr_el2, x0
    isb
    eret

4:  movz    x0, #0x0800
    movk    x0, #0x30d0, lsl #16
    msr     sctlr_el1, x0
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0
    isb
    msr     fpcr, xzr
    ret

    // Makes the caches forget the whole pages x0..x1, which were written past them. Clobbers x0, x2, x3.
invalidate:
    mrs     x2, ctr_el0
    ubfx    x2, x2, #16, #4
    mov     x3, #4
    lsl     x2, x3, x2                  // bytes of the shortest line
    dsb     sy
1:  dc      ivac, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    1b
    dsb     sy
    ret

    // From the entry at x3 to the table that it points to, in x4; takes the table at x10 if there is none.
    .macro  next_table
    ldr     x4, [x3]
    cbnz    x4, 8f
    cmp     x10, x11
    b.hs    stop
    orr     x4, x10, #3
    add     x10, x10, #4096
    str     x4, [x3]
8:  and     x4, x4, #~0xfff
    .endm

    // Maps the pages x0..x1, where they lie, with the attributes x2. Root x9, free tables x10..x11. Leaves x0 = x1.
    // Clobbers x3, x4.
map_pages:
    cmp     x0, x1
    b.hs    1f
    ubfx    x3, x0, #39, #9
    add     x3, x9, x3, lsl #3
    next_table
    ubfx    x3, x0, #30, #9
    add     x3, x4, x3, lsl #3
    next_table
    ubfx    x3, x0, #21, #9
    add     x3, x4, x3, lsl #3
    next_table
    ubfx    x3, x0, #12, #9
    orr     x5, x0, x2
    str     x5, [x4, x3, lsl #3]
    add     x0, x0, #4096
    b       map_pages
1:  ret

    // No table is left, or the image holds what is no address: that cannot be, and there is nobody yet to tell.
stop:
    wfi
    b       stop

    // Turns on MMU and caches with the table at x0: 48-bit addresses, 4 KiB pages. Clobbers x1, x2.
mmu_on:
    mov     x1, #0xff04                 // 0: device nGnRE, 1: normal write-back
    msr     mair_el1, x1
    mrs     x1, id_aa64mmfr0_el1
    and     x1, x1, #7
    mov     x2, #5                      // at most 48 bits of physical address
    cmp     x1, x2
    csel    x1, x1, x2, ls
    lsl     x1, x1, #32
    movz    x2, #0x3510                 // T0SZ 16, walks cacheable and inner shareable
    movk    x2, #0x0080, lsl #16        // no TTBR1
    orr     x1, x1, x2
    msr     tcr_el1, x1
    msr     ttbr0_el1, x0
    isb
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    movz    x1, #0x181d                 // MMU, caches, stack alignment checks
    movk    x1, #0x30d0, lsl #16
    msr     sctlr_el1, x1
    isb
    ret

    // Vectors, number and both stacks of hart x20. Clobbers x0, x1.
hart_stacks:
    msr     tpidr_el1, x20
    adrp    x0, vectors
    add     x0, x0, :lo12:vectors
    msr     vbar_el1, x0
    adrp    x0, BOOT_STACKS
    add     x0, x0, :lo12:BOOT_STACKS
    ldr     x0, [x0, x20, lsl #3]
    ldr     x1, ={emergency_top}
    add     x1, x0, x1
    mov     sp, x1
    msr     spsel, #0
    isb
    ldr     x1, ={stack_top}
    add     x1, x0, x1
    mov     sp, x1
    mov     x29, xzr
    ret

    // The general registers that compiled code need not keep, to or from their places on the stack.
    .macro  generals do
    \do     x0, x1, [sp]
    \do     x2, x3, [sp, #16]
    \do     x4, x5, [sp, #32]
    \do     x6, x7, [sp, #48]
    \do     x8, x9, [sp, #64]
    \do     x10, x11, [sp, #80]
    \do     x12, x13, [sp, #96]
    \do     x14, x15, [sp, #112]
    \do     x16, x17, [sp, #128]
    \do     x18, x30, [sp, #144]
    .endm

    // All vector registers to or from x0 and up.
    .macro  vectors_each do
    \do     q0, q1, [x0]
    \do     q2, q3, [x0, #32]
    \do     q4, q5, [x0, #64]
    \do     q6, q7, [x0, #96]
    \do     q8, q9, [x0, #128]
    \do     q10, q11, [x0, #160]
    \do     q12, q13, [x0, #192]
    \do     q14, q15, [x0, #224]
    \do     q16, q17, [x0, #256]
    \do     q18, q19, [x0, #288]
    \do     q20, q21, [x0, #320]
    \do     q22, q23, [x0, #352]
    \do     q24, q25, [x0, #384]
    \do     q26, q27, [x0, #416]
    \do     q28, q29, [x0, #448]
    \do     q30, q31, [x0, #480]
    .endm

    // A fault while a fault is reported starts over at the top of the emergency stack.
fault:
    adrp    x0, BOOT_STACKS
    add     x0, x0, :lo12:BOOT_STACKS
    mrs     x1, tpidr_el1
    ldr     x0, [x0, x1, lsl #3]
    ldr     x1, ={emergency_top}
    add     x0, x0, x1
    mov     sp, x0
    sub     sp, sp, #64
    mrs     x0, elr_el1
    mrs     x1, sp_el0
    stp     x0, x1, [sp]
    stp     x29, x30, [sp, #16]
    mrs     x0, esr_el1
    mrs     x1, far_el1
    stp     x0, x1, [sp, #32]
    mrs     x0, spsr_el1
    stp     x0, xzr, [sp, #48]
    mov     x0, sp
    mov     x30, xzr
    b       kernel_fault
    .ltorg

    // The one interrupt that is taken, on the emergency stack. All that compiled code may change is saved, both halves
    // of the vector registers too, and there is a way back.
interrupt:
    sub     sp, sp, #(24 * 8 + 32 * 16 + 16)
    generals stp
    mrs     x0, elr_el1
    mrs     x1, spsr_el1
    stp     x0, x1, [sp, #160]
    mrs     x0, fpsr
    mrs     x1, fpcr
    stp     x0, x1, [sp, #176]
    add     x0, sp, #192
    vectors_each stp
    bl      kernel_interrupt
    add     x0, sp, #192
    vectors_each ldp
    ldp     x0, x1, [sp, #176]
    msr     fpsr, x0
    msr     fpcr, x1
    ldp     x0, x1, [sp, #160]
    msr     elr_el1, x0
    msr     spsr_el1, x1
    generals ldp
    add     sp, sp, #(24 * 8 + 32 * 16 + 16)
    eret

    // An IRQ of the kernel thread is the second; all others are faults.
    .balign 2048
vectors:
    b       fault
    .balign 128
    b       interrupt
    .rept   14
    .balign 128
    b       fault
    .endr

    // Neither cleared with `.bss` nor mapped by the kernel, which has tables of its own.
    .section .bss.boot_tables, "aw", @nobits
    .balign 4096
boot_tables:
    .skip   {tables} * 4096
boot_tables_end:
"#,
    tables = const BOOT_TABLES,
    harts = const HARTS,
    stack_top = const STACK_TOP,
    emergency_top = const EMERGENCY_TOP,
);
