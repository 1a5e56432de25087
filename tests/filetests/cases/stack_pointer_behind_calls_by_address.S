# version: 2
# show: outcome
/* Some function that is found by its address moves `sp`, so callers look for theirs in the state: one that gives `sp` back has left its own
   there for the function that it called. */
  .globl _start
_start:
  la s0, table
  addi sp, sp, -32
  ld a1, 8(s0)
  jalr a1
  sd a0, 8(sp)
  ld a0, 8(sp)
  li a7, 93
  ecall
mover:
  addi sp, sp, -64
  ret
outer:
  addi sp, sp, -16
  sd ra, 0(sp)
  ld a1, 16(s0)
  jalr a1
  ld ra, 0(sp)
  addi sp, sp, 16
  ret
inner:
  li a0, 3
  ret
  .irp number, 1, 2, 3, 4, 5, 6, 7
other\number:
  li a0, \number
  ret
  .endr
  .data
  .balign 8
table:
  .dword mover, outer, inner, other1, other2, other3, other4, other5, other6, other7

#=== outcome
# Exit(3), 530 cycles, native
