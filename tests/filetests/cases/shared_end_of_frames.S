# version: 2
# show: program outcome
/* Ends that functions share, as LLVM's outliner makes them: one frees a frame whose owner kept the link register, one finds a large frame
   through another register. Both are in each function that jumps there. */
  .globl _start
_start:
  li s0, 5
  li a0, 7
  call leaf
  call other_leaf
  call large
  call other_large
  add a0, a0, s0
  li a7, 93
  ecall
leaf:
  addi sp, sp, -16
  sd s0, 8(sp)
  addi s0, a0, 1
  mv a0, s0
  j free
other_leaf:
  addi sp, sp, -16
  sd s0, 8(sp)
  slli s0, a0, 1
  mv a0, s0
  j free
large:
  addi sp, sp, -560
  sd ra, 552(sp)
  addi a0, a0, 3
  j free_large
other_large:
  addi sp, sp, -560
  sd ra, 552(sp)
  call leaf
  j free_large
free:
  ld s0, 8(sp)
  addi sp, sp, 16
  ret
free_large:
  addi a1, sp, 512
  ld ra, 40(a1)
  addi sp, sp, 560
  ret

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi s0,zero,5
#     0x10002: addi a0,zero,7
#     0x10004: jal ra,26
#     -> call fn1, ra = 0x10008, then block1
# block1 at 0x10008:
#     0x10008: jal ra,34
#     -> call fn2, ra = 0x1000c, then block2
# block2 at 0x1000c:
#     0x1000c: jal ra,42
#     -> call fn3, ra = 0x10010, then block3
# block3 at 0x10010:
#     0x10010: jal ra,50
#     -> call fn4, ra = 0x10014, then block4
# block4 at 0x10014:
#     0x10014: add a0,a0,s0
#     0x10016: addi a7,zero,93
#     0x1001a: ecall
#     -> exit
#
# function fn1 at 0x1001e link ra
# block0 at 0x1001e:
#     0x1001e: addi sp,sp,-16
#     0x10020: sd s0,8(sp)
#     0x10022: addi s0,a0,1
#     0x10026: add a0,zero,s0
#     0x10028: jal zero,40
#     -> jump block1
# block1 at 0x10050:
#     0x10050: ld s0,8(sp)
#     0x10052: addi sp,sp,16
#     0x10054: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x1002a link ra
# block0 at 0x1002a:
#     0x1002a: addi sp,sp,-16
#     0x1002c: sd s0,8(sp)
#     0x1002e: slli s0,a0,1
#     0x10032: add a0,zero,s0
#     0x10034: jal zero,28
#     -> jump block1
# block1 at 0x10050:
#     0x10050: ld s0,8(sp)
#     0x10052: addi sp,sp,16
#     0x10054: jalr zero,0(ra)
#     -> return
#
# function fn3 at 0x10036 link ra
# block0 at 0x10036:
#     0x10036: addi sp,sp,-560
#     0x1003a: sd ra,552(sp)
#     0x1003e: addi a0,a0,3
#     0x10040: jal zero,22
#     -> jump block1
# block1 at 0x10056:
#     0x10056: addi a1,sp,512
#     0x10058: ld ra,40(a1)
#     0x1005c: addi sp,sp,560
#     0x10060: jalr zero,0(ra)
#     -> return
#
# function fn4 at 0x10042 link ra
# block0 at 0x10042:
#     0x10042: addi sp,sp,-560
#     0x10046: sd ra,552(sp)
#     0x1004a: jal ra,-44
#     -> call fn1, ra = 0x1004e, then block1
# block1 at 0x1004e:
#     0x1004e: jal zero,8
#     -> jump block2
# block2 at 0x10056:
#     0x10056: addi a1,sp,512
#     0x10058: ld ra,40(a1)
#     0x1005c: addi sp,sp,560
#     0x10060: jalr zero,0(ra)
#     -> return

#=== outcome
# Exit(25), 588 cycles, native
