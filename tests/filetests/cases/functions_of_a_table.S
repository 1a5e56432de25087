# version: 2
# show: ir outcome
/* Of many functions that are called by their address, the caller's table lists two: these are compared with. What a table elsewhere lists is not. */
  .globl _start
_start:
  lbu a1, 0(sp)
  andi a1, a1, 1
  slli a1, a1, 3
  la a2, here
  add a1, a1, a2
  ld a2, 0(a1)
  li a0, 7
  jalr a2
  li a7, 93
  ecall
twice:
  slli a0, a0, 1
  ret
once_more:
  addi a0, a0, 1
  ret
a: li a0, 1
  ret
b: li a0, 2
  ret
c: li a0, 3
  ret
d: li a0, 4
  ret
e: li a0, 5
  ret
  .section .rodata
  .balign 8
here:
  .dword twice, once_more, 0
elsewhere:
  .dword a, b, c, d, e

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp a0} changes {a0}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 13:
#     v0 = read sp
#     v1 = const 0x1
#     v2 = const 0x3
#     v3 = const 0x10040
#     v4 = const 0x0
#     v5 = const 0x7
#     v6 = const 0x10018
#     v7 = const 0xfffffffffffffffe
#     check.read v0+0..+1
#     v9 = load.bu v0+0
#     v10 = and v9, v1
#     v11 = shl v10, v2
#     check.read v11+65600..+65608
#     v13 = add v11, v3
#     v14 = load.du v11+65600
#     v15 = and v14, v7
#     v16 = const 0x10020
#     v17 = eq v15, v16
#     ra = v6
#     a0 = v5
#     a1 = v13
#     a2 = v14
#     branch v17, block2, block3
# block1 at 0x10018 cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1001c
# block2 at 0x10000 cycles 0:
#     call fn1, then block1
# block3 at 0x10000 cycles 0:
#     v0 = read a2
#     v1 = const 0xfffffffffffffffe
#     v2 = and v0, v1
#     v3 = const 0x10024
#     v4 = eq v2, v3
#     branch v4, block4, block5
# block4 at 0x10000 cycles 0:
#     call fn2, then block1
# block5 at 0x10000 cycles 0:
#     v0 = read a2
#     v1 = const 0xfffffffffffffffe
#     v2 = and v0, v1
#     call.indirect v2, then block1 with {a0}
#
# function fn1 at 0x10020 {a0} -> {a0} exposed
# block0 at 0x10020 cycles 4 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = shl v0, v1
#     a0 = v2
#     return
#
# function fn2 at 0x10024 {a0} -> {a0} exposed
# block0 at 0x10024 cycles 4 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = add v0, v1
#     a0 = v2
#     return
#
# function fn3 at 0x10028 {} -> {a0} exposed
# block0 at 0x10028 cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x1
#     a0 = v1
#     return
#
# function fn4 at 0x1002c {} -> {a0} exposed
# block0 at 0x1002c cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x2
#     a0 = v1
#     return
#
# function fn5 at 0x10030 {} -> {a0} exposed
# block0 at 0x10030 cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x3
#     a0 = v1
#     return
#
# function fn6 at 0x10034 {} -> {a0} exposed
# block0 at 0x10034 cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x4
#     a0 = v1
#     return
#
# function fn7 at 0x10038 {} -> {a0} exposed
# block0 at 0x10038 cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x5
#     a0 = v1
#     return

#=== outcome
# Exit(14), 518 cycles, native
