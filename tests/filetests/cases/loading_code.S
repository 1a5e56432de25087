# version: 2
# show: ir outcome
/* A program that may load code (2091): calls by address read and change every register. */
  .globl _start
_start:
  lui a7, 1
  addiw a7, a7, -2005
  ecall
  lui t0, 0x200
  jalr t0
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} changes {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6}
# open
# keeps stores
#
# function fn0 at 0x10000 {sp gp tp t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} -> {} exposed resumable
# block0 at 0x10000 cycles 501 metered:
#     v0 = const 0x82b
#     a7 = v0
#     ecall at 0x10006 {a0 a1 a2 a3 a4 a5 a6 a7}, then block1
# block1 at 0x1000a cycles 4:
#     v0 = const 0x200000
#     v1 = const 0x10010
#     v2 = const 0xfffffffffffffffe
#     v3 = and v0, v2
#     ra = v1
#     t0 = v0
#     call.indirect v3, then block2 with {a0}
# block2 at 0x10010 cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x10014

#=== outcome
# InvalidEcall, 501 cycles, interpreted, native code left: ecall
