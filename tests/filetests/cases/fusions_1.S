# version: 1
# show: program outcome
/* Version 1 fuses less of the same code, and charges accordingly. */
  .globl _start
_start:
  li a0, -1
  li a1, 3
  mulhu a2, a0, a1
  mul a3, a0, a1
  add a0, a0, a1
  sltu a6, a0, a1
  sub t0, a1, a2
  sltu t1, a1, a2
  lui t2, 0x12345
  addiw t2, t2, 0x678
  add a0, a0, a6
  li a7, 93
  ecall

#=== program
# program version 1 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,-1
#     0x10002: addi a1,zero,3
#     0x10004: wide.mulu a2,a3,a0,a1
#     0x1000c: add a0,a0,a1
#     0x1000e: sltu a6,a0,a1
#     0x10012: sub t0,a1,a2
#     0x10016: sltu t1,a1,a2
#     0x1001a: load.imm t2,305419896
#     0x10022: add a0,a0,a6
#     0x10024: addi a7,zero,93
#     0x10028: ecall
#     -> exit

#=== outcome
# Exit(3), 514 cycles, native
