# version: 2
# args: x
# show: ir outcome
/* A leaf that moves `sp` by a number is there to do so: nobody compares, and nothing is known of `sp` behind the call. */
  .globl _start
_start:
  lbu a0, 0(sp)
  call push
  ld a0, 0(sp)
  addi sp, sp, 16
  li a7, 93
  ecall
push:
  addi sp, sp, -16
  sd a0, 0(sp)
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed frame -16
# block0 at 0x10000 cycles 6:
#     v0 = read sp
#     v1 = const 0x10008
#     check.read v0+0..+1
#     v3 = load.bu v0+0
#     ra = v1
#     a0 = v3
#     call fn1, then block1
# block1 at 0x10008 cycles 504 metered:
#     v0 = read sp
#     v1 = const 0x10
#     v2 = const 0x0
#     v3 = const 0x5d
#     v4 = load.du v0+0
#     v5 = add v0, v1
#     sp = v5
#     a0 = v4
#     a7 = v3
#     exit at 0x10010
#
# function fn1 at 0x10014 {sp a0} -> {sp} frame -16 sp moved
# block0 at 0x10014 cycles 6 metered:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = read a0
#     v3 = add v0, v1
#     store.d v0-16, v2
#     sp = v3
#     return

#=== outcome
# Exit(1), 516 cycles, native
