# version: 2
# show: outcome
/* A tail call by address with another link than the function's own: the callee returns there, and not to the caller. */
  .globl _start
_start:
  call function
  li a0, 1
  j end
elsewhere:
  li a0, 7
end:
  li a7, 93
  ecall
function:
  la a1, table
  ld a1, 0(a1)
  la ra, elsewhere
  jr a1
callee:
  li a2, 5
  ret
  .irp number, 1, 2, 3, 4, 5, 6, 7
other\number:
  li a0, \number
  ret
  .endr
  .data
  .balign 8
table:
  .dword callee, other1, other2, other3, other4, other5, other6, other7

#=== outcome
# Exit(7), 516 cycles, interpreted, native code left: unknown_target
