# version: 2
# show: ir outcome
/* A fused addition whose last sum goes to `zero` writes a carry: here to the number of a system call, which is not to exit any more. */
  .globl _start
_start:
  li a0, 1
  li a7, 93
  add t1, a7, a1
  sltu a7, t1, a7
  add zero, a7, a2
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {a1 a2 a3 a4 a5 a6} changes {}
#
# function fn0 at 0x10000 {a1 a2 a3 a4 a5 a6} -> {} exposed
# block0 at 0x10000 cycles 503 metered:
#     v0 = const 0x0
#     v1 = const 0x1
#     v2 = const 0x5d
#     v3 = read a1
#     v4 = read a2
#     v5 = add v2, v3
#     v6 = lt.u v5, v2
#     v7 = add v6, v4
#     t1 = v5
#     a0 = v1
#     a7 = v6
#     ecall at 0x10012 {a0 a1 a2 a3 a4 a5 a6 a7}, then block1
# block1 at 0x10016 cycles 0:
#     leave

#=== outcome
# InvalidEcall, 503 cycles, interpreted, native code left: ecall
