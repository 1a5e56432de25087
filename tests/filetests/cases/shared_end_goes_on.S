# version: 2
# show: program outcome
/* What LLVM's outliner does for size: the end that two functions share moves a value, gives the frame back and goes on in another
 * function; so it is in each of them. One that makes a frame of its own is a function. */
  .globl _start
_start:
  li a0, 7
  call first
  call second
  li a7, 93
  ecall
first:
  addi sp, sp, -16
  sd ra, 8(sp)
  sd s0, 0(sp)
  addi s0, a0, 1
  call leaf
  tail end
second:
  addi sp, sp, -16
  sd ra, 8(sp)
  sd s0, 0(sp)
  addi s0, a0, 2
  call leaf
  call framed
  tail end
leaf:
  slli a0, a0, 1
  ret
framed:
  addi sp, sp, -16
  sd ra, 8(sp)
  call leaf
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
end:
  add a0, a0, s0
  ld ra, 8(sp)
  ld s0, 0(sp)
  addi sp, sp, 16
  tail leaf

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,7
#     0x10002: jal ra,16
#     -> call fn1, ra = 0x10006, then block1
# block1 at 0x10006:
#     0x10006: jal ra,28
#     -> call fn2, ra = 0x1000a, then block2
# block2 at 0x1000a:
#     0x1000a: addi a7,zero,93
#     0x1000e: ecall
#     -> exit
#
# function fn1 at 0x10012 link ra
# block0 at 0x10012:
#     0x10012: addi sp,sp,-16
#     0x10014: sd ra,8(sp)
#     0x10016: sd s0,0(sp)
#     0x10018: addi s0,a0,1
#     0x1001c: jal ra,26
#     -> call fn3, ra = 0x10020, then block1
# block1 at 0x10020:
#     0x10020: jal zero,40
#     -> jump block2
# block2 at 0x10048:
#     0x10048: add a0,a0,s0
#     0x1004a: ld ra,8(sp)
#     0x1004c: ld s0,0(sp)
#     0x1004e: addi sp,sp,16
#     0x10050: jal zero,-26
#     -> jump block3
# block3 at 0x10036:
#     -> tail call fn3
#
# function fn2 at 0x10022 link ra
# block0 at 0x10022:
#     0x10022: addi sp,sp,-16
#     0x10024: sd ra,8(sp)
#     0x10026: sd s0,0(sp)
#     0x10028: addi s0,a0,2
#     0x1002c: jal ra,10
#     -> call fn3, ra = 0x10030, then block1
# block1 at 0x10030:
#     0x10030: jal ra,10
#     -> call fn4, ra = 0x10034, then block2
# block2 at 0x10034:
#     0x10034: jal zero,20
#     -> jump block3
# block3 at 0x10048:
#     0x10048: add a0,a0,s0
#     0x1004a: ld ra,8(sp)
#     0x1004c: ld s0,0(sp)
#     0x1004e: addi sp,sp,16
#     0x10050: jal zero,-26
#     -> jump block4
# block4 at 0x10036:
#     -> tail call fn3
#
# function fn3 at 0x10036 link ra
# block0 at 0x10036:
#     0x10036: slli a0,a0,1
#     0x10038: jalr zero,0(ra)
#     -> return
#
# function fn4 at 0x1003a link ra
# block0 at 0x1003a:
#     0x1003a: addi sp,sp,-16
#     0x1003c: sd ra,8(sp)
#     0x1003e: jal ra,-8
#     -> call fn3, ra = 0x10042, then block1
# block1 at 0x10042:
#     0x10042: ld ra,8(sp)
#     0x10044: addi sp,sp,16
#     0x10046: jalr zero,0(ra)
#     -> return

#=== outcome
# Exit(-68), 585 cycles, native
