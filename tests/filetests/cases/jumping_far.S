# version: 2
# show: ir outcome
/* `longjmp` takes `sp` and the return address from memory: native code ends there, and who calls it does not go on. */
  .globl _start
_start:
  la a0, buffer
  call save
  bnez a0, 1f
  la a0, buffer
  li a1, 7
  addi sp, sp, -32
  call jump
1:
  la a1, buffer
  ld a1, 8(a1)
  sub a1, sp, a1
  add a0, a0, a1
  li a7, 93
  ecall
save:
  sd ra, 0(a0)
  sd sp, 8(a0)
  li a0, 0
  ret
jump:
  ld ra, 0(a0)
  ld sp, 8(a0)
  mv a0, a1
  ret
  .bss
buffer:
  .space 16

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 4:
#     v0 = const 0x11000
#     v1 = const 0x1000c
#     ra = v1
#     a0 = v0
#     call fn1, then block1
# block1 at 0x1000c cycles 3 charged 0:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = ne v0, v1
#     branch v2, block3, block2
# block2 at 0x1000e cycles 6 charged 9:
#     v0 = const 0x11000
#     v1 = const 0x0
#     v2 = const 0x7
#     v3 = read sp
#     v4 = const 0xffffffffffffffe0
#     v5 = const 0x1001e
#     v6 = add v3, v4
#     ra = v5
#     sp = v6
#     a0 = v0
#     a1 = v2
#     call fn2, then block4
# block3 at 0x1001e cycles 506 charged 509 metered:
#     v0 = const 0x11000
#     v1 = read sp
#     v2 = read a0
#     v3 = const 0x0
#     v4 = const 0x5d
#     check.read v0+8..+16
#     v6 = load.du v0+8
#     v7 = sub v1, v6
#     v8 = add v2, v7
#     a0 = v8
#     a1 = v7
#     a7 = v4
#     exit at 0x10032
# block4 at 0x1001e cycles 0:
#     leave
#
# function fn1 at 0x10036 {ra sp a0} -> {a0} returns again
# block0 at 0x10036 cycles 8 metered:
#     v0 = read a0
#     v1 = read ra
#     v2 = read sp
#     v3 = const 0x0
#     check.write v0+0..+16
#     store.d v0+0, v1
#     store.d v0+8, v2
#     a0 = v3
#     return
#
# function fn2 at 0x10042 {ra a0 a1} -> {sp a0} sp compared returns far
# block0 at 0x10042 cycles 8 metered:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = read a1
#     check.read v0+0..+16
#     v4 = load.du v0+0
#     v5 = load.du v0+8
#     v6 = add v1, v2
#     ra = v4
#     sp = v5
#     a0 = v6
#     return if v4 is the return address

#=== outcome
# Exit(7), 538 cycles, native
