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
#   movq  4260104(%rax), %rcx
# .Ltmp0:
#   addq  $-6, %rcx
#   js  .LBB1_1
#   cmpq  $4194304, %rsi
#   jae  .LBB1_13
# .LBB1_3:
#   movzbl  (%rax,%rsi), %edx
# .Ltmp1:
#   addq  $-5, %rcx
#   js  .LBB1_4
# .Ltmp2:
#   addq  $-7, %rcx
#   js  .LBB1_6
# .LBB1_7:
#   cmpq  $4194303, %rsi
#   je  .LBB1_14
# .LBB1_8:
#   movzbl  1(%rax,%rsi), %esi
# .Ltmp3:
#   addq  $-5, %rcx
#   js  .LBB1_9
# .Ltmp4:
#   addq  $-502, %rcx
#   js  .LBB1_11
# .LBB1_12:
#   pushq  %rax
# .Ltmp5:
#   addl  %esi, %esi
#   xorq  $5, %rsi
# .Ltmp6:
#   addl  %edx, %edx
#   xorq  $5, %rdx
# .Ltmp7:
#   addq  %rsi, %rdx
#   movq  %rdx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65560, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_1:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65536(%rax,%rcx)
#   #NO_APP
#   cmpq  $4194304, %rsi
#   jb  .LBB1_3
# .LBB1_13:
#   ud1l  6(%eax), %eax
# .LBB1_4:
# .Ltmp8:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65564(%rax,%rcx)
#   #NO_APP
# .Ltmp9:
#   addq  $-7, %rcx
#   jns  .LBB1_7
# .LBB1_6:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65544(%rax,%rcx)
#   #NO_APP
#   cmpq  $4194303, %rsi
#   jne  .LBB1_8
# .LBB1_14:
#   ud1l  6(%eax), %eax
# .LBB1_9:
# .Ltmp10:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65564(%rax,%rcx)
#   #NO_APP
# .Ltmp11:
#   addq  $-502, %rcx
#   jns  .LBB1_12
# .LBB1_11:
#   #APP
#   callq  *4260152(%rax)
#   {disp32}  nopl  65554(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_12
# .Ltmp12:
# .Lfunc_end1:

#=== outcome
# Exit(10), 525 cycles, native
