# version: 2
# show: outcome
/* Ten dispatches of a function without a frame share a switch, which also leads to what they call in tail position. */
  .globl _start
_start:
  li a1, 37
  jal ra, work
  li a7, 93
  ecall
  .globl work
  .type work, @function
work:
  la a2, table
  li a0, 0
  ld t2, 0(a2)
  jr t2
l0:
  addi a0, a0, 1
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l1:
  addi a0, a0, 2
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l2:
  addi a0, a0, 3
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l3:
  addi a0, a0, 4
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l4:
  addi a0, a0, 5
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l5:
  addi a0, a0, 6
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l6:
  addi a0, a0, 7
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l7:
  addi a0, a0, 8
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l8:
  addi a0, a0, 9
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
l9:
  addi a0, a0, 10
  addi a1, a1, -1
  slli t2, a1, 3
  andi t2, t2, 127
  andi t2, t2, -8
  add t2, t2, a2
  ld t2, 0(t2)
  jr t2
  .size work, . - work
  .globl helper
  .type helper, @function
helper:
  addi a0, a0, 100
  ret
  .size helper, . - helper
  .data
  .balign 8
table:
  .dword l0
  .dword l1
  .dword l2
  .dword l3
  .dword l4
  .dword helper
  .dword l6
  .dword l7
  .dword l8
  .dword l9
  .dword l0
  .dword l1
  .dword l2
  .dword l3
  .dword l4
  .dword l5

#=== outcome
# Exit(-85), 692 cycles, native
