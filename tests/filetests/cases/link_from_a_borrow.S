# version: 1
# show: ir outcome
/* A fused subtraction whose first borrow goes to `zero` writes its second to the link: the function does not return to its caller. */
  .globl _start
_start:
  call function
  li a0, 1
  li a7, 93
  ecall
function:
  sub ra, a1, ra
  sltu zero, a1, ra
  sub a1, ra, a2
  sltu a2, ra, a1
  or ra, a2, zero
  ret

#=== ir
# module version 1 isa imc+b+mop
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
# block0 at 0x1000e cycles 8 metered:
#     v0 = read a1
#     v1 = read ra
#     v2 = read a2
#     v3 = const 0x0
#     v4 = sub v0, v1
#     v5 = lt.u v0, v4
#     v6 = sub v4, v2
#     v7 = lt.u v4, v6
#     v8 = or v7, v3
#     ra = v8
#     a1 = v6
#     a2 = v7
#     return if v8 is the return address

#=== outcome
# MemWriteOnExecutablePage, 11 cycles, interpreted, native code left: unknown_target
