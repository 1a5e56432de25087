# version: 2
# show: outcome
/* A program that begins at an odd address does not begin with the function before it. */
  .globl _start
  .set _start, begin + 1
begin:
  li a0, 1
  li a7, 93
  ecall
  .data
  .balign 8
  .dword begin

#=== outcome
# InvalidInstruction, 0 cycles, interpreted, native code left: unknown_target
