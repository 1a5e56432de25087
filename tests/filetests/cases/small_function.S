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
#   movq  4259856(%rax), %rdx
#   movq  4260104(%rax), %r11
# .Ltmp0:
#   addq  $-6, %r11
#   js  .LBB1_1
#   cmpq  $4194304, %rdx
#   jae  .LBB1_13
# .LBB1_3:
#   movzbl  (%rax,%rdx), %ecx
# .Ltmp1:
#   addq  $-5, %r11
#   js  .LBB1_4
# .Ltmp2:
#   addq  $-7, %r11
#   js  .LBB1_6
# .LBB1_7:
#   cmpq  $4194303, %rdx
#   je  .LBB1_14
# .LBB1_8:
#   movzbl  1(%rax,%rdx), %edx
# .Ltmp3:
#   addq  $-5, %r11
#   js  .LBB1_9
# .Ltmp4:
#   addq  $-502, %r11
#   js  .LBB1_11
# .LBB1_12:
#   pushq  %rax
# .Ltmp5:
#   addl  %edx, %edx
#   xorq  $5, %rdx
# .Ltmp6:
#   addl  %ecx, %ecx
#   xorq  $5, %rcx
# .Ltmp7:
#   addq  %rdx, %rcx
#   movq  %rcx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65560, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %r11, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_1:
#   movq  %rax, %r10
#   #APP
#   callq  *4260152(%r10)
#   #NO_APP
#   cmpq  $4194304, %rdx
#   jb  .LBB1_3
# .LBB1_13:
#   ud1l  6(%eax), %eax
# .LBB1_4:
# .Ltmp8:
#   movq  %rax, %r10
#   #APP
#   callq  *4260152(%r10)
#   #NO_APP
# .Ltmp9:
#   addq  $-7, %r11
#   jns  .LBB1_7
# .LBB1_6:
#   movq  %rax, %r10
#   #APP
#   callq  *4260152(%r10)
#   #NO_APP
#   cmpq  $4194303, %rdx
#   jne  .LBB1_8
# .LBB1_14:
#   ud1l  6(%eax), %eax
# .LBB1_9:
# .Ltmp10:
#   movq  %rax, %r10
#   #APP
#   callq  *4260152(%r10)
#   #NO_APP
# .Ltmp11:
#   addq  $-502, %r11
#   jns  .LBB1_12
# .LBB1_11:
#   movq  %rax, %r10
#   #APP
#   callq  *4260152(%r10)
#   #NO_APP
#   jmp  .LBB1_12
# .Ltmp12:
# .Lfunc_end1:

#=== outcome
# Exit(10), 525 cycles, native
