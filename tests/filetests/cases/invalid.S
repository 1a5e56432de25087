# version: 2
# show: program ir outcome
/* An invalid encoding that is reached. */
  .globl _start
_start:
  li a0, 0
  .4byte 0xffffffff

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,0
#     -> jump block1
# block1 at 0x10002:
#     -> leave

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 1:
#     v0 = const 0x0
#     a0 = v0
#     jump block1
# block1 at 0x10002 cycles 0:
#     leave

#=== outcome
# InvalidInstruction, 0 cycles, interpreted, native code left: unsupported
