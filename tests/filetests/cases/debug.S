# version: 2
# show: ir outcome
/* An ecall that goes on: the host sees a0 to a7, gives a0 back. */
  .globl _start
_start:
  la a0, text
  li a7, 2177
  ecall
  li a0, 0
  li a7, 93
  ecall
  .section .rodata
text:
  .asciz "hello"

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {a1 a2 a3 a4 a5 a6} changes {}
#
# function fn0 at 0x10000 {a1 a2 a3 a4 a5 a6} -> {} exposed
# block0 at 0x10000 cycles 502 metered:
#     v0 = const 0x1001c
#     v1 = const 0x881
#     a0 = v0
#     a7 = v1
#     ecall at 0x1000e {a0 a1 a2 a3 a4 a5 a6 a7}, then block1
# block1 at 0x10012 cycles 502 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a0 = v0
#     a7 = v1
#     exit at 0x10018

#=== outcome
# Exit(0), 1006 cycles, native
# debug: hello
