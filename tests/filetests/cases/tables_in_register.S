# version: 2
# args: x
# show: outcome
/* Two tables take turns in one register: the place in one says nothing about the other. */
  .globl _start
_start:
  lbu s1, 0(sp)
  la s0, table
  la s3, other
  li s2, 5
again:
  andi a1, s1, 3
  slli a1, a1, 2
  add a1, a1, s0
  lw a1, 0(a1)
  add a1, a1, s0
  jr a1
1:
  addi s1, s1, 3
  j 9f
2:
  slli s1, s1, 1
  j 9f
3:
  xori s1, s1, 1
9:
  mv a2, s0
  mv s0, s3
  mv s3, a2
  addi s2, s2, -1
  bnez s2, again
  andi a0, s1, 127
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word 1b - table
  .word 2b - table
  .word 3b - table
  .word 2b - table
other:
  .word 3b - other
  .word 1b - other
  .word 2b - other
  .word 1b - other

#=== outcome
# Exit(11), 610 cycles, interpreted, native code left: unknown_target
