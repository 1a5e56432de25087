# version: 2
# show: ir outcome
/* Two words that share two bytes, each put together from bytes as compilers do where they may not assume alignment, are two loads.
   The third is not: a byte of it is stored between. */
  .globl _start
_start:
  lui a0, 0x20
  lui a1, 0x12345
  addi a1, a1, 0x678
  sd a1, 0(a0)
  sd a1, 5(a0)
  lbu t0, 3(a0)
  lbu t1, 4(a0)
  lbu t2, 5(a0)
  lbu t3, 6(a0)
  lbu t4, 7(a0)
  lbu t5, 8(a0)
  slli t6, t1, 8
  or t0, t0, t6
  slli t6, t2, 16
  or t0, t0, t6
  slli t6, t3, 24
  or t0, t6, t0
  slli t3, t3, 8
  or t2, t2, t3
  slli t4, t4, 16
  or t2, t2, t4
  slli t5, t5, 24
  or t2, t2, t5
  add a2, t0, t2
  lbu t0, 9(a0)
  sb a2, 9(a0)
  lbu t1, 10(a0)
  slli t1, t1, 8
  or t0, t0, t1
  add a2, a2, t0
  mv a0, a2
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 552 metered:
#     v0 = const 0x20000
#     v1 = const 0x12345000
#     v2 = const 0x678
#     v3 = const 0x12345678
#     v4 = const 0x8
#     v5 = const 0x10
#     v6 = const 0x18
#     v7 = const 0x0
#     v8 = const 0x5d
#     check.write v0+0..+13
#     store.d v0+0, v3
#     store.d v0+5, v3
#     v12 = load.bu v0+3
#     v13 = load.bu v0+4
#     v14 = load.bu v0+5
#     v15 = load.bu v0+6
#     v16 = load.bu v0+7
#     v17 = load.bu v0+8
#     v18 = shl v13, v4
#     v19 = load.hu v0+3
#     v20 = shl v14, v5
#     v21 = or v19, v20
#     v22 = shl v15, v6
#     v23 = load.wu v0+3
#     v24 = shl v15, v4
#     v25 = load.hu v0+5
#     v26 = shl v16, v5
#     v27 = or v25, v26
#     v28 = shl v17, v6
#     v29 = load.wu v0+5
#     v30 = add v23, v29
#     v31 = load.bu v0+9
#     store.b v0+9, v30
#     v33 = load.bu v0+10
#     v34 = shl v33, v4
#     v35 = or v31, v34
#     v36 = add v30, v35
#     v37 = add v7, v36
#     t0 = v35
#     t1 = v34
#     t2 = v29
#     a0 = v37
#     a1 = v3
#     a2 = v36
#     a7 = v8
#     t3 = v24
#     t4 = v26
#     t5 = v28
#     t6 = v22
#     exit at 0x10072

#=== outcome
# Exit(-118), 552 cycles, native
