# version: 0
# show: ir outcome
/* Version 0 refuses to load the last bytes of memory. */
  .globl _start
_start:
  li a0, 0x3ffff8
  ld a0, 0(a0)
  li a7, 93
  ecall

#=== ir
# module version 0 isa imc
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 505 metered:
#     v0 = const 0x400000
#     v1 = const 0xfffffffffffffff8
#     v2 = const 0x3ffff8
#     v3 = const 0x0
#     v4 = const 0x5d
#     check.read v2+0..+8
#     v6 = load.du v2+0
#     a0 = v6
#     a7 = v4
#     exit at 0x1000c

#=== outcome
# MemOutOfBound, 505 cycles, interpreted, native code left: bad_address
