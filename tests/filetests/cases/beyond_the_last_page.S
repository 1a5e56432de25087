# version: 2
# show: outcome
/* A call to the page behind the last one with code: there a directory of entries that is taken for longer than it is reads the version of the
   library's header, and so the number of the group that `function` is in. */
  .globl _start
_start:
  la a1, function
  li a2, 6336
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
