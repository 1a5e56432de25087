# version: 2
# show: ir outcome
/* libgcc's way to the highest byte that is not zero: the passes that find none are left out and charged. */
  .globl _start
_start:
  lbu a0, 0(sp)
  slli a0, a0, 9
  call highest
  addi a0, a0, 1
  li a7, 93
  ecall
highest:
  srli a5, a0, 56
  bnez a5, top
  li a5, 56
again:
  addi a5, a5, -8
  beqz a5, out
  srl a4, a0, a5
  andi a4, a4, 255
  beqz a4, again
out:
  srl a4, a0, a5
  add a0, a4, a5
  ret
top:
  li a5, 56
  j out

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 7:
#     v0 = read sp
#     v1 = const 0x9
#     v2 = const 0x1000a
#     check.read v0+0..+1
#     v4 = load.bu v0+0
#     v5 = shl v4, v1
#     ra = v2
#     a0 = v5
#     call fn1, then block1
# block1 at 0x1000a cycles 502 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = const 0x0
#     v3 = const 0x5d
#     v4 = add v0, v1
#     a0 = v4
#     a7 = v3
#     exit at 0x10010
#
# function fn1 at 0x10014 {a0} -> {a0}
# block0 at 0x10014 cycles 4 charged 0:
#     v0 = read a0
#     v1 = const 0x38
#     v2 = const 0x0
#     v3 = lshr v0, v1
#     v4 = ne v3, v2
#     a5 = v3
#     branch v4, block5, block1
# block1 at 0x1001a cycles 1 charged 5:
#     v0 = const 0x0
#     v1 = const 0x38
#     a5 = v1
#     jump block2
# block2 at 0x1001e cycles 0:
#     v0 = read a5
#     v1 = const 0xfffffffffffffff8
#     v2 = add v0, v1
#     v3 = const 0xffffffffffffffc7
#     v4 = and v2, v3
#     v5 = const 0x0
#     v6 = eq v4, v5
#     branch v6, block7, block6
# block3 at 0x10022 cycles 5:
#     v0 = read a0
#     v1 = read a5
#     v2 = const 0xff
#     v3 = const 0x0
#     v4 = lshr v0, v1
#     v5 = and v4, v2
#     v6 = eq v5, v3
#     a4 = v5
#     branch v6, block6, block4
# block4 at 0x1002c cycles 5 metered:
#     v0 = read a0
#     v1 = read a5
#     v2 = lshr v0, v1
#     v3 = add v2, v1
#     a0 = v3
#     a4 = v2
#     return
# block5 at 0x10036 cycles 4 charged 8:
#     v0 = const 0x0
#     v1 = const 0x38
#     v2 = const 0x1003c
#     a5 = v1
#     jump block4
# block6 at 0x1001e cycles 4 metered:
#     v0 = read a5
#     v1 = const 0xfffffffffffffff8
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = eq v3, v2
#     a5 = v3
#     branch v4, block4, block3
# block7 at 0x1001e cycles 0:
#     v0 = read a5
#     v1 = read a0
#     v2 = const 0x40
#     v3 = sub v2, v0
#     v4 = const 0xffffffffffffffff
#     v5 = lshr v4, v3
#     v6 = and v1, v5
#     v7 = const 0x1
#     v8 = or v6, v7
#     v9 = clz v8
#     v10 = const 0x38
#     v11 = and v9, v10
#     v12 = sub v10, v11
#     v13 = sub v0, v12
#     v14 = const 0x3
#     v15 = lshr v13, v14
#     v16 = const 0x9
#     v17 = mul v15, v16
#     v18 = const 0x0
#     v19 = eq v12, v18
#     v20 = const 0x5
#     v21 = mul v19, v20
#     v22 = sub v17, v21
#     charge v22
#     v24 = lshr v1, v12
#     v25 = const 0xff
#     v26 = and v24, v25
#     a5 = v12
#     a4 = v26
#     jump block4

#=== outcome
# Exit(1), 577 cycles, native
