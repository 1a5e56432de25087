# version: 2
# show: outcome
/* Each of 300 labels has a dispatch of its own, through one of two registers, which also leads to what is called in tail position. With so
   many edges jumps through the same register share a block, which reads the return address as they would have. */
  .option norvc
  .globl _start
_start:
  li a1, 10000
  jal ra, work
  li a7, 93
  ecall
  .globl work
  .type work, @function
work:
  mv t4, ra
  jal ra, helper
  mv ra, t4
  la a2, table
  ld t2, 0(a2)
  jr t2
labels:
  .set number, 0
  .rept 300
  addi a0, a0, number % 100
  addi a1, a1, -1
  add t1, a0, a1
  li t0, 300
  remu t1, t1, t0
  slli t1, t1, 3
  add t1, t1, a2
  .if number & 1
  ld t3, 0(t1)
  jr t3
  .else
  ld t2, 0(t1)
  jr t2
  .endif
  .set number, number + 1
  .endr
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
  .set number, 0
  .rept 300
  .if number == 57
  .dword helper
  .else
  .dword labels + 36 * number
  .endif
  .set number, number + 1
  .endr

#=== outcome
# Exit(-109), 2158 cycles, native
