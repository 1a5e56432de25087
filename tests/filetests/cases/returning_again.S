# version: 1
# show: outcome
/* `longjmp` natively: over frames that work, again and again from one loop, into the outer of two marked frames, out of a call by
   address, and with registers that only the buffer knows. */
  .globl _start
_start:
  li s0, 0
  li s1, 20
1:
  mv a0, s1
  call try
  add s0, s0, a0
  addi s1, s1, -1
  bnez s1, 1b
  andi a0, s0, 127
  li a7, 93
  ecall

/* Catches what `fail` throws; tries inside of itself for odd numbers. */
try:
  addi sp, sp, -160
  sd ra, 152(sp)
  sd s0, 144(sp)
  sd s1, 136(sp)
  mv s0, a0
  addi a0, sp, 8
  call save
  bnez a0, 2f
  addi a0, sp, 8
  mv a1, s0
  la t0, descend
  jalr t0
  j 3f
2:
  add a0, a0, s0
3:
  andi s1, s0, 1
  beqz s1, 4f
  mv s1, a0
  addi a0, s0, -1
  srli a0, a0, 1
  beqz a0, 4f
  call try
  add a0, a0, s1
4:
  ld ra, 152(sp)
  ld s0, 144(sp)
  ld s1, 136(sp)
  addi sp, sp, 160
  ret

/* Goes down as often as the number says, and throws at the end if it is a multiple of 4. */
descend:
  addi sp, sp, -32
  sd ra, 24(sp)
  sd s0, 16(sp)
  sd s1, 8(sp)
  mv s1, a0
  mv s0, a1
  andi t1, s0, 3
  bnez t1, 5f
  mv a0, s1
  li a1, 5
  call jump
5:
  blez s0, 6f
  mv a0, s1
  addi a1, s0, -1
  call descend
6:
  add a0, s0, a1
  ld ra, 24(sp)
  ld s0, 16(sp)
  ld s1, 8(sp)
  addi sp, sp, 32
  ret

save:
  sd ra, 0(a0)
  sd s0, 8(a0)
  sd s1, 16(a0)
  sd sp, 24(a0)
  li a0, 0
  ret
jump:
  ld ra, 0(a0)
  ld s0, 8(a0)
  ld s1, 16(a0)
  ld sp, 24(a0)
  mv a0, a1
  ret

#=== outcome
# Exit(28), 4686 cycles, native
