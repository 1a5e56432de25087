# version: 2
# show: ir outcome
/* A fused multiplication has two results. A function whose link is the second of them returns elsewhere than where it was called from. */
  .globl _start
_start:
  la a0, elsewhere
  srli a0, a0, 1
  li a1, 2
  jal t0, function
  li a0, 1
  j end
elsewhere:
  li a0, 7
end:
  li a7, 93
  ecall
function:
  mulhu t1, a0, a1
  mul t0, a0, a1
  jr t0

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 6:
#     v0 = const 0x10014
#     v1 = const 0x1
#     v2 = const 0x0
#     v3 = const 0x2
#     v4 = const 0x10010
#     v5 = lshr v0, v1
#     t0 = v4
#     a0 = v5
#     a1 = v3
#     call fn2, then block1
# block1 at 0x10010 cycles 4 charged 0:
#     v0 = const 0x0
#     v1 = const 0x1
#     v2 = const 0x10014
#     a0 = v1
#     jump block2
# block2 at 0x10016 cycles 501 charged 505 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1001a
#
# function fn1 at 0x10014 {} -> {} exposed
# block0 at 0x10014 cycles 502 metered:
#     v0 = const 0x0
#     v1 = const 0x7
#     v2 = const 0x5d
#     a0 = v1
#     a7 = v2
#     exit at 0x1001a
#
# function fn2 at 0x1001e {t0 a0 a1} -> {} linked through t0
# block0 at 0x1001e cycles 8 metered:
#     v0 = read a0
#     v1 = read a1
#     v2 = mul.high.u v0, v1
#     v3 = mul v0, v1
#     t0 = v3
#     t1 = v2
#     return if v3 is the return address

#=== outcome
# Exit(7), 516 cycles, interpreted, native code left: unknown_target
