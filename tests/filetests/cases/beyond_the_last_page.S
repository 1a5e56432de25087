# version: 2
# args: 1
# show: outcome
/* A call to the page behind the last one with code: there a directory of entries that is taken for longer than it is reads the version of the
   library's header, and so the number of the group that `function` is in. */
  .globl _start
_start:
  la a1, function
  ld a2, 0(sp)
  li a3, 6336
  mul a2, a2, a3
  add a1, a1, a2
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
# MemWriteOnExecutablePage, 13 cycles, interpreted, native code left: unknown_target
