//! AArch64: entered at EL1 or EL2, with the MMU off, x0 = device tree or 0.
//!
//! The kernel thread runs at EL1 with SP_EL0; SP_EL1 is the emergency stack, so a fault gets a good stack whatever
//! became of the thread's. TPIDR_EL1 holds the hart's number. The first hart starts with one 1 GiB block around the
//! image: Rust code needs normal memory for unaligned and atomic accesses.

use crate::stacks::{EMERGENCY_TOP, STACK_TOP, STRIDE};

core::arch::global_asm!(
    r#"
    .section .text.entry, "ax"
    .globl _start
_start:
    mov     x19, x0
    mov     x20, xzr
    bl      enter_el1
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b
2:  adrp    x0, boot_table
    add     x0, x0, :lo12:boot_table
    adr     x1, _start
    lsr     x2, x1, #30
    lsl     x3, x2, #30
    mov     x4, #0x705                  // block, normal memory, inner shareable, accessed
    orr     x3, x3, x4
    str     x3, [x0, x2, lsl #3]
    bl      mmu_on
    bl      hart_stacks
    mov     x0, x19
    mrs     x1, mpidr_el1
    b       kernel_primary

    .globl boot_secondary
boot_secondary:
    mov     x20, x0
    bl      enter_el1
    adrp    x0, BOOT_TRANSLATION
    ldr     x0, [x0, :lo12:BOOT_TRANSLATION]
    bl      mmu_on
    bl      hart_stacks
    mov     x0, x20
    b       kernel_secondary

    // To EL1 with SP_EL1, all masked, floating point on. Clobbers x0.
enter_el1:
    msr     daifset, #0xf
    mrs     x0, CurrentEL
    cmp     x0, #8
    b.ne    3f
    mov     x0, #(1 << 31)              // EL1 is AArch64
    msr     hcr_el2, x0
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
    mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #24, #4
    cbz     x0, 4f
    mov     x0, #9                      // GIC system registers, at EL1 too
    msr     S3_4_C12_C9_5, x0
    isb
4:  mov     x0, #0x3c5                  // EL1h, all masked
    msr     spsr_el2, x0
    adr     x0, 3f
    msr     elr_el2, x0
    eret
3:  mov     x0, #(3 << 20)
    msr     cpacr_el1, x0
    isb
    ret

    // Turns on MMU and caches with the table at x0: 39-bit addresses, 4 KiB pages. Clobbers x1, x2.
mmu_on:
    mov     x1, #0xff04                 // 0: device nGnRE, 1: normal write-back
    msr     mair_el1, x1
    mrs     x1, id_aa64mmfr0_el1
    and     x1, x1, #7
    mov     x2, #5                      // at most 48 bits of physical address
    cmp     x1, x2
    csel    x1, x1, x2, ls
    lsl     x1, x1, #32
    movz    x2, #0x3519                 // T0SZ 25, walks cacheable and inner shareable
    movk    x2, #0x0080, lsl #16        // no TTBR1
    orr     x1, x1, x2
    msr     tcr_el1, x1
    msr     ttbr0_el1, x0
    dsb     sy
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
    ldr     x1, ={stride}
    madd    x0, x20, x1, x0
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

    // All vectors: a fault while a fault is reported starts over at the top of the emergency stack.
fault:
    msr     tpidrro_el0, x1
    adrp    x0, BOOT_STACKS
    add     x0, x0, :lo12:BOOT_STACKS
    mrs     x1, tpidr_el1
    add     x1, x1, #1
    msr     tpidr_el0, x2
    ldr     x2, ={stride}
    madd    x0, x1, x2, x0
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

    .balign 2048
vectors:
    .rept   16
    .balign 128
    b       fault
    .endr

    .section .bss.boot_table, "aw", @nobits
    .balign 4096
boot_table:
    .skip   4096
"#,
    stride = const STRIDE,
    stack_top = const STACK_TOP,
    emergency_top = const EMERGENCY_TOP,
);
