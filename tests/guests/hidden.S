# Computed calls and jumps to addresses that nothing in the program spells: distances, in disguise.
  .option norelax
  .option norvc
  .globl _start
_start:
  li s0, 100
  li s1, 0
round:
  la t1, functions
  andi t2, s0, 3
  slli t2, t2, 2
  add t1, t1, t2
  lw t1, 0(t1)
  xori t1, t1, 0x2aa
  la t2, _start
  add t1, t1, t2
  mv a0, s1
  jalr ra, 0(t1)
  mv s1, a0
  addi s0, s0, -1
  bnez s0, round
  andi a0, s1, 127
  li a7, 93
  ecall
  .word 0
plain:
  addi a0, a0, 3
  ret
  .word 0
with_labels:
  addi sp, sp, -16
  sd ra, 8(sp)
  la t1, labels
  andi t2, a0, 4
  add t1, t1, t2
  lw t1, 0(t1)
  xori t1, t1, 0x2aa
  la t2, _start
  add t1, t1, t2
  jr t1
  .zero 400
first:
  addi a0, a0, 5
  j out
  .zero 8
second:
  slli a0, a0, 1
out:
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
  .word 0
tail:
  la t1, functions
  lw t1, 0(t1)
  xori t1, t1, 0x2aa
  la t2, _start
  add t1, t1, t2
  addi a0, a0, 1
  jr t1
  .word 0
calls:
  addi sp, sp, -16
  sd ra, 8(sp)
  jal plain
  jal helper
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
helper:
  xori a0, a0, 9
  ret
  .data
functions:
  .word (plain - _start) ^ 0x2aa, (with_labels - _start) ^ 0x2aa, (tail - _start) ^ 0x2aa, (calls - _start) ^ 0x2aa
labels:
  .word (first - _start) ^ 0x2aa, (second - _start) ^ 0x2aa
