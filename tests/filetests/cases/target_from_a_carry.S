# version: 2
# show: ir outcome
/* A fused addition whose last sum goes to `zero` writes a carry: here over an address that was known. */
  .globl _start
_start:
  la t2, known
  add t1, t2, a1
  sltu t2, t1, t2
  add zero, t2, a2
  jr t2
known:
  li a0, 1
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp a1 a2} changes {t1 t2}
#
# function fn0 at 0x10000 {sp a1 a2} -> {} exposed
# block0 at 0x10000 cycles 5 metered:
#     v0 = const 0x10016
#     v1 = read a1
#     v2 = read a2
#     v3 = const 0xfffffffffffffffe
#     v4 = add v0, v1
#     v5 = lt.u v4, v0
#     v6 = add v5, v2
#     v7 = and v5, v3
#     t1 = v4
#     t2 = v5
#     jump.indirect v7, []
#
# function fn1 at 0x10016 {} -> {} exposed
# block0 at 0x10016 cycles 502 metered:
#     v0 = const 0x0
#     v1 = const 0x1
#     v2 = const 0x5d
#     a0 = v1
#     a7 = v2
#     exit at 0x1001c

#=== outcome
# MemWriteOnExecutablePage, 5 cycles, interpreted, native code left: unknown_target
