# version: 2
# show: ir outcome
/* Checks move: out of the loop of two blocks for the table in s2, before the jump into the chain that starts at 2, and into the first
 * of blocks that all follow each other; what an increment or a call comes between is checked again. */
  .globl _start
_start:
  la s2, table
  la s3, table
  lbu a0, 0(sp)
  andi a0, a0, 3
  addi s4, s2, 16
  bnez a0, 2f
  ld a1, 0(s3)
  beqz a0, 1f
1:
  ld a1, 8(s3)
2:
  ld a1, 16(s3)
  bnez a1, 3f
  addi a1, a1, 1
3:
  ld a2, 24(s3)
  sd a2, 0(s3)
  beqz a2, 4f
  addi s4, s4, 1
4:
  ld a3, 8(s2)
  bnez a3, 5f
  addi a4, a4, 1
5:
  ld a5, 16(s2)
  addi a0, a0, 1
  slti a6, a0, 9
  bnez a6, 4b
  call leaf
  ld a2, 24(s3)
  sd a2, 8(s3)
  mv a0, a4
  li a7, 93
  ecall
leaf:
  ret
  .data
  .balign 8
table:
  .zero 32

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp a4} changes {}
#
# function fn0 at 0x10000 {sp a4} -> {} exposed
# block0 at 0x10000 cycles 10 charged 0:
#     v0 = const 0x11000
#     v1 = read sp
#     v2 = const 0x3
#     v3 = const 0x10
#     v4 = const 0x11010
#     v5 = const 0x0
#     check.read v1+0..+1
#     v7 = load.bu v1+0
#     v8 = and v7, v2
#     v9 = ne v8, v5
#     a0 = v8
#     s2 = v0
#     s3 = v0
#     s4 = v4
#     branch v9, block12, block1
# block1 at 0x1001c cycles 5 charged 0:
#     v0 = read s3
#     v1 = read a0
#     v2 = const 0x0
#     check.write v0+0..+32
#     v4 = load.du v0+0
#     v5 = eq v1, v2
#     a1 = v4
#     branch v5, block2, block2
# block2 at 0x10022 cycles 2 charged 22:
#     v0 = read s3
#     proved.write v0+0..+32
#     v2 = load.du v0+8
#     a1 = v2
#     jump block3
# block3 at 0x10026 cycles 5 charged 0:
#     v0 = read s3
#     v1 = const 0x0
#     proved.write v0+0..+32
#     v3 = load.du v0+16
#     v4 = ne v3, v1
#     a1 = v3
#     branch v4, block5, block4
# block4 at 0x1002c cycles 1:
#     v0 = read a1
#     v1 = const 0x1
#     v2 = add v0, v1
#     a1 = v2
#     jump block5
# block5 at 0x1002e cycles 7 charged 0:
#     v0 = read s3
#     v1 = const 0x0
#     proved.write v0+0..+32
#     v3 = load.du v0+24
#     store.d v0+0, v3
#     v5 = eq v3, v1
#     a2 = v3
#     branch v5, block13, block6
# block6 at 0x10038 cycles 1 charged 0:
#     v0 = read s4
#     v1 = const 0x1
#     v2 = add v0, v1
#     s4 = v2
#     jump block14
# block7 at 0x1003a cycles 5 charged 0 metered:
#     v0 = read s2
#     v1 = const 0x0
#     proved.read v0+8..+24
#     v3 = load.du v0+8
#     v4 = ne v3, v1
#     a3 = v3
#     branch v4, block9, block8
# block8 at 0x10040 cycles 1:
#     v0 = read a4
#     v1 = const 0x1
#     v2 = add v0, v1
#     a4 = v2
#     jump block9
# block9 at 0x10042 cycles 7 charged 12:
#     v0 = read s2
#     v1 = read a0
#     v2 = const 0x1
#     v3 = const 0x9
#     v4 = const 0x0
#     proved.read v0+16..+24
#     v6 = load.du v0+16
#     v7 = add v1, v2
#     v8 = lt v7, v3
#     v9 = ne v8, v4
#     a0 = v7
#     a5 = v6
#     a6 = v8
#     branch v9, block7, block10
# block10 at 0x10050 cycles 3 charged 0:
#     v0 = const 0x10054
#     ra = v0
#     call fn1, then block11
# block11 at 0x10054 cycles 506 metered:
#     v0 = read s3
#     v1 = const 0x0
#     v2 = read a4
#     v3 = const 0x5d
#     check.write v0+8..+32
#     v5 = load.du v0+24
#     store.d v0+8, v5
#     v7 = add v1, v2
#     a0 = v7
#     a2 = v5
#     a7 = v3
#     exit at 0x10062
# block12 at 0x10026 cycles 0 charged 15:
#     v0 = read s3
#     check.write v0+0..+32
#     jump block3
# block13 at 0x1003a cycles 0 charged 10:
#     v0 = read s2
#     check.read v0+0..+24
#     jump block7
# block14 at 0x1003a cycles 0 charged 11:
#     v0 = read s2
#     check.read v0+0..+24
#     jump block7
#
# function fn1 at 0x10066 {} -> {}
# block0 at 0x10066 cycles 3 metered:
#     return

#=== outcome
# Exit(9), 659 cycles, native
