//! `memcpy`, `memmove` and `memset`, which the compiler calls for what it does not copy in place.
//!
//! Those of its own library copy a word at a time. These copy eight, where both places are aligned alike; where they are
//! not, as a core need not reach words at other addresses than multiples of their size, words are put together of two.
//! Of the first and the last of these no byte is read that is not in a word with one of the piece.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.copies, "ax"
    .global memmove
    .type memmove, @function
    .global memcpy
    .type memcpy, @function
    // a0 to, a1 from, a2 bytes: a3 is where to, a4 the end.
    .balign 16
memmove:
    sub     t0, a0, a1
    bltu    t0, a2, .Lbackward
memcpy:
    mv      a3, a0
    add     a4, a0, a2
    xor     t0, a0, a1
    andi    t0, t0, 7
    bnez    t0, .Lunlike
    // Up to a multiple of 8.
    andi    t0, a3, 7
    bnez    t0, .Lhead
.Laligned:
    andi    t0, a2, -64
    beqz    t0, .Lwords
    add     t0, a3, t0
.Lline:
    ld      t1, 0(a1)
    ld      t2, 8(a1)
    ld      t3, 16(a1)
    ld      t4, 24(a1)
    ld      t5, 32(a1)
    ld      t6, 40(a1)
    ld      a6, 48(a1)
    ld      a7, 56(a1)
    sd      t1, 0(a3)
    sd      t2, 8(a3)
    sd      t3, 16(a3)
    sd      t4, 24(a3)
    sd      t5, 32(a3)
    sd      t6, 40(a3)
    sd      a6, 48(a3)
    sd      a7, 56(a3)
    addi    a1, a1, 64
    addi    a3, a3, 64
    bne     a3, t0, .Lline
.Lwords:
    andi    t0, a2, 56
    beqz    t0, .Ltail
    add     t0, a3, t0
.Lword:
    ld      t1, 0(a1)
    addi    a1, a1, 8
    sd      t1, 0(a3)
    addi    a3, a3, 8
    bne     a3, t0, .Lword
.Ltail:
    andi    t0, a2, 7
    beqz    t0, .Ldone
    andi    t0, a2, 4
    beqz    t0, .Ltail_2
    lw      t1, 0(a1)
    addi    a1, a1, 4
    sw      t1, 0(a3)
    addi    a3, a3, 4
.Ltail_2:
    andi    t0, a2, 2
    beqz    t0, .Ltail_1
    lh      t1, 0(a1)
    addi    a1, a1, 2
    sh      t1, 0(a3)
    addi    a3, a3, 2
.Ltail_1:
    andi    t0, a2, 1
    beqz    t0, .Ldone
    lb      t1, 0(a1)
    sb      t1, 0(a3)
.Ldone:
    ret
.Lhead:
    beq     a3, a4, .Ldone
    lb      t1, 0(a1)
    addi    a1, a1, 1
    sb      t1, 0(a3)
    addi    a3, a3, 1
    addi    a2, a2, -1
    andi    t0, a3, 7
    bnez    t0, .Lhead
    j       .Laligned
    // Words are put together of two that are read, from the first word that is written as a whole to the last.
.Lunlike:
    li      t1, 24
    bltu    a2, t1, .Lbytes
    andi    t0, a3, 7
    beqz    t0, .Lmerge
.Lunlike_head:
    lb      t1, 0(a1)
    addi    a1, a1, 1
    sb      t1, 0(a3)
    addi    a3, a3, 1
    addi    a2, a2, -1
    andi    t0, a3, 7
    bnez    t0, .Lunlike_head
.Lmerge:
    andi    t3, a1, 7
    sub     t4, a1, t3
    slli    t3, t3, 3
    li      t5, 64
    sub     t5, t5, t3
    // One word less than there are: the last one read lies inside the piece.
    andi    t0, a2, -8
    addi    t0, t0, -8
    add     t6, a3, t0
    add     a1, a1, t0
    ld      t1, 0(t4)
    beq     a3, t6, .Lbytes
.Lmerge_word:
    ld      t2, 8(t4)
    srl     t1, t1, t3
    sll     a6, t2, t5
    or      t1, t1, a6
    sd      t1, 0(a3)
    mv      t1, t2
    addi    t4, t4, 8
    addi    a3, a3, 8
    bne     a3, t6, .Lmerge_word
.Lbytes:
    beq     a3, a4, .Ldone
.Lbyte:
    lb      t1, 0(a1)
    addi    a1, a1, 1
    sb      t1, 0(a3)
    addi    a3, a3, 1
    bne     a3, a4, .Lbyte
    ret
    // To a place behind the first byte and before the last: from the end.
.Lbackward:
    beqz    t0, .Ldone
    add     a3, a0, a2
    add     a1, a1, a2
    xor     t0, a3, a1
    andi    t0, t0, 7
    bnez    t0, .Lback_byte
.Lback_head:
    andi    t0, a3, 7
    beqz    t0, .Lback_words
    beq     a3, a0, .Ldone
    addi    a1, a1, -1
    lb      t1, 0(a1)
    addi    a3, a3, -1
    sb      t1, 0(a3)
    j       .Lback_head
.Lback_words:
    sub     t0, a3, a0
    andi    t0, t0, -8
    sub     t0, a3, t0
.Lback_word:
    beq     a3, t0, .Lback_tail
    addi    a1, a1, -8
    ld      t1, 0(a1)
    addi    a3, a3, -8
    sd      t1, 0(a3)
    j       .Lback_word
.Lback_tail:
    beq     a3, a0, .Ldone
.Lback_byte:
    addi    a1, a1, -1
    lb      t1, 0(a1)
    addi    a3, a3, -1
    sb      t1, 0(a3)
    bne     a3, a0, .Lback_byte
    ret
    .size memmove, . - memmove
    .size memcpy, . - memcpy

    .global memset
    .type memset, @function
    // a0 to, a1 byte, a2 bytes: a3 is where to, a4 the end.
    .balign 16
memset:
    mv      a3, a0
    add     a4, a0, a2
    li      t0, 16
    bltu    a2, t0, .Lset_bytes
    // The byte in each of a word.
    andi    a1, a1, 255
    slli    t0, a1, 8
    or      a1, a1, t0
    slli    t0, a1, 16
    or      a1, a1, t0
    slli    t0, a1, 32
    or      a1, a1, t0
.Lset_head:
    andi    t0, a3, 7
    beqz    t0, .Lset_aligned
    sb      a1, 0(a3)
    addi    a3, a3, 1
    j       .Lset_head
.Lset_aligned:
    sub     t0, a4, a3
    andi    t1, t0, -64
    beqz    t1, .Lset_words
    add     t1, a3, t1
.Lset_line:
    sd      a1, 0(a3)
    sd      a1, 8(a3)
    sd      a1, 16(a3)
    sd      a1, 24(a3)
    sd      a1, 32(a3)
    sd      a1, 40(a3)
    sd      a1, 48(a3)
    sd      a1, 56(a3)
    addi    a3, a3, 64
    bne     a3, t1, .Lset_line
.Lset_words:
    andi    t1, t0, 56
    beqz    t1, .Lset_bytes
    add     t1, a3, t1
.Lset_word:
    sd      a1, 0(a3)
    addi    a3, a3, 8
    bne     a3, t1, .Lset_word
.Lset_bytes:
    beq     a3, a4, .Lset_done
.Lset_byte:
    sb      a1, 0(a3)
    addi    a3, a3, 1
    bne     a3, a4, .Lset_byte
.Lset_done:
    ret
    .size memset, . - memset
"#
);
