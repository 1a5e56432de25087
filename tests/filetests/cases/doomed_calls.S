# version: 2
# show: ir outcome
/* What is there to end in a `longjmp` is left native code for where it is called (`fail`), though it may end otherwise (`throw`, which may
   abort) and has loops (but not of calls). A main loop (`serve`) never returns either, and may fail: it is called. */
  .globl _start
_start:
  la s0, buffer
  sd ra, 0(s0)
  sd sp, 8(s0)
  li a0, 3
  call serve
fail:
  addi sp, sp, -32
  sd a6, 0(sp)
  sd a7, 8(sp)
  mv a2, a1
1:
  addi a2, a2, -1
  bgtz a2, 1b
  call throw
throw:
  beqz a0, 1f
  la a2, buffer
  call jump
1:
  call abort
jump:
  ld ra, 0(a2)
  ld sp, 8(a2)
  ret
abort:
  li a0, -1
  li a7, 93
  ecall
serve:
  mv s1, a0
1:
  mv a0, s1
  call pass
  bltz a0, 2f
  addi s1, s1, -1
  bnez s1, 1b
  li a0, 9
  call quit
2:
  call fail
pass:
  slli a1, a0, 1
  beq a0, a1, 1f
  ret
1:
  call fail
quit:
  li a7, 93
  ecall
  .bss
buffer:
  .space 16

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {ra sp} changes {}
#
# function fn0 at 0x10000 {ra sp} -> {} exposed
# block0 at 0x10000 cycles 9:
#     v0 = const 0x11000
#     v1 = read ra
#     v2 = read sp
#     v3 = const 0x0
#     v4 = const 0x3
#     v5 = const 0x10016
#     check.write v0+0..+16
#     store.d v0+0, v1
#     store.d v0+8, v2
#     ra = v5
#     s0 = v0
#     a0 = v4
#     call fn5, then block1
# block1 at 0x10016 cycles 0:
#     leave
#
# function fn1 at 0x10016 {sp a1 a6 a7} -> {} frame -32
# loop block5 blocks 1 guard block1 last v6
#     exit block5 counter 1*a2 + -1 step -1 end 0
# block0 at 0x10016 cycles 6:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read a6
#     v3 = read a7
#     v4 = const 0x0
#     v5 = read a1
#     v6 = add v0, v1
#     store.d v0-32, v2
#     store.d v0-24, v3
#     v9 = add v4, v5
#     sp = v6
#     a2 = v9
#     jump block1
# block1 at 0x1001e cycles 0:
#     v0 = read a2
#     v1 = const 0xffffffffffffffff
#     v2 = add v0, v1
#     v3 = const 0x0
#     v4 = const 0x40000000
#     v5 = lt.u v3, v4
#     v6 = sub v2, v3
#     v7 = const 0x100000
#     v8 = lt.u v6, v7
#     v9 = and v5, v8
#     v10 = cycles.left
#     v11 = const 0xffffffffffc00000
#     v12 = ge v10, v11
#     v13 = and v9, v12
#     branch v13, block5, block4
# block2 at 0x10024 cycles 0:
#     leave
# block3 at 0x10028 cycles 0:
#     leave
# block4 at 0x1001e cycles 4 metered:
#     v0 = read a2
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = lt v2, v3
#     a2 = v3
#     branch v4, block4, block2
# block5 at 0x1001e cycles 4 bounded:
#     v0 = read a2
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = lt v2, v3
#     a2 = v3
#     branch v4, block5, block2
#
# function fn2 at 0x10028 {a0} -> {}
# block0 at 0x10028 cycles 3 charged 0:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = eq v0, v1
#     branch v2, block2, block1
# block1 at 0x1002a cycles 0 charged 3:
#     leave
# block2 at 0x10036 cycles 3 charged 6:
#     v0 = const 0x1003a
#     ra = v0
#     call fn4, then block3
# block3 at 0x1003a cycles 0:
#     leave
#
# function fn3 at 0x1003a {} -> {}
# block0 at 0x1003a cycles 0:
#     leave
#
# function fn4 at 0x10044 {} -> {}
# block0 at 0x10044 cycles 502 metered:
#     v0 = const 0x0
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x5d
#     a0 = v1
#     a7 = v2
#     exit at 0x1004a
#
# function fn5 at 0x1004e {a0} -> {}
# block0 at 0x1004e cycles 1 charged 5:
#     v0 = const 0x0
#     v1 = read a0
#     v2 = add v0, v1
#     s1 = v2
#     jump block1
# block1 at 0x10050 cycles 4 charged 0 metered:
#     v0 = const 0x0
#     v1 = read s1
#     v2 = const 0x10056
#     v3 = add v0, v1
#     ra = v2
#     a0 = v3
#     call fn6, then block2
# block2 at 0x10056 cycles 3 charged 0:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = lt v0, v1
#     branch v2, block5, block3
# block3 at 0x1005a cycles 4 charged 11:
#     v0 = read s1
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = ne v3, v2
#     s1 = v3
#     branch v4, block1, block4
# block4 at 0x1005e cycles 4 charged 0:
#     v0 = const 0x0
#     v1 = const 0x9
#     v2 = const 0x10064
#     ra = v2
#     a0 = v1
#     call fn7, then block7
# block5 at 0x10064 cycles 0 charged 3:
#     leave
# block6 at 0x10068 cycles 0:
#     leave
# block7 at 0x10064 cycles 0:
#     leave
#
# function fn6 at 0x10068 {ra a0} -> {}
# block0 at 0x10068 cycles 4 charged 0:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = shl v0, v1
#     v3 = eq v0, v2
#     a1 = v2
#     branch v3, block2, block1
# block1 at 0x10070 cycles 3 charged 7 metered:
#     v0 = read ra
#     return if v0 is the return address
# block2 at 0x10072 cycles 0 charged 4:
#     leave
# block3 at 0x10076 cycles 0:
#     leave
#
# function fn7 at 0x10076 {a0} -> {}
# block0 at 0x10076 cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1007a

#=== outcome
# Exit(9), 569 cycles, native
