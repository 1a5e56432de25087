# version: 1
# show: program lifted outcome
/* Version 1 fuses less of the same code, and charges accordingly. */
  .globl _start
_start:
  li a0, -1
  li a1, 3
  mulhu a2, a0, a1
  mul a3, a0, a1
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
# program version 1 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,-1
#     0x10002: addi a1,zero,3
#     0x10004: wide.mulu a2,a3,a0,a1
#     0x1000c: add a0,a0,a1
#     0x1000e: sltu a6,a0,a1
#     0x10012: sub t0,a1,a2
#     0x10016: sltu t1,a1,a2
#     0x1001a: load.imm t2,305419896
#     0x10022: add a0,a0,a6
#     0x10024: addi a7,zero,93
#     0x10028: ecall
#     -> exit

#=== lifted
# module version 1 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed sp compared
# block0 at 0x10000 cycles 514:
#     v0 = const 0x0
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x3
#     v3 = const 0x2
#     v4 = const 0x12345678
#     v5 = const 0x5d
#     v6 = mul.high.u v1, v2
#     v7 = mul v1, v2
#     v8 = lt.u v3, v2
#     v9 = sub v2, v6
#     v10 = lt.u v2, v6
#     v11 = add v3, v8
#     t0 = v9
#     t1 = v10
#     t2 = v4
#     a0 = v11
#     a1 = v2
#     a2 = v6
#     a3 = v7
#     a6 = v8
#     a7 = v5
#     exit at 0x10028

#=== outcome
# Exit(3), 514 cycles, native
