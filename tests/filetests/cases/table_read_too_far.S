# version: 2
# show: program outcome
/* What follows a table looks like one more entry, into the middle of an instruction: no block starts there. */
  .globl _start
_start:
  lbu a0, 0(sp)
  li a1, 1
  bgtu a0, a1, 9f
  la a2, table
  slli a0, a0, 2
  add a0, a0, a2
  lw a0, 0(a0)
  add a0, a0, a2
  jr a0
1:
  li a0, 1011
  j 9f
2:
  li a0, 1012
9:
  andi a0, a0, 127
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word 1b - table, 2b - table, 1b + 2 - table

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: lbu a0,0(sp)
#     0x10004: addi a1,zero,1
#     0x10006: bltu a1,a0,32
#     -> branch block4 else block1
# block1 at 0x1000a:
#     0x1000a: load.imm a2,69632
#     0x10012: slli a0,a0,2
#     0x10014: add a0,a0,a2
#     0x10016: lw a0,0(a0)
#     0x10018: add a0,a0,a2
#     0x1001a: jalr zero,0(a0)
#     -> jump indirect [block2 block3]
# block2 at 0x1001c:
#     0x1001c: addi a0,zero,1011
#     0x10020: jal zero,6
#     -> jump block4
# block3 at 0x10022:
#     0x10022: addi a0,zero,1012
#     -> jump block4
# block4 at 0x10026:
#     0x10026: andi a0,a0,127
#     0x1002a: addi a7,zero,93
#     0x1002e: ecall
#     -> exit

#=== outcome
# Exit(115), 523 cycles, native
