# version: 2
# show: outcome
/* A function found by its address that moves `sp`: the frame of who calls it is elsewhere then, here in code. */
  .globl _start
_start:
  la sp, frame
  call user
  li a7, 93
  ecall
user:
  addi sp, sp, -32
  mv s1, ra
  la a1, table
  ld a1, 0(a1)
  jalr a1
  sd a0, 8(sp)
  ld a0, 8(sp)
  addi sp, sp, 96
  mv ra, s1
  ret
mover:
  addi sp, sp, -64
  ret
  .balign 4096
  .data
  .space 32
frame:
  .balign 8
table:
  .dword mover

#=== outcome
# MemWriteOnExecutablePage, 25 cycles, interpreted, native code left: unknown_target
