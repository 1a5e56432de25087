# version: 2
# show: ir outcome
/* A loop of several blocks whose passes can be counted: with another way out, an address that is a masked sum, and a
   call of a small function, which becomes part of the body without checks and meter. */
  .globl _start
_start:
  lui s0, 0x20
  li s1, 0
  li s2, 64
  li a0, 3
  j 2f
1:
  beqz a0, 3f
2:
  andi a1, s1, -8
  add a1, a1, s0
  ld a2, 0(a1)
  jal half
  add a3, s1, s0
  sb a0, 64(a3)
  addi s1, s1, 1
  bne s1, s2, 1b
3:
  lbu a0, 67(s0)
  add a0, a0, s1
  li a7, 93
  ecall
half:
  add a0, a0, a2
  xori a0, a0, 5
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# loop block6 blocks 4 guard block2 last v6
#     exit block8 counter 1*s1 + 1 step 1 end 1*s2 + 0
#     span.read 1*s0 + 1*s1 + -7 step 1 bytes 15
#     span.write 1*s0 + 1*s1 + 64 step 1 bytes 1
# block0 at 0x10000 cycles 7:
#     v0 = const 0x20000
#     v1 = const 0x0
#     v2 = const 0x40
#     v3 = const 0x3
#     v4 = const 0x1000e
#     s0 = v0
#     s1 = v1
#     a0 = v3
#     s2 = v2
#     jump block2
# block1 at 0x1000e cycles 3:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = eq v0, v1
#     branch v2, block4, block5
# block2 at 0x10010 cycles 0:
#     v0 = read s1
#     v1 = const 0x1
#     v2 = add v0, v1
#     v3 = read s2
#     v4 = const 0x40000000
#     v5 = lt.u v2, v4
#     v6 = sub v3, v2
#     v7 = const 0x2c859
#     v8 = lt.u v6, v7
#     v9 = and v5, v8
#     v10 = cycles.left
#     v11 = const 0xffffffffffc00000
#     v12 = ge v10, v11
#     v13 = and v9, v12
#     v14 = read s0
#     v15 = add v14, v0
#     v16 = const 0x3ffff1
#     v17 = sub v16, v6
#     v18 = const 0xfffffffffffffff9
#     v19 = add v15, v18
#     v20 = ge.u v17, v19
#     v21 = and v13, v20
#     v22 = add v14, v0
#     v23 = const 0x3eefff
#     v24 = sub v23, v6
#     v25 = const 0xfffffffffffef040
#     v26 = add v22, v25
#     v27 = ge.u v24, v26
#     v28 = and v21, v27
#     branch v28, block6, block5
# block3 at 0x1001c cycles 8:
#     v0 = read s1
#     v1 = read s0
#     v2 = read a0
#     v3 = const 0x1
#     v4 = read s2
#     v5 = add v0, v1
#     check.write v5+64..+65
#     store.b v5+64, v2
#     v8 = add v0, v3
#     v9 = ne v8, v4
#     s1 = v8
#     a3 = v5
#     branch v9, block1, block4
# block4 at 0x1002a cycles 505 metered:
#     v0 = read s0
#     v1 = read s1
#     v2 = const 0x0
#     v3 = const 0x5d
#     check.read v0+0..+68
#     v5 = load.bu v0+67
#     v6 = add v5, v1
#     a0 = v6
#     a7 = v3
#     exit at 0x10034
# block5 at 0x10010 cycles 7 metered:
#     v0 = read s1
#     v1 = const 0xfffffffffffffff8
#     v2 = read s0
#     v3 = const 0x1001c
#     v4 = and v0, v1
#     v5 = add v4, v2
#     check.read v5+0..+8
#     v7 = load.du v5+0
#     ra = v3
#     a1 = v5
#     a2 = v7
#     call fn1, then block3
# block6 at 0x10010 cycles 7 bounded:
#     v0 = read s1
#     v1 = const 0xfffffffffffffff8
#     v2 = read s0
#     v3 = const 0x1001c
#     v4 = and v0, v1
#     v5 = add v4, v2
#     proved.read v5+0..+8
#     v7 = load.du v5+0
#     ra = v3
#     a1 = v5
#     a2 = v7
#     jump block7
# block7 at 0x10038 cycles 5 deferred bounded:
#     v0 = read a0
#     v1 = read a2
#     v2 = const 0x5
#     v3 = add v0, v1
#     v4 = xor v3, v2
#     a0 = v4
#     jump block8
# block8 at 0x1001c cycles 8 bounded:
#     v0 = read s1
#     v1 = read s0
#     v2 = read a0
#     v3 = const 0x1
#     v4 = read s2
#     v5 = add v0, v1
#     proved.write v5+64..+65
#     store.b v5+64, v2
#     v8 = add v0, v3
#     v9 = ne v8, v4
#     s1 = v8
#     a3 = v5
#     branch v9, block9, block10
# block9 at 0x1000e cycles 3 bounded:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = eq v0, v1
#     branch v2, block10, block6
# block10 at 0x10010 cycles 0 of deferred by fn1 called at 0x1001a metered:
#     jump block4
#
# function fn1 at 0x10038 {a0 a2} -> {a0}
# block0 at 0x10038 cycles 5 metered:
#     v0 = read a0
#     v1 = read a2
#     v2 = const 0x5
#     v3 = add v0, v1
#     v4 = xor v3, v2
#     a0 = v4
#     return

#=== outcome
# Exit(67), 1981 cycles, native
