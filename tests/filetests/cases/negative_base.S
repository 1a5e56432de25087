# version: 2
# show: ir outcome
/* A base below zero with an offset that makes it legal. */
  .globl _start
_start:
  lw a1, 0(sp)
  addi a0, a1, -8
  ld a0, 16(a0)
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {a0 a1 a7}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 507 metered:
#     v0 = read sp
#     check.read v0+0..+4
#     v2 = load.w v0+0
#     v3 = const 0xfffffffffffffff8
#     v4 = add v2, v3
#     check.read v2+8..+16
#     v6 = load.du v2+8
#     v7 = const 0x0
#     v8 = const 0x5d
#     a0 = v6
#     a1 = v2
#     a7 = v8
#     exit at 0x1000c

#=== outcome
# Exit(0), 507 cycles, native
