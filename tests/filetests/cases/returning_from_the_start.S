# version: 2
# show: outcome
/* The first function returns: what the state holds then is not all of it. */
  .globl _start
_start:
  li s1, 5
  addi sp, sp, -16
  sd s1, 0(sp)
  ret

#=== outcome
# MemWriteOnExecutablePage, 7 cycles, interpreted, native code left: returned
