# version: 2
# show: program ir outcome
/* What version 2 fuses. */
  .globl _start
_start:
  li a0, -1
  li a1, 3
  mulhu a2, a0, a1
  mul a3, a0, a1
  divu a4, a0, a1
  remu a5, a0, a1
  add a0, a0, a1
  sltu a6, a0, a1
  sub t0, a1, a2
  sltu t1, a1, a2
  lui t2, 0x12345
  addiw t2, t2, 0x678
  add a0, a0, a6
  li a7, 93
  ecall

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,-1
#     0x10002: addi a1,zero,3
#     0x10004: wide.mulu a2,a3,a0,a1
#     0x1000c: wide.divu a4,a5,a0,a1
#     0x10014: adcs a0,a1,a0,a6
#     0x1001a: sbbs t0,a1,a2,t1
#     0x10022: load.imm t2,305419896
#     0x1002a: add a0,a0,a6
#     0x1002c: addi a7,zero,93
#     0x10030: ecall
#     -> exit

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 544 metered:
#     v0 = const 0x0
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x3
#     v3 = const 0x2
#     v4 = const 0x12345678
#     v5 = const 0x5d
#     v6 = mul.high.u v1, v2
#     v7 = mul v1, v2
#     v8 = div.u v1, v2
#     v9 = rem.u v1, v2
#     v10 = lt.u v3, v2
#     v11 = sub v2, v6
#     v12 = lt.u v2, v6
#     v13 = add v3, v10
#     t0 = v11
#     t1 = v12
#     t2 = v4
#     a0 = v13
#     a1 = v2
#     a2 = v6
#     a3 = v7
#     a4 = v8
#     a5 = v9
#     a6 = v10
#     a7 = v5
#     exit at 0x10030

#=== outcome
# Exit(3), 544 cycles, native
