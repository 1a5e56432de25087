# version: 2
# args: x
# show: program outcome
/* Constants stand beside code, where GNU ld puts them, and their addresses look like those of functions. What a section without
   instructions holds is none, whatever it would mean as code; elsewhere, what would jump into the middle of a function is none. */
  .globl _start
_start:
  la a1, returns
  lw a0, 0(a1)
  la a1, jumps
  lw a2, 0(a1)
  add a0, a0, a2
  call work
  call other
  li a7, 93
  ecall
work:
  addi a0, a0, 1
  slli a0, a0, 2
middle:
  srli a0, a0, 3
  andi a0, a0, 127
  ret
other:
  xori a0, a0, 1
  ret
  .balign 4
jumps:
  .option push
  .option norvc
  j middle
  .option pop
  .section .rodata
returns:
  ret
  ret

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: load.imm a1,65598
#     0x10008: lw a0,0(a1)
#     0x1000a: load.imm a1,65592
#     0x10012: lw a2,0(a1)
#     0x10014: add a0,a0,a2
#     0x10016: jal ra,16
#     -> call fn1, ra = 0x1001a, then block1
# block1 at 0x1001a:
#     0x1001a: jal ra,24
#     -> call fn2, ra = 0x1001e, then block2
# block2 at 0x1001e:
#     0x1001e: addi a7,zero,93
#     0x10022: ecall
#     -> exit
#
# function fn1 at 0x10026 link ra
# block0 at 0x10026:
#     0x10026: addi a0,a0,1
#     0x10028: slli a0,a0,2
#     0x1002a: srli a0,a0,3
#     0x1002c: andi a0,a0,127
#     0x10030: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x10032 link ra
# block0 at 0x10032:
#     0x10032: xori a0,a0,1
#     0x10036: jalr zero,0(ra)
#     -> return

#=== outcome
# Exit(120), 527 cycles, native
