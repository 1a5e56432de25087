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
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 507 metered:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff8
#     v2 = const 0x0
#     v3 = const 0x5d
#     check.read v0+0..+4
#     v5 = load.w v0+0
#     check.read v5+0..+16
#     v7 = add v5, v1
#     v8 = load.du v5+8
#     a0 = v8
#     a1 = v5
#     a7 = v3
#     exit at 0x1000c

#=== outcome
# Exit(0), 507 cycles, native
