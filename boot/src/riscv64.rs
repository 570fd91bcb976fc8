//! RISC-V: entered in supervisor mode by the SBI, with translation off; a0 = hart id, a1 = device tree. Any hart may
//! be the first.
//!
//! OpenSBI up to 1.1 announces a start to the waiting hart before it has noted entry and argument, so a hart may come
//! to `_start` instead of `boot_secondary`, or with another's argument. Hence only the first hart at `_start` is the
//! first hart, and the others find their number by their id, which the kernel published before it had them started.
//!
//! tp holds the hart's number, sscratch the top of its emergency stack.

mod copies;

use crate::stacks::{EMERGENCY_TOP, HARTS, STACK_TOP};

core::arch::global_asm!(
    r#"
    // The assembler does not always know the target's extensions.
    .option arch, +a, +m, +f, +d
    .section .text.entry, "ax"
    .globl _start
_start:
    // The header of a Linux image, by which boot loaders know where to put it.
    .option push
    .option norvc
    .option norelax
    j       boot_primary
    .option pop
    .word   0
    .quad   0x200000                    // from the start of memory
    .quad   __image_bytes
    .quad   0                           // little-endian
    .word   2, 0                        // version 0.2
    .quad   0
    .ascii  "RISCV\0\0\0"
    .ascii  "RSC\x05"
    .word   0
linked_base:
    .quad   IMAGE_BASE

boot_primary:
    csrw    sie, zero
    csrci   sstatus, 2
    lla     t0, BOOT_BEGUN
    li      t1, 1
    amoswap.w.aq t1, t1, (t0)
    bnez    t1, boot_secondary
    mv      s1, a0
    mv      s2, a1
    li      s4, 0

    // Elsewhere than it was linked for, what holds an address in the image is moved along.
    lla     t0, _start
    ld      s3, linked_base
    sub     t0, t0, s3
    beqz    t0, 8f
    lla     t1, __relocations_start
    lla     t2, __relocations_end
    li      t3, 3                       // R_RISCV_RELATIVE: an address of the image
7:  bgeu    t1, t2, 8f
    ld      t4, 0(t1)
    ld      t5, 8(t1)
    ld      t6, 16(t1)
    addi    t1, t1, 24
    bne     t5, t3, stop
    bltu    t4, s3, 7b                  // what names of log lines are made of, which is not loaded
    add     t4, t4, t0
    add     t6, t6, t0
    sd      t6, 0(t4)
    j       7b
8:
    // Variables with a value are kept as they are now, for when they are to be so again.
    lla     t0, __rodata_end
    lla     t1, __data_copy
    lla     t2, __data_end
    sub     t2, t2, t0
    beqz    s4, 10f
    mv      t3, t0
    mv      t0, t1
    mv      t1, t3
10: beqz    t2, 11f
    ld      t3, 0(t0)
    sd      t3, 0(t1)
    addi    t0, t0, 8
    addi    t1, t1, 8
    addi    t2, t2, -8
    j       10b
11:
    lla     t0, __bss_start
    lla     t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  li      tp, 0
    lla     t0, BOOT_FIRST_STACKS
    lla     t1, BOOT_STACKS
    sd      t0, 0(t1)
    call    hart_stacks
    mv      a0, s2
    mv      a1, s1
    li      a2, 1
    tail    kernel_primary

    // A hart begins again, as the first, from the kernel: a0 = device tree, a1 = its id. What was moved along stays so.
    .globl boot_again
boot_again:
    csrw    sie, zero
    csrci   sstatus, 2
    csrw    satp, zero
    sfence.vma
    mv      s1, a1
    mv      s2, a0
    li      s4, 1
    j       8b

    // A hart that runs nothing. Or the image holds what is no address: that cannot be, and there is nobody yet to tell.
    .globl boot_stop
boot_stop:
stop:
    csrw    sie, zero
9:  wfi
    j       9b

    .globl boot_secondary
boot_secondary:
    csrw    sie, zero
    csrci   sstatus, 2
3:  lla     t0, BOOT_HART_IDS
    li      tp, 0
    li      t1, {harts}
4:  ld      t2, 0(t0)
    beq     t2, a0, 5f
    addi    t0, t0, 8
    addi    tp, tp, 1
    bltu    tp, t1, 4b
    j       3b
5:  fence   r, rw
    lla     t0, BOOT_TRANSLATION
    ld      t0, 0(t0)
    sfence.vma
    csrw    satp, t0
    sfence.vma
    call    hart_stacks
    mv      a0, tp
    tail    kernel_secondary

    // Vector, floating point and both stacks of hart tp. Clobbers t0, t1.
hart_stacks:
    li      t0, 3 << 13
    csrc    sstatus, t0
    li      t0, 1 << 13
    csrs    sstatus, t0
    fscsr   zero                        // rounds to nearest, no flags: whatever ran before
    lla     t0, fault
    csrw    stvec, t0
    lla     t0, BOOT_STACKS
    slli    t1, tp, 3
    add     t0, t0, t1
    ld      t0, 0(t0)
    li      t1, {emergency_top}
    add     t1, t0, t1
    csrw    sscratch, t1
    li      t1, {stack_top}
    add     sp, t0, t1
    li      s0, 0
    ret

    // The general registers that compiled code need not keep, but t0, to or from their places on the stack.
    .macro  generals do
    \do      ra, 0(sp)
    \do      t1, 8(sp)
    \do      t2, 16(sp)
    \do      t3, 24(sp)
    \do      t4, 32(sp)
    \do      t5, 40(sp)
    \do      t6, 48(sp)
    \do      a0, 56(sp)
    \do      a1, 64(sp)
    \do      a2, 72(sp)
    \do      a3, 80(sp)
    \do      a4, 88(sp)
    \do      a5, 96(sp)
    \do      a6, 104(sp)
    \do      a7, 112(sp)
    .endm

    // The floating-point registers that compiled code need not keep, to or from their places on the stack.
    .macro  floats do
    \do     ft0, 128(sp)
    \do     ft1, 136(sp)
    \do     ft2, 144(sp)
    \do     ft3, 152(sp)
    \do     ft4, 160(sp)
    \do     ft5, 168(sp)
    \do     ft6, 176(sp)
    \do     ft7, 184(sp)
    \do     fa0, 192(sp)
    \do     fa1, 200(sp)
    \do     fa2, 208(sp)
    \do     fa3, 216(sp)
    \do     fa4, 224(sp)
    \do     fa5, 232(sp)
    \do     fa6, 240(sp)
    \do     fa7, 248(sp)
    \do     ft8, 256(sp)
    \do     ft9, 264(sp)
    \do     ft10, 272(sp)
    \do     ft11, 280(sp)
    .endm

    // A fault while a fault is reported starts over at the top of the emergency stack.
    .balign 4
fault:
    csrrw   sp, sscratch, sp
    addi    sp, sp, -64
    sd      t0, 56(sp)
    csrr    t0, scause
    bltz    t0, interrupt
    sd      s0, 16(sp)
    sd      ra, 24(sp)
    csrr    t0, sepc
    sd      t0, 0(sp)
    csrr    t0, sscratch
    sd      t0, 8(sp)
    csrr    t0, scause
    sd      t0, 32(sp)
    csrr    t0, stval
    sd      t0, 40(sp)
    csrr    t0, sstatus
    sd      t0, 48(sp)
    addi    t0, sp, 64
    csrw    sscratch, t0
    mv      a0, sp
    li      ra, 0
    tail    kernel_fault

    // The one interrupt that is taken, on the emergency stack: sscratch is its top again, for a fault. All that compiled
    // code may change is saved, and there is a way back.
interrupt:
    csrr    t0, sscratch
    sd      t0, 48(sp)
    addi    t0, sp, 64
    csrw    sscratch, t0
    addi    sp, sp, -(36 * 8)
    generals sd
    frcsr   t0
    sd      t0, 120(sp)
    floats  fsd
    call    kernel_interrupt
    floats  fld
    ld      t0, 120(sp)
    fscsr   t0
    generals ld
    addi    sp, sp, 36 * 8
    ld      t0, 56(sp)
    ld      sp, 48(sp)
    sret

    .section .data.boot_begun, "aw"
    .balign 4
BOOT_BEGUN:
    .word   0
"#,
    harts = const HARTS,
    stack_top = const STACK_TOP,
    emergency_top = const EMERGENCY_TOP,
);
