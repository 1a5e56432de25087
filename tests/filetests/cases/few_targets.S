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
#   ja  .LBB1_16
# .Ltmp1:
#   movq  4260104(%rax), %rcx
# .Ltmp2:
#   movzbl  (%rax,%rdx), %edx
#   cmpq  $3, %rdx
#   jbe  .LBB1_2
#   addq  $-4, %rcx
#   movl  $14, %edx
# .LBB1_11:
#   addq  $-505, %rcx
#   js  .LBB1_12
# .LBB1_13:
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
#   movslq  69632(%rax,%rdx,4), %rdx
#   andq  $-2, %rdx
#   addq  $-65562, %rdx
#   rorxq  $2, %rdx, %rdx
#   cmpq  $1, %rdx
#   jg  .LBB1_5
#   testq  %rdx, %rdx
#   je  .LBB1_4
#   cmpq  $1, %rdx
#   jne  .LBB1_15
#   movl  $11, %edx
#   jmp  .LBB1_11
# .LBB1_5:
#   cmpq  $2, %rdx
#   je  .LBB1_9
#   cmpq  $3, %rdx
#   jne  .LBB1_15
#   movl  $13, %edx
#   jmp  .LBB1_11
# .LBB1_15:
#   ud1l  3(%eax), %eax
# .LBB1_4:
#   movl  $10, %edx
#   jmp  .LBB1_11
# .LBB1_9:
#   movl  $12, %edx
#   jmp  .LBB1_11
# .LBB1_16:
#   ud1l  6(%eax), %eax
# .LBB1_12:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65580(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_13
# .Ltmp3:
# .Lfunc_end1:

#=== outcome
# Exit(10), 521 cycles, native
