# version: 2
# args: x
# show: program outcome
/* Tables one after another: each ends where code says that the next one begins, and each jump goes where its own table says. */
  .globl _start
_start:
  lbu a0, 0(sp)
  andi a0, a0, 3
  call first
  mv s0, a0
  li a0, 1
  call second
  add a0, a0, s0
  li a7, 93
  ecall
first:
  la a2, table
  sh2add a0, a0, a2
  lw a0, 0(a0)
  add a0, a0, a2
  jr a0
1:
  li a0, 11
  ret
2:
  li a0, 1
  la a2, table2
  sh2add a0, a0, a2
  lw a0, 0(a0)
  add a0, a0, a2
  jr a0
3:
  li a0, 13
  ret
4:
  li a0, 14
  ret
second:
  la a2, table3
  sh2add a0, a0, a2
  lw a0, 0(a0)
  add a0, a0, a2
  jr a0
5:
  li a0, 15
  ret
6:
  li a0, 16
  ret
  .section .rodata
  .balign 4
table:
  .word 1b - table
  .word 2b - table
table2:
  .word 3b - table2
  .word 4b - table2
table3:
  .word 5b - table3
  .word 6b - table3

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: lbu a0,0(sp)
#     0x10004: andi a0,a0,3
#     0x10006: jal ra,22
#     -> call fn1, ra = 0x1000a, then block1
# block1 at 0x1000a:
#     0x1000a: add s0,zero,a0
#     0x1000c: addi a0,zero,1
#     0x1000e: jal ra,64
#     -> call fn2, ra = 0x10012, then block2
# block2 at 0x10012:
#     0x10012: add a0,a0,s0
#     0x10014: addi a7,zero,93
#     0x10018: ecall
#     -> exit
#
# function fn1 at 0x1001c link ra
# block0 at 0x1001c:
#     0x1001c: load.imm a2,65640
#     0x10024: sh2add a0,a0,a2
#     0x10028: lw a0,0(a0)
#     0x1002a: add a0,a0,a2
#     0x1002c: jalr zero,0(a0)
#     -> jump table [block1 block2]
# block1 at 0x1002e:
#     0x1002e: addi a0,zero,11
#     0x10030: jalr zero,0(ra)
#     -> return
# block2 at 0x10032:
#     0x10032: addi a0,zero,1
#     0x10034: load.imm a2,65648
#     0x1003c: sh2add a0,a0,a2
#     0x10040: lw a0,0(a0)
#     0x10042: add a0,a0,a2
#     0x10044: jalr zero,0(a0)
#     -> jump table [block3 block4]
# block3 at 0x10046:
#     0x10046: addi a0,zero,13
#     0x10048: jalr zero,0(ra)
#     -> return
# block4 at 0x1004a:
#     0x1004a: addi a0,zero,14
#     0x1004c: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x1004e link ra
# block0 at 0x1004e:
#     0x1004e: load.imm a2,65656
#     0x10056: sh2add a0,a0,a2
#     0x1005a: lw a0,0(a0)
#     0x1005c: add a0,a0,a2
#     0x1005e: jalr zero,0(a0)
#     -> jump table [block1 block2]
# block1 at 0x10060:
#     0x10060: addi a0,zero,15
#     0x10062: jalr zero,0(ra)
#     -> return
# block2 at 0x10064:
#     0x10064: addi a0,zero,16
#     0x10066: jalr zero,0(ra)
#     -> return

#=== outcome
# Exit(30), 550 cycles, native
