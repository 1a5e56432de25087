# version: 2
# show: outcome
/* A call to the page behind the last one with code, as far into it as a function that is found by its address lies in its page. */
  .globl _start
_start:
  la a1, function
  lui a2, 1
  add a1, a1, a2
  sd a1, -8(sp)
  ld a1, -8(sp)
  jalr a1
  li a7, 93
  ecall
  .balign 1024
function:
  li a0, 1
  ret
  .data
  .balign 4096
  .space 4096

#=== outcome
# MemWriteOnExecutablePage, 10 cycles, interpreted, native code left: unknown_target
