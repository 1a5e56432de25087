# version: 2
# args: x
# show: outcome
/* `s0` is not what it was behind a call, and `sp` is taken from it: a frame that nobody checked would be in code. */
  .globl _start
_start:
  lbu a0, 0(sp)
  call user
  li a7, 93
  ecall
user:
  addi sp, sp, -32
  sd ra, 24(sp)
  call caller
  sd a0, 8(sp)
  ld a0, 8(sp)
  ld ra, 24(sp)
  addi sp, sp, 32
  ret
caller:
  mv s2, ra
  addi s0, sp, 0
  sub sp, sp, a0
  call changer
  addi sp, s0, 0
  mv ra, s2
  ret
changer:
  lui s0, 16
  ret

#=== outcome
# MemWriteOnExecutablePage, 37 cycles, interpreted, native code left: unknown_target
