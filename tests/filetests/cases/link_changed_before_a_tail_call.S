# version: 2
# show: ir outcome
/* A tail call by address with another link than the function's own: the callee returns there, and not to the caller. */
  .globl _start
_start:
  la t1, callee
  sd t1, -8(sp)
  call function
  li a0, 1
  j end
elsewhere:
  li a0, 7
end:
  li a7, 93
  ecall
function:
  ld a1, -8(sp)
  la ra, elsewhere
  jr a1
callee:
  li a2, 5
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {a2}
#
# function fn0 at 0x10000 {sp} -> {} exposed frame -8
# block0 at 0x10000 cycles 6:
#     v0 = const 0x1002c
#     v1 = read sp
#     v2 = const 0x10010
#     store.d v1-8, v0
#     ra = v2
#     t1 = v0
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
# function fn2 at 0x1001e {ra sp} -> {} frame -8
# block0 at 0x1001e cycles 6 metered:
#     v0 = read sp
#     v1 = const 0x10014
#     v2 = const 0x1002c
#     v3 = const 0xfffffffffffffffe
#     v4 = load.du v0-8
#     v5 = and v4, v3
#     ra = v1
#     a1 = v4
#     jump.indirect v5, [] if v1 is the return address
#
# function fn3 at 0x1002c {} -> {} exposed
# block0 at 0x1002c cycles 4 metered:
#     v0 = const 0x0
#     v1 = const 0x5
#     a2 = v1
#     return

#=== outcome
# Exit(7), 518 cycles, interpreted, native code left: unknown_target
