# version: 2
# show: outcome
/* Bounded loops whose iterations store over each other by one pointer, which LLVM's vectorizer takes for one access. Of the first, with
   two widths, it made all first stores of some iterations before the second ones. The second, with a condition, is not worth vectors
   to it today. */
  .globl _start
_start:
  /* No arguments, which nobody knows here. */
  ld t0, 0(sp)
  lui s0, 0x20
  mv a1, t0
  addi a2, t0, -1
  li a6, 0
  addi a3, t0, 24
  mv a0, s0
  jal widths
  addi a3, t0, 24
  lui s0, 0x21
  mv a0, s0
  jal condition
  /* The bytes around both, in one number. */
  mv a0, a6
  lui s0, 0x20
  jal fold
  lui s0, 0x21
  jal fold
  srli t0, a0, 7
  xor a0, a0, t0
  andi a0, a0, 127
  li a7, 93
  ecall
widths:
  /* With a frame, so that it stays a function. */
  addi sp, sp, -16
  sd s0, 8(sp)
  li a4, 0
1:
  sd a1, -1(a0)
  sw a2, -1(a0)
  addi a6, a6, 1
  addi a0, a0, -1
  addiw a4, a4, 1
  bltu a4, a3, 1b
  ld s0, 8(sp)
  addi sp, sp, 16
  ret
condition:
  addi sp, sp, -16
  sd s0, 8(sp)
  li a4, 0
1:
  sd a1, 0(a0)
  andi a5, a4, 1
  beqz a5, 2f
  sd a2, 0(a0)
2:
  addi a6, a6, 1
  addi a0, a0, 1
  addiw a4, a4, 1
  bltu a4, a3, 1b
  ld s0, 8(sp)
  addi sp, sp, 16
  ret
fold:
  addi t1, s0, -64
  addi t2, s0, 64
1:
  lbu t3, 0(t1)
  slli t4, a0, 5
  sub a0, t4, a0
  add a0, a0, t3
  addi t1, t1, 1
  bne t1, t2, 1b
  ret

#=== outcome
# Exit(32), 3696 cycles, native
