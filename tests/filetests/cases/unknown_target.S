# version: 2
# show: program outcome
/* A jump to an address that nothing in the ELF shows: twice the distance stands in data. */
  .globl _start
_start:
  la a0, _start
  lw a1, doubled
  srli a1, a1, 1
  add a0, a0, a1
  jr a0
  .4byte 0
1:
  li a0, 5
  li a7, 93
  ecall
  .data
doubled:
  .word (1b - _start) * 2

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: load.imm a0,65536
#     -> jump block2
# block1 at 0x10004:
#     0x10004: addi a0,a0,0
#     -> jump block2
# block2 at 0x10008:
#     0x10008: auipc a1,4096
#     -> jump block3
# block3 at 0x1000c:
#     0x1000c: lw a1,-8(a1)
#     -> jump block4
# block4 at 0x10010:
#     0x10010: srli a1,a1,1
#     -> jump block5
# block5 at 0x10012:
#     0x10012: add a0,a0,a1
#     -> jump block6
# block6 at 0x10014:
#     0x10014: jalr zero,0(a0)
#     -> jump indirect [block0 block1 block2 block3 block4 block5 block6]

#=== outcome
# Exit(5), 512 cycles, interpreted, native code left: unknown_target
