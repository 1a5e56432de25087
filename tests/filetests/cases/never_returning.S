# version: 2
# show: ir outcome
/* What the entry function changes is nobody's business: it never returns, so functions that are called by address keep `gp`. */
  .globl _start
_start:
  li gp, 3
  la a2, table
  ld a2, 0(a2)
  li a0, 7
  jalr a2
  add a0, a0, gp
  li a7, 93
  ecall
twice:
  slli a0, a0, 1
  ret
  .section .rodata
  .balign 8
table:
  .dword twice, _start

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp a0} changes {a0}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 8:
#     v0 = const 0x0
#     v1 = const 0x3
#     v2 = const 0x10020
#     v3 = const 0x7
#     v4 = const 0x10010
#     v5 = const 0xfffffffffffffffe
#     check.read v2+0..+8
#     v7 = load.du v2+0
#     v8 = and v7, v5
#     v9 = const 0x1001a
#     v10 = eq v8, v9
#     ra = v4
#     gp = v1
#     a0 = v3
#     a2 = v7
#     branch v10, block2, block3
# block1 at 0x10010 cycles 502 metered:
#     v0 = read a0
#     v1 = read gp
#     v2 = const 0x0
#     v3 = const 0x5d
#     v4 = add v0, v1
#     a0 = v4
#     a7 = v3
#     exit at 0x10016
# block2 at 0x10000 cycles 0:
#     call fn1, then block1
# block3 at 0x10000 cycles 0:
#     v0 = read a2
#     v1 = const 0xfffffffffffffffe
#     v2 = and v0, v1
#     call.indirect v2, then block1 with {gp a0}
#
# function fn1 at 0x1001a {a0} -> {a0} exposed
# block0 at 0x1001a cycles 4 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = shl v0, v1
#     a0 = v2
#     return

#=== outcome
# Exit(17), 514 cycles, native
