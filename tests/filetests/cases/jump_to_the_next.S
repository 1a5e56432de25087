# version: 2
# show: outcome
/* A function that ends in a jump to the next instruction goes on in the next function: what calls that one, and is found by its
   address alone, is code. */
  .globl _start
_start:
  li a0, 1
  jal ra, .Lthunk
  la t1, .Lhidden
  jalr ra, 0(t1)
  li a7, 93
  ecall
.Lthunk:
  addi a0, a0, 2
  .option push
  .option norelax
  j .Lnext
  .option pop
.Lnext:
  slli a0, a0, 1
  beqz a0, .Lend
  addi a0, a0, 5
.Lend:
  ret
.Lhidden:
  addi sp, sp, -16
  sd ra, 8(sp)
  jal ra, .Lnext
  ld ra, 8(sp)
  addi sp, sp, 16
  ret

#=== outcome
# Exit(27), 541 cycles, native
