# version: 2
# show: program outcome
/* A branch into the middle of a pair that is fused when it is entered at its head. */
  .globl _start
_start:
  lw a0, 0(sp)
  li a1, 7
  li a2, 6
  beqz a0, 1f
  mulhu a3, a1, a2
1:
  mul a0, a1, a2
  li a7, 93
  ecall

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: lw a0,0(sp)
#     0x10002: addi a1,zero,7
#     0x10004: addi a2,zero,6
#     0x10006: beq a0,zero,6
#     -> branch block2 else block1
# block1 at 0x10008:
#     0x10008: wide.mulu a3,a0,a1,a2
#     0x10010: addi a7,zero,93
#     0x10014: ecall
#     -> exit
# block2 at 0x1000c:
#     0x1000c: mul a0,a1,a2
#     0x10010: addi a7,zero,93
#     0x10014: ecall
#     -> exit

#=== outcome
# Exit(42), 514 cycles, native
