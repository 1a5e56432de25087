# version: 0
# show: program ir outcome
/* jalr with the link in its own base: version 0 jumps to the link. */
  .globl _start
_start:
  li a0, 1
  la ra, 1f
  .option norvc
  jalr ra, ra, 0
  .option rvc
  li a0, 2
1:
  li a7, 93
  ecall

#=== program
# program version 0 isa imc
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,1
#     -> jump block1
# block1 at 0x10002:
#     0x10002: auipc ra,0
#     -> jump block2
# block2 at 0x10006:
#     0x10006: addi ra,ra,14
#     0x1000a: jalr ra,0(ra)
#     -> jump indirect [block0 block1 block2 block3 block4 block5]
# block3 at 0x1000e:
#     0x1000e: addi a0,zero,2
#     -> jump block4
# block4 at 0x10010:
#     0x10010: addi a7,zero,93
#     -> jump block5
# block5 at 0x10014:
#     0x10014: ecall
#     -> ecall, then block6
# block6 at 0x10018:
#     -> leave
#
# function fn1 at 0x10010 link ra exposed
# block0 at 0x10010:
#     0x10010: addi a7,zero,93
#     0x10014: ecall
#     -> exit

#=== ir
# module version 0 isa imc
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {ra sp a0 a1 a2 a3 a4 a5 a6 a7} changes {a0 a7}
#
# function fn0 at 0x10000 {ra sp a1 a2 a3 a4 a5 a6 a7} -> {} exposed
# block0 at 0x10000 cycles 1 metered:
#     v0 = const 0x0
#     v1 = const 0x1
#     a0 = v1
#     jump block1
# block1 at 0x10002 cycles 1 metered:
#     v0 = const 0x10002
#     ra = v0
#     jump block2
# block2 at 0x10006 cycles 4 metered:
#     v0 = read ra
#     v1 = const 0xe
#     v2 = const 0x1000e
#     v3 = const 0xfffffffffffffffe
#     v4 = add v0, v1
#     v5 = and v2, v3
#     ra = v2
#     jump.indirect v5, [0x10000: block0, 0x10002: block1, 0x10006: block2, 0x1000e: block3, 0x10010: block4, 0x10014: block5] or tail.call if v2 is the return address
# block3 at 0x1000e cycles 1:
#     v0 = const 0x0
#     v1 = const 0x2
#     a0 = v1
#     jump block4
# block4 at 0x10010 cycles 1:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     jump block5
# block5 at 0x10014 cycles 500 metered:
#     ecall at 0x10014 {a0 a1 a2 a3 a4 a5 a6 a7}, then block6
# block6 at 0x10018 cycles 0:
#     leave
#
# function fn1 at 0x10010 {a0} -> {} exposed
# block0 at 0x10010 cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x10014

#=== outcome
# Exit(2), 508 cycles, native
