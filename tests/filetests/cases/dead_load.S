# version: 2
# show: ir optimised outcome
/* Nobody reads what is loaded; the load is out of bounds all the same. */
  .globl _start
_start:
  lw a1, 0(sp)
  li a0, 0x400000
  add a0, a0, a1
  ld a2, 0(a0)
  li a2, 0
  li a0, 0
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 510 metered:
#     v0 = read sp
#     v1 = const 0x400000
#     v2 = const 0x0
#     v3 = const 0x5d
#     check.read v0+0..+4
#     v5 = load.w v0+0
#     v6 = add v1, v5
#     check.read v6+0..+8
#     v8 = load.du v6+0
#     a0 = v2
#     a1 = v5
#     a2 = v2
#     a7 = v3
#     exit at 0x10012

#=== optimised

#=== outcome
# MemOutOfBound, 510 cycles, interpreted, native code left: bad_address
