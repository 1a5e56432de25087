# version: 2
# show: ir outcome
/* A fused addition whose last sum goes to `zero` writes a carry: here to the link, so that the function does not return to its caller. */
  .globl _start
_start:
  call function
  li a0, 1
  li a7, 93
  ecall
function:
  add t1, ra, a1
  sltu ra, t1, ra
  add zero, ra, a2
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {a1 a2} changes {}
#
# function fn0 at 0x10000 {a1 a2} -> {} exposed
# block0 at 0x10000 cycles 3:
#     v0 = const 0x10004
#     ra = v0
#     call fn1, then block1
# block1 at 0x10004 cycles 502 metered:
#     v0 = const 0x0
#     v1 = const 0x1
#     v2 = const 0x5d
#     a0 = v1
#     a7 = v2
#     exit at 0x1000a
#
# function fn1 at 0x1000e {ra a1 a2} -> {}
# block0 at 0x1000e cycles 4 metered:
#     v0 = read ra
#     v1 = read a1
#     v2 = read a2
#     v3 = add v0, v1
#     v4 = lt.u v3, v0
#     v5 = add v4, v2
#     ra = v4
#     t1 = v3
#     return if v4 is the return address

#=== outcome
# MemWriteOnExecutablePage, 7 cycles, interpreted, native code left: unknown_target
