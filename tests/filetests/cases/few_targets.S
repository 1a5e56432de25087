# version: 2
# show: asm outcome
/* A jump through a table with few targets compares instead of using a table of the host's. */
  .globl _start
_start:
  lbu a0, 0(sp)
  li a1, 3
  bgtu a0, a1, other
  slli a0, a0, 2
  la a1, table
  add a0, a0, a1
  lw a0, 0(a0)
  jr a0
zero:
  li a0, 10
  j end
one:
  li a0, 11
  j end
two:
  li a0, 12
  j end
three:
  li a0, 13
  j end
other:
  li a0, 14
end:
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word zero, one, two, three

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  4259856(%rax), %rdx
# .Ltmp0:
#   cmpq  $4194303, %rdx
#   ja  .LBB1_12
# .Ltmp1:
#   movq  4260104(%rax), %rcx
# .Ltmp2:
#   movzbl  (%rax,%rdx), %esi
#   cmpq  $3, %rsi
#   jbe  .LBB1_2
#   addq  $-4, %rcx
#   movl  $14, %edx
# .LBB1_9:
#   addq  $-505, %rcx
#   js  .LBB1_10
# .LBB1_11:
#   pushq  %rax
#   movq  %rdx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65584, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_2:
#   addq  $-16, %rcx
#   cmpq  $1, %rsi
#   jg  .LBB1_6
#   movl  $10, %edx
#   testq  %rsi, %rsi
#   je  .LBB1_9
#   movl  $11, %edx
#   jmp  .LBB1_9
# .LBB1_6:
#   cmpl  $2, %esi
#   jne  .LBB1_7
#   movl  $12, %edx
#   jmp  .LBB1_9
# .LBB1_7:
#   movl  $13, %edx
#   jmp  .LBB1_9
# .LBB1_12:
#   ud1l  6(%eax), %eax
# .LBB1_10:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65580(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_11
# .Ltmp3:
# .Lfunc_end1:
# enter_10026:
# .Lfunc_begin2:
#   movq  $-505, %rcx
# .Ltmp4:
#   addq  4260104(%rax), %rcx
#   js  .LBB2_1
# .LBB2_2:
#   pushq  %rax
#   movq  $13, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65584, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB2_1:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65580(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB2_2
# .Ltmp5:
# .Lfunc_end2:

#=== outcome
# Exit(10), 521 cycles, native
