# version: 2
# args: x
# show: ir outcome
/* A function that returns with another `sp`, which its caller's frame is checked for: here it points into code. */
  .globl _start
_start:
  lbu a0, 0(sp)
  call user
  li a7, 93
  ecall
user:
  addi sp, sp, -32
  sd ra, 24(sp)
  mv s1, sp
  call mover
  sd a0, 8(sp)
  ld a0, 8(sp)
  mv sp, s1
  ld ra, 24(sp)
  addi sp, sp, 32
  ret
mover:
  lui sp, 16
  beqz a0, 1f
  addi sp, sp, 64
1:
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 6:
#     v0 = read sp
#     v1 = const 0x10008
#     check.read v0+0..+1
#     v3 = load.bu v0+0
#     ra = v1
#     a0 = v3
#     call fn1, then block1
# block1 at 0x10008 cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1000c
#
# function fn1 at 0x10010 {ra sp a0} -> {sp a0} frame -24 sp compared
# block0 at 0x10010 cycles 7:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read ra
#     v3 = const 0x0
#     v4 = const 0x1001a
#     v5 = add v0, v1
#     store.d v0-8, v2
#     v7 = add v3, v5
#     ra = v4
#     sp = v5
#     s1 = v7
#     call fn2, then block1
# block1 at 0x1001a cycles 11 metered:
#     v0 = read sp
#     v1 = read a0
#     v2 = const 0x0
#     v3 = read s1
#     v4 = const 0x20
#     store.d v0+8, v1
#     v6 = load.du v0+8
#     v7 = add v2, v3
#     check.read v7+0..+32
#     v9 = load.du v7+24
#     v10 = add v7, v4
#     ra = v9
#     sp = v10
#     a0 = v6
#     return if v9 is the return address
#
# function fn2 at 0x10026 {a0} -> {sp} sp compared
# block0 at 0x10026 cycles 4 charged 0:
#     v0 = const 0x10000
#     v1 = read a0
#     v2 = const 0x0
#     v3 = eq v1, v2
#     sp = v0
#     branch v3, block2, block1
# block1 at 0x1002c cycles 1:
#     v0 = read sp
#     v1 = const 0x40
#     v2 = add v0, v1
#     sp = v2
#     jump block2
# block2 at 0x1002e cycles 3 charged 7 metered:
#     return

#=== outcome
# MemWriteOnExecutablePage, 32 cycles, interpreted, native code left: unknown_target
