# version: 2
# show: outcome
/* A program that may load code (2091): behind a call by address `ra` is what the state holds, and the callee has left another link there for
   the function that it called. */
  .globl _start
_start:
  la s0, table
  beqz sp, loads
  call user
  la a1, user
  sub a0, a0, a1
  li a7, 93
  ecall
loads:
  lui a7, 1
  addiw a7, a7, -2005
  ecall
user:
  mv s1, ra
  ld a1, 0(s0)
  jalr a1
  mv a0, ra
  mv ra, s1
  ret
outer:
  addi sp, sp, -16
  sd ra, 0(sp)
  ld a1, 8(s0)
  jalr a1
  ld ra, 0(sp)
  addi sp, sp, 16
  ret
inner:
  li a2, 3
  ret
  .irp number, 1, 2, 3, 4, 5, 6, 7
other\number:
  li a0, \number
  ret
  .endr
  .data
  .balign 8
table:
  .dword outer, inner, other1, other2, other3, other4, other5, other6, other7

#=== outcome
# Exit(6), 539 cycles, native
