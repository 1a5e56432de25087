# version: 2
# show: asm outcome
/* A function of one short block goes where it is called: no call is left. */
  .globl _start
_start:
  lbu a0, 0(sp)
  call twice
  mv s0, a0
  lbu a0, 1(sp)
  call twice
  add a0, a0, s0
  li a7, 93
  ecall
twice:
  slli a0, a0, 1
  xori a0, a0, 5
  ret

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  4259856(%rax), %rsi
# .Ltmp0:
#   cmpq  $4194304, %rsi
#   jae  .LBB1_9
# .Ltmp1:
#   movq  4260104(%rax), %rcx
# .Ltmp2:
#   movzbl  (%rax,%rsi), %edx
# .Ltmp3:
#   addq  $-11, %rcx
#   js  .LBB1_2
# .Ltmp4:
#   cmpq  $4194303, %rsi
#   je  .LBB1_9
# .LBB1_4:
#   movzbl  1(%rax,%rsi), %esi
# .Ltmp5:
#   addq  $-12, %rcx
#   js  .LBB1_5
# .Ltmp6:
#   addq  $-502, %rcx
#   js  .LBB1_7
# .LBB1_8:
#   pushq  %rax
# .Ltmp7:
#   addl  %esi, %esi
#   xorq  $5, %rsi
# .Ltmp8:
#   addl  %edx, %edx
#   xorq  $5, %rdx
# .Ltmp9:
#   addq  %rsi, %rdx
#   movq  %rdx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65560, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_2:
# .Ltmp10:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65564(%rax,%rcx)
#   #NO_APP
# .Ltmp11:
#   cmpq  $4194303, %rsi
#   jne  .LBB1_4
# .LBB1_9:
#   ud1l  6(%eax), %eax
# .LBB1_5:
# .Ltmp12:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65564(%rax,%rcx)
#   #NO_APP
# .Ltmp13:
#   addq  $-502, %rcx
#   jns  .LBB1_8
# .LBB1_7:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65554(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_8
# .Ltmp14:
# .Lfunc_end1:

#=== outcome
# Exit(10), 525 cycles, native
