# version: 1
# show: outcome
/* A frame that has ended is not returned to natively, though another one of the same function is at its place, with the same `sp`. */
  .globl _start
_start:
  la a0, buffer
  call first
  call first
  bnez a0, 1f
  la a0, buffer
  li a1, 1
  li t2, 0
  call jump
1:
  li a7, 93
  ecall
first:
  addi sp, sp, -16
  sd ra, 8(sp)
  bnez t2, 2f
  li t2, 1
  la a0, buffer
  call save
2:
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
save:
  sd ra, 0(a0)
  sd sp, 8(a0)
  li a0, 0
  ret
jump:
  ld ra, 0(a0)
  ld sp, 8(a0)
  mv a0, a1
  ret
  .bss
buffer:
  .space 16

#=== outcome
# Exit(1), 574 cycles, interpreted, native code left: unknown_target
