/* Routines that scripts of the campaign load at run time: position independent, 64 bytes each, called as
 * f(a0, a1, a2 = an address to call or to store to, a3, a4). */
  .option norelax
  .option norvc
  .globl _start
_start:
/* 0: a loop. */
  andi a1, a1, 63
1: slli t0, a0, 3
  xor a0, a0, t0
  addi a1, a1, -1
  addi a0, a0, 5
  bgtz a1, 1b
  ret
  .balign 64
/* 1: calls a2 twice. */
  addi sp, sp, -32
  sd ra, 0(sp)
  sd a2, 8(sp)
  jalr a2
  li a1, 3
  ld a2, 8(sp)
  jalr a2
  ld ra, 0(sp)
  addi sp, sp, 32
  ret
  .balign 64
/* 2: how many cycles. */
  li a7, 2042
  ecall
  ret
  .balign 64
/* 3: a store to a2, read again. */
  sd a0, 0(a2)
  ld a0, 0(a2)
  add a0, a0, a1
  ret
  .balign 64
/* 4: a store to its own page. */
  auipc t0, 0
  sd a0, 0(t0)
  ret
  .balign 64
/* 5: a long loop. */
  li t0, 3000
2: addi t0, t0, -1
  mul a0, a0, t0
  bnez t0, 2b
  ret
  .balign 64
/* 6: no instruction. */
  .word 0
  .balign 64
/* 7: far away. */
  li t0, 0x400000
  jr t0
  .balign 64
/* 8: the caller's return address and a call of a2 as the last thing. */
  xor a0, a0, a1
  jr a2
  .balign 64
/* 9: the system call of number a3. */
  mv a7, a3
  ecall
  ret
  .balign 64
/* 10: its own bytes. */
  auipc t0, 0
  ld a0, 0(t0)
  lw t1, 16(t0)
  add a0, a0, t1
  ret
  .balign 64
/* 11: pages beyond. */
  auipc t0, 1
  ld a0, 0(t0)
  sd a1, 8(t0)
  ret
  .balign 64
/* 12: thirteen sums with carry in a row, more bytes than a trace can say. */
  .rept 13
  add a1, a1, a2
  sltu a2, a1, a2
  add a1, a1, a3
  sltu a3, a1, a3
  or a2, a2, a3
  .endr
  mv a0, a1
  ret
  .balign 64
