# version: 2
# show: outcome
/* A function that ends in a tail call by address may go to what a table of methods lists, which is no place in its own middle: what goes
   there too, and is found by its address alone, is code. */
  .globl _start
_start:
  addi sp, sp, -16
  la a0, methods
  jal ra, .Lcall
  jal ra, .Lbetween
  la t1, .Lhidden
  sd t1, 0(sp)
  ld t1, 0(sp)
  jalr ra, 0(t1)
  li a7, 93
  ecall
.Lcall:
  ld a5, 0(a0)
  jr a5
.Lmethod:
  addi a0, a0, 5
  andi a0, a0, 15
  ret
.Lother:
  addi a0, a0, 7
  ret
.Lbetween:
  slli a0, a0, 1
  ret
.Lhidden:
  bnez a0, .Lmethod
  ret
  .data
  .balign 8
methods:
  .dword .Lmethod, .Lother

#=== outcome
# Exit(15), 539 cycles, native
