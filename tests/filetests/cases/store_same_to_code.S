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
# indirect {} changes {a0 a1 a7}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 509 metered:
#     v0 = const 0x10000
#     check.read v0+0..+4
#     v2 = load.w v0+0
#     check.write v0+0..+4
#     store.w v0+0, v2
#     v5 = const 0x0
#     v6 = const 0x5d
#     a0 = v5
#     a1 = v2
#     a7 = v6
#     exit at 0x10012

#=== outcome
# MemWriteOnExecutablePage, 509 cycles, interpreted, native code left: bad_address
