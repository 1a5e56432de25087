# version: 2
# args:
# show: outcome
/* `ebreak` at the end of a function goes on behind it, and so does who called that: in the interpreter. */
  .globl _start
_start:
  li a1, 1
  call refuse
  li a7, 93
  ecall
refuse:
  mv t0, ra
  call stop
  addi a0, a0, 2
  mv ra, t0
  ret
stop:
  ebreak
  .type last, @function
last:
  li a0, 4
  ret

#=== outcome
# Exit(6), 1018 cycles, interpreted, native code left: unsupported
