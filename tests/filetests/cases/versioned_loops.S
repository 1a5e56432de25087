# version: 2
# show: outcome
/* Loops in two versions, one for each form of a trip count: tampered.rs changes what their guards show. */
  .globl _start
_start:
  lui s0, 0x20
  li a0, 0
/* Up by one word to an end, signed. */
  addi a1, s0, 80
  mv a2, s0
1:
  sd a0, 0(a2)
  addi a0, a0, 3
  addi a2, a2, 8
  blt a2, a1, 1b
/* Up by a step that is no power of two, the end included. */
  mv a2, s0
1:
  lw a3, 0(a2)
  add a0, a0, a3
  addi a2, a2, 12
  bgeu a1, a2, 1b
/* Down to where it began, by what divides the distance. */
  mv a2, a1
1:
  addi a2, a2, -16
  ld a3, 0(a2)
  ld a4, 8(a2)
  add a0, a0, a3
  xor a0, a0, a4
  bne a2, s0, 1b
/* Down, unsigned, by a step that does not. */
  addi a2, s0, 78
1:
  lhu a3, 0(a2)
  add a0, a0, a3
  addi a2, a2, -6
  bgtu a2, s0, 1b
/* Down by words, the end included. */
  li a2, 9
1:
  slli a3, a2, 3
  add a3, a3, s0
  ld a4, 0(a3)
  add a0, a0, a4
  addiw a2, a2, -1
  bge a2, zero, 1b
/* A word that counts up, sign extended and zero extended in addresses. */
  li a2, 0
  li a5, 20
1:
  slli a3, a2, 32
  srli a3, a3, 30
  add a3, a3, s0
  lw a4, 0(a3)
  add a0, a0, a4
  addiw a2, a2, 1
  blt a2, a5, 1b
/* An index of a byte into a table. */
  mv a2, s0
1:
  lbu a3, 0(a2)
  add a3, a3, s0
  lbu a3, 64(a3)
  add a0, a0, a3
  addi a2, a2, 1
  bne a2, a1, 1b
/* Pointers that move apart, by different steps. */
  mv a2, s0
  addi a3, a1, 256
1:
  ld a4, 0(a2)
  sw a4, -4(a3)
  addi a3, a3, -4
  addi a2, a2, 8
  bltu a2, a1, 1b
  andi a0, a0, 127
  li a7, 93
  ecall

#=== outcome
# Exit(19), 2165 cycles, native
