# version: 2
# args: x
# show: outcome
/* A computed jump to a label plus 2^32 is no jump to the label. */
  .globl _start
_start:
  la a2, labels
  ld a2, 8(a2)
  ld a0, 0(sp)
  slli a0, a0, 32
  add a2, a2, a0
  jr a2
.Lfirst:
  li a0, 1
  j .Lend
.Lsecond:
  li a0, 2
.Lend:
  li a7, 93
  ecall
  .data
  .balign 8
labels:
  .dword .Lfirst, .Lsecond

#=== outcome
# MemOutOfBound, 10 cycles, interpreted, native code left: unknown_target
