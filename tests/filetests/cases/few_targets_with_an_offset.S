# version: 2
# show: outcome
/* A call by address with an offset, where few functions can be meant: each is compared with the sum, of which the register alone is another
   function's address. */
  .globl _start
_start:
  la a1, table
  ld a1, 8(a1)
  jalr 4(a1)
  li a7, 93
  ecall
first:
  li a0, 1
  ret
second:
  li a0, 2
  ret
third:
  li a0, 3
  ret
  .data
  .balign 8
table:
  .dword first, second, third

#=== outcome
# Exit(3), 511 cycles, native
