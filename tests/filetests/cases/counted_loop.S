# version: 2
# show: lifted ir outcome
/* A loop whose passes can be counted runs without checks and meter, if all of it fits. */
  .globl _start
_start:
  lui a0, 0x20
  addi a1, a0, 64
  li a2, 0
1:
  sd a2, 0(a0)
  addi a2, a2, 1
  addi a0, a0, 8
  bltu a0, a1, 1b
  ld a0, -8(a0)
  li a7, 93
  ecall

#=== lifted
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed sp compared
# block0 at 0x10000 cycles 3:
#     v0 = const 0x20000
#     v1 = const 0x40
#     v2 = const 0x20040
#     v3 = const 0x0
#     a0 = v0
#     a1 = v2
#     a2 = v3
#     jump block1
# block1 at 0x1000a cycles 7:
#     v0 = read a0
#     v1 = read a2
#     v2 = const 0x1
#     v3 = const 0x8
#     v4 = read a1
#     check.write v0+0..+8
#     store.d v0+0, v1
#     v7 = add v1, v2
#     v8 = add v0, v3
#     v9 = lt.u v8, v4
#     a0 = v8
#     a2 = v7
#     branch v9, block1, block2
# block2 at 0x10014 cycles 503:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = const 0x5d
#     check.read v0-8..+0
#     v4 = load.du v0-8
#     a0 = v4
#     a7 = v2
#     exit at 0x1001c

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# loop block4 blocks 1 guard block1 last v10
#     exit block4 counter 1*a0 + 8 step 8 end 1*a1 + 0
#     span.write 1*a0 + 0 step 8 bytes 8
# block0 at 0x10000 cycles 3 charged 0:
#     v0 = const 0x20000
#     v1 = const 0x40
#     v2 = const 0x20040
#     v3 = const 0x0
#     a0 = v0
#     a1 = v2
#     a2 = v3
#     jump block1
# block1 at 0x1000a cycles 0 charged 3:
#     v0 = read a0
#     v1 = const 0x8
#     v2 = add v0, v1
#     v3 = read a1
#     v4 = sub v3, v2
#     v5 = const 0x3eeff9
#     v6 = lt.u v4, v5
#     v7 = const 0x7
#     v8 = add v4, v7
#     v9 = const 0x3
#     v10 = lshr v8, v9
#     v11 = cycles.left
#     v12 = const 0xffffffffffc00000
#     v13 = ge v11, v12
#     v14 = and v6, v13
#     v15 = mul v10, v1
#     v16 = const 0x3eeff8
#     v17 = sub v16, v15
#     v18 = const 0xfffffffffffef000
#     v19 = add v0, v18
#     v20 = ge.u v17, v19
#     v21 = and v14, v20
#     branch v21, block4, block3
# block2 at 0x10014 cycles 503 metered:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = const 0x5d
#     proved.read v0-8..+0
#     v4 = load.du v0-8
#     a0 = v4
#     a7 = v2
#     exit at 0x1001c
# block3 at 0x1000a cycles 7 metered:
#     v0 = read a0
#     v1 = read a2
#     v2 = const 0x1
#     v3 = const 0x8
#     v4 = read a1
#     check.write v0+0..+8
#     store.d v0+0, v1
#     v7 = add v1, v2
#     v8 = add v0, v3
#     v9 = lt.u v8, v4
#     a0 = v8
#     a2 = v7
#     branch v9, block3, block2
# block4 at 0x1000a cycles 7 bounded:
#     v0 = read a0
#     v1 = read a2
#     v2 = const 0x1
#     v3 = const 0x8
#     v4 = read a1
#     proved.write v0+0..+8
#     store.d v0+0, v1
#     v7 = add v1, v2
#     v8 = add v0, v3
#     v9 = lt.u v8, v4
#     a0 = v8
#     a2 = v7
#     branch v9, block4, block2

#=== outcome
# Exit(7), 562 cycles, native
