# version: 2
# show: ir outcome
/* A store of what is there already, into code. */
  .globl _start
_start:
  la a0, _start
  lw a1, 0(a0)
  sw a1, 0(a0)
  li a0, 0
  li a7, 93
  ecall

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 509 metered:
#     v0 = const 0x10000
#     v1 = const 0x0
#     v2 = const 0x5d
#     check.write v0+0..+4
#     v4 = load.w v0+0
#     store.w v0+0, v4
#     a0 = v1
#     a1 = v4
#     a7 = v2
#     exit at 0x10012

#=== outcome
# MemWriteOnExecutablePage, 509 cycles, interpreted, native code left: bad_address
