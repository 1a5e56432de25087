# version: 2
# show: ir outcome
/* A tail call of a function that moves `sp` by a number that nobody knows: whoever called the first one compares. */
  .globl _start
  .globl g
  .type g, @function
_start:
  addi sp, sp, -64
  li t1, 0
  call g
  li t1, 0x7ff000000000
  call f
  sd a0, 16(sp)
  ld a1, 16(sp)
  li a0, 7
  li a7, 93
  ecall
f:
  addi sp, sp, -16
  j g
g:
  add sp, sp, t1
  beqz t1, 1f
  addi a0, a0, 1
1:
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp a0} changes {}
#
# function fn0 at 0x10000 {sp a0} -> {} exposed frame -48
# block0 at 0x10000 cycles 5:
#     v0 = read sp
#     v1 = const 0xffffffffffffffc0
#     v2 = const 0x0
#     v3 = const 0x10008
#     v4 = add v0, v1
#     ra = v3
#     sp = v4
#     t1 = v2
#     call fn2, then block1
# block1 at 0x10008 cycles 5:
#     v0 = const 0x0
#     v1 = const 0x7ff
#     v2 = const 0x24
#     v3 = const 0x10012
#     v4 = shl v1, v2
#     ra = v3
#     t1 = v4
#     call fn1, then block2
# block2 at 0x10012 cycles 506 metered:
#     v0 = read sp
#     v1 = read a0
#     v2 = const 0x0
#     v3 = const 0x7
#     v4 = const 0x5d
#     store.d v0+16, v1
#     v6 = load.du v0+16
#     a0 = v3
#     a1 = v6
#     a7 = v4
#     exit at 0x1001c
#
# function fn1 at 0x10020 {sp t1 a0} -> {sp a0} sp compared
# block0 at 0x10020 cycles 4 charged 0:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = const 0x10024
#     v3 = add v0, v1
#     sp = v3
#     jump block1
# block1 at 0x10024 cycles 0 charged 4 metered:
#     tail.call fn2
#
# function fn2 at 0x10024 {sp t1 a0} -> {sp a0} sp compared
# block0 at 0x10024 cycles 4 charged 0:
#     v0 = read sp
#     v1 = read t1
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = eq v1, v2
#     sp = v3
#     branch v4, block2, block1
# block1 at 0x1002a cycles 1:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = add v0, v1
#     a0 = v2
#     jump block2
# block2 at 0x1002c cycles 3 charged 7 metered:
#     return

#=== outcome
# MemOutOfBound, 535 cycles, interpreted, native code left: unknown_target
