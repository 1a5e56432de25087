# version: 2
# show: program outcome
/* Addresses in data that are labels of computed jumps are no functions: each would hold the whole interpreter again. */
  .globl _start
_start:
  addi sp, sp, -16
  la s1, table
  li a0, 0
  li a1, 40
  ld t2, 0(s1)
  jr t2
l0:
  addi a0, a0, 1
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l1:
  addi a0, a0, 2
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l2:
  addi a0, a0, 3
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l3:
  addi a0, a0, 4
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l4:
  addi a0, a0, 5
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l5:
  addi a0, a0, 6
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l6:
  addi a0, a0, 7
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l7:
  addi a0, a0, 8
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l8:
  addi a0, a0, 9
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
l9:
  addi a0, a0, 10
  addi a1, a1, -1
  beqz a1, done
  slli t2, a1, 3
  andi t2, t2, 56
  add t2, t2, s1
  ld t2, 0(t2)
  jr t2
done:
  addi sp, sp, 16
  li a7, 93
  ecall
  .section .rodata
  .balign 8
table:
  .dword l0
  .dword l1
  .dword l2
  .dword l3
  .dword l4
  .dword l5
  .dword l6
  .dword l7
  .dword l8
  .dword l9

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi sp,sp,-16
#     0x10002: load.imm s1,65792
#     0x1000a: addi a0,zero,0
#     0x1000c: addi a1,zero,40
#     0x10010: ld t2,0(s1)
#     0x10014: jalr zero,0(t2)
#     -> jump table [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block1 at 0x10016:
#     0x10016: addi a0,a0,1
#     0x10018: addi a1,a1,-1
#     0x1001a: beq a1,zero,216
#     -> branch block21 else block2
# block2 at 0x1001c:
#     0x1001c: slli t2,a1,3
#     0x10020: andi t2,t2,56
#     0x10024: add t2,t2,s1
#     0x10026: ld t2,0(t2)
#     0x1002a: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block3 at 0x1002c:
#     0x1002c: addi a0,a0,2
#     0x1002e: addi a1,a1,-1
#     0x10030: beq a1,zero,194
#     -> branch block21 else block4
# block4 at 0x10032:
#     0x10032: slli t2,a1,3
#     0x10036: andi t2,t2,56
#     0x1003a: add t2,t2,s1
#     0x1003c: ld t2,0(t2)
#     0x10040: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block5 at 0x10042:
#     0x10042: addi a0,a0,3
#     0x10044: addi a1,a1,-1
#     0x10046: beq a1,zero,172
#     -> branch block21 else block6
# block6 at 0x10048:
#     0x10048: slli t2,a1,3
#     0x1004c: andi t2,t2,56
#     0x10050: add t2,t2,s1
#     0x10052: ld t2,0(t2)
#     0x10056: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block7 at 0x10058:
#     0x10058: addi a0,a0,4
#     0x1005a: addi a1,a1,-1
#     0x1005c: beq a1,zero,150
#     -> branch block21 else block8
# block8 at 0x1005e:
#     0x1005e: slli t2,a1,3
#     0x10062: andi t2,t2,56
#     0x10066: add t2,t2,s1
#     0x10068: ld t2,0(t2)
#     0x1006c: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block9 at 0x1006e:
#     0x1006e: addi a0,a0,5
#     0x10070: addi a1,a1,-1
#     0x10072: beq a1,zero,128
#     -> branch block21 else block10
# block10 at 0x10074:
#     0x10074: slli t2,a1,3
#     0x10078: andi t2,t2,56
#     0x1007c: add t2,t2,s1
#     0x1007e: ld t2,0(t2)
#     0x10082: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block11 at 0x10084:
#     0x10084: addi a0,a0,6
#     0x10086: addi a1,a1,-1
#     0x10088: beq a1,zero,106
#     -> branch block21 else block12
# block12 at 0x1008a:
#     0x1008a: slli t2,a1,3
#     0x1008e: andi t2,t2,56
#     0x10092: add t2,t2,s1
#     0x10094: ld t2,0(t2)
#     0x10098: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block13 at 0x1009a:
#     0x1009a: addi a0,a0,7
#     0x1009c: addi a1,a1,-1
#     0x1009e: beq a1,zero,84
#     -> branch block21 else block14
# block14 at 0x100a0:
#     0x100a0: slli t2,a1,3
#     0x100a4: andi t2,t2,56
#     0x100a8: add t2,t2,s1
#     0x100aa: ld t2,0(t2)
#     0x100ae: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block15 at 0x100b0:
#     0x100b0: addi a0,a0,8
#     0x100b2: addi a1,a1,-1
#     0x100b4: beq a1,zero,62
#     -> branch block21 else block16
# block16 at 0x100b6:
#     0x100b6: slli t2,a1,3
#     0x100ba: andi t2,t2,56
#     0x100be: add t2,t2,s1
#     0x100c0: ld t2,0(t2)
#     0x100c4: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block17 at 0x100c6:
#     0x100c6: addi a0,a0,9
#     0x100c8: addi a1,a1,-1
#     0x100ca: beq a1,zero,40
#     -> branch block21 else block18
# block18 at 0x100cc:
#     0x100cc: slli t2,a1,3
#     0x100d0: andi t2,t2,56
#     0x100d4: add t2,t2,s1
#     0x100d6: ld t2,0(t2)
#     0x100da: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block19 at 0x100dc:
#     0x100dc: addi a0,a0,10
#     0x100de: addi a1,a1,-1
#     0x100e0: beq a1,zero,18
#     -> branch block21 else block20
# block20 at 0x100e2:
#     0x100e2: slli t2,a1,3
#     0x100e6: andi t2,t2,56
#     0x100ea: add t2,t2,s1
#     0x100ec: ld t2,0(t2)
#     0x100f0: jalr zero,0(t2)
#     -> jump indirect [block1 block3 block5 block7 block9 block11 block13 block15 block17 block19]
# block21 at 0x100f2:
#     0x100f2: addi sp,sp,16
#     0x100f4: addi a7,zero,93
#     0x100f8: ecall
#     -> exit

#=== outcome
# Exit(-76), 1023 cycles, native
