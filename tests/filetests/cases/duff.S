# version: 2
# show: program outcome
/* A jump into an unrolled body, as picolibc's memset has it. */
  .globl _start
_start:
  la a0, words
  lbu t0, 0(sp)
  li a1, 9
  addi t0, t0, 8
  .option norvc
  auipc t1, 0
  add t1, t1, t0
  jr 12(t1)
  sd a1, 0(a0)
  sd a1, 8(a0)
  sd a1, 16(a0)
  sd a1, 24(a0)
  .option rvc
  ld a0, 16(a0)
  li a7, 93
  ecall
  .data
  .balign 8
words:
  .zero 32

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: load.imm a0,69632
#     -> jump block2
# block1 at 0x10004:
#     0x10004: addi a0,a0,0
#     -> jump block2
# block2 at 0x10008:
#     0x10008: lbu t0,0(sp)
#     -> jump block3
# block3 at 0x1000c:
#     0x1000c: addi a1,zero,9
#     -> jump block4
# block4 at 0x1000e:
#     0x1000e: addi t0,t0,8
#     -> jump block5
# block5 at 0x10010:
#     0x10010: auipc t1,0
#     -> jump block6
# block6 at 0x10014:
#     0x10014: add t1,t1,t0
#     0x10018: jalr zero,12(t1)
#     -> jump indirect [block0 block1 block2 block3 block4 block5 block6 block7 block8 block9 block10 block11 block12 block13]
# block7 at 0x1001c:
#     0x1001c: sd a1,0(a0)
#     -> jump block8
# block8 at 0x10020:
#     0x10020: sd a1,8(a0)
#     -> jump block9
# block9 at 0x10024:
#     0x10024: sd a1,16(a0)
#     -> jump block10
# block10 at 0x10028:
#     0x10028: sd a1,24(a0)
#     -> jump block11
# block11 at 0x1002c:
#     0x1002c: ld a0,16(a0)
#     -> jump block12
# block12 at 0x1002e:
#     0x1002e: addi a7,zero,93
#     -> jump block13
# block13 at 0x10032:
#     0x10032: ecall
#     -> ecall, then block14
# block14 at 0x10036:
#     -> leave

#=== outcome
# Exit(9), 518 cycles, native
