# version: 2
# show: program outcome
/* Functions that save and restore registers by libgcc's millicode: the end that they share is in each of them. */
  .globl _start
_start:
  li s0, 5
  li s1, 6
  li a0, 7
  call outer
  add a0, a0, s0
  add a0, a0, s1
  li a7, 93
  ecall
outer:
  jal t0, save
  mv s0, a0
  li s1, 1
  call inner
  add a0, a0, s0
  add a0, a0, s1
  j restore
inner:
  jal t0, save
  mv s1, a0
  addi a0, s1, 1
  j restore
save:
  addi sp, sp, -32
  sd s1, 8(sp)
  sd s0, 16(sp)
  sd ra, 24(sp)
  jr t0
restore:
  ld s1, 8(sp)
  ld s0, 16(sp)
  ld ra, 24(sp)
  addi sp, sp, 32
  ret

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi s0,zero,5
#     0x10002: addi s1,zero,6
#     0x10004: addi a0,zero,7
#     0x10006: jal ra,16
#     -> call fn1, ra = 0x1000a, then block1
# block1 at 0x1000a:
#     0x1000a: add a0,a0,s0
#     0x1000c: add a0,a0,s1
#     0x1000e: addi a7,zero,93
#     0x10012: ecall
#     -> exit
#
# function fn1 at 0x10016 link ra
# block0 at 0x10016:
#     0x10016: jal t0,30
#     -> call fn3, t0 = 0x1001a, then block1
# block1 at 0x1001a:
#     0x1001a: add s0,zero,a0
#     0x1001c: addi s1,zero,1
#     0x1001e: jal ra,10
#     -> call fn2, ra = 0x10022, then block2
# block2 at 0x10022:
#     0x10022: add a0,a0,s0
#     0x10024: add a0,a0,s1
#     0x10026: jal zero,24
#     -> jump block3
# block3 at 0x1003e:
#     0x1003e: ld s1,8(sp)
#     0x10040: ld s0,16(sp)
#     0x10042: ld ra,24(sp)
#     0x10044: addi sp,sp,32
#     0x10046: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x10028 link ra
# block0 at 0x10028:
#     0x10028: jal t0,12
#     -> call fn3, t0 = 0x1002c, then block1
# block1 at 0x1002c:
#     0x1002c: add s1,zero,a0
#     0x1002e: addi a0,s1,1
#     0x10032: jal zero,12
#     -> jump block2
# block2 at 0x1003e:
#     0x1003e: ld s1,8(sp)
#     0x10040: ld s0,16(sp)
#     0x10042: ld ra,24(sp)
#     0x10044: addi sp,sp,32
#     0x10046: jalr zero,0(ra)
#     -> return
#
# function fn3 at 0x10034 link t0
# block0 at 0x10034:
#     0x10034: addi sp,sp,-32
#     0x10036: sd s1,8(sp)
#     0x10038: sd s0,16(sp)
#     0x1003a: sd ra,24(sp)
#     0x1003c: jalr zero,0(t0)
#     -> return

#=== outcome
# Exit(27), 570 cycles, native
