# version: 2
# show: ir outcome
/* A function with a counted loop is copied for a call that passes a small number, not for one that does not. */
  .globl _start
_start:
  lbu s0, 0(sp)
  lui a0, 0x20
  li a1, 7
  li a2, 16
  call fill
  lui a0, 0x21
  mv a1, s0
  addi a2, s0, 1
  call fill
  lui a0, 0x20
  lbu a0, 15(a0)
  li a7, 93
  ecall
fill:
  add a2, a2, a0
1:
  sb a1, 0(a0)
  addi a0, a0, 1
  bltu a0, a2, 1b
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 9:
#     v0 = read sp
#     v1 = const 0x20000
#     v2 = const 0x0
#     v3 = const 0x7
#     v4 = const 0x10
#     v5 = const 0x10010
#     check.read v0+0..+1
#     v7 = load.bu v0+0
#     ra = v5
#     s0 = v7
#     a0 = v1
#     a1 = v3
#     a2 = v4
#     call fn2, then block1
# block1 at 0x10010 cycles 6:
#     v0 = const 0x21000
#     v1 = const 0x0
#     v2 = read s0
#     v3 = const 0x1
#     v4 = const 0x1001e
#     v5 = add v1, v2
#     v6 = add v2, v3
#     ra = v4
#     a0 = v0
#     a1 = v5
#     a2 = v6
#     call fn1, then block2
# block2 at 0x1001e cycles 505 metered:
#     v0 = const 0x20000
#     v1 = const 0x0
#     v2 = const 0x5d
#     check.read v0+15..+16
#     v4 = load.bu v0+15
#     a0 = v4
#     a7 = v2
#     exit at 0x1002a
#
# function fn1 at 0x1002e {a0 a1 a2} -> {}
# loop block4 blocks 1 guard block1 last v4
#     exit block4 counter 1*a0 + 1 step 1 end 1*a2 + 0
#     span.write 1*a0 + 0 step 1 bytes 1
# block0 at 0x1002e cycles 1:
#     v0 = read a2
#     v1 = read a0
#     v2 = add v0, v1
#     a2 = v2
#     jump block1
# block1 at 0x10030 cycles 0:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = add v0, v1
#     v3 = read a2
#     v4 = sub v3, v2
#     v5 = const 0x92492
#     v6 = lt.u v4, v5
#     v7 = cycles.left
#     v8 = const 0xffffffffffc00000
#     v9 = ge v7, v8
#     v10 = and v6, v9
#     v11 = const 0x3eefff
#     v12 = sub v11, v4
#     v13 = const 0xfffffffffffef000
#     v14 = add v0, v13
#     v15 = ge.u v12, v14
#     v16 = and v10, v15
#     branch v16, block4, block3
# block2 at 0x1003a cycles 3 metered:
#     return
# block3 at 0x10030 cycles 7 metered:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0x1
#     v3 = read a2
#     check.write v0+0..+1
#     store.b v0+0, v1
#     v6 = add v0, v2
#     v7 = lt.u v6, v3
#     a0 = v6
#     branch v7, block3, block2
# block4 at 0x10030 cycles 7 bounded:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0x1
#     v3 = read a2
#     proved.write v0+0..+1
#     store.b v0+0, v1
#     v6 = add v0, v2
#     v7 = lt.u v6, v3
#     a0 = v6
#     branch v7, block4, block2
#
# function fn2 at 0x1002e {a0} -> {}
# loop block5 blocks 1 guard block2 last v4
#     exit block5 counter 1*a0 + 1 step 1 end 1*a2 + 0
#     span.write 1*a0 + 0 step 1 bytes 1
# block0 at 0x1002e cycles 0:
#     v0 = const 0x7
#     v1 = const 0x10
#     a1 = v0
#     a2 = v1
#     jump block1
# block1 at 0x1002e cycles 1:
#     v0 = read a2
#     v1 = read a0
#     v2 = add v0, v1
#     a2 = v2
#     jump block2
# block2 at 0x10030 cycles 0:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = add v0, v1
#     v3 = read a2
#     v4 = sub v3, v2
#     v5 = const 0x92492
#     v6 = lt.u v4, v5
#     v7 = cycles.left
#     v8 = const 0xffffffffffc00000
#     v9 = ge v7, v8
#     v10 = and v6, v9
#     v11 = const 0x3eefff
#     v12 = sub v11, v4
#     v13 = const 0xfffffffffffef000
#     v14 = add v0, v13
#     v15 = ge.u v12, v14
#     v16 = and v10, v15
#     branch v16, block5, block4
# block3 at 0x1003a cycles 3 metered:
#     return
# block4 at 0x10030 cycles 7 metered:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0x1
#     v3 = read a2
#     check.write v0+0..+1
#     store.b v0+0, v1
#     v6 = add v0, v2
#     v7 = lt.u v6, v3
#     a0 = v6
#     branch v7, block4, block3
# block5 at 0x10030 cycles 7 bounded:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0x1
#     v3 = read a2
#     proved.write v0+0..+1
#     store.b v0+0, v1
#     v6 = add v0, v2
#     v7 = lt.u v6, v3
#     a0 = v6
#     branch v7, block5, block3

#=== outcome
# Exit(7), 647 cycles, native
