# version: 1
# show: outcome
/* A loop that only a `longjmp` makes ends at the limit of cycles. */
  .globl _start
_start:
  la a0, buffer
  call save
  la a0, buffer
  call jump
save:
  sd ra, 0(a0)
  sd sp, 8(a0)
  ret
jump:
  ld ra, 0(a0)
  ld sp, 8(a0)
  ret
  .bss
buffer:
  .space 16

#=== outcome
# CyclesExceeded, 999997 cycles, interpreted, native code left: out_of_cycles
