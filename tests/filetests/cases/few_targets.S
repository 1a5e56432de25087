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
# .Lfunc_begin2:
#   pushq  %rbx
#   movq  4259856(%rax), %rcx
# .Ltmp0:
#   cmpq  $4194303, %rcx
#   ja  .LBB2_18
# .Ltmp1:
#   movq  %rax, %rbx
#   movq  4260104(%rax), %rax
# .Ltmp2:
#   movzbl  (%rbx,%rcx), %ecx
#   cmpq  $3, %rcx
#   ja  .LBB2_8
#   addq  $-16, %rax
#   js  .LBB2_3
# .LBB2_4:
#   movslq  69632(%rbx,%rcx,4), %rcx
#   andq  $-2, %rcx
#   leaq  -65562(%rcx), %rdx
#   rorxq  $2, %rdx, %rdx
#   cmpq  $1, %rdx
#   jg  .LBB2_14
#   testq  %rdx, %rdx
#   je  .LBB2_6
#   cmpq  $1, %rdx
#   jne  .LBB2_17
#   movl  $11, %ecx
#   jmp  .LBB2_9
# .LBB2_14:
#   cmpq  $2, %rdx
#   je  .LBB2_7
#   cmpq  $3, %rdx
#   je  .LBB2_16
# .LBB2_17:
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  dispatch
# .Ltmp3:
#   movq  $0, 4260120(%rbx)
#   popq  %rbx
#   retq
# .LBB2_18:
# .Ltmp4:
#   ud1l  6(%eax), %eax
# .LBB2_8:
#   addq  $-4, %rax
#   movl  $14, %ecx
#   jmp  .LBB2_9
# .LBB2_3:
#   #APP
#   callq  *4260152(%rbx)
#   {disp32}  nopl  65546(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB2_4
# .LBB2_6:
#   movl  $10, %ecx
#   jmp  .LBB2_9
# .LBB2_7:
#   movl  $12, %ecx
#   jmp  .LBB2_9
# .LBB2_16:
#   movl  $13, %ecx
# .LBB2_9:
#   addq  $-505, %rax
#   js  .LBB2_10
# .LBB2_11:
#   movq  %rcx, 4259920(%rbx)
#   movq  $93, 4259976(%rbx)
#   movq  $65584, 4260096(%rbx)
#   movq  $0, 4260120(%rbx)
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB2_10:
#   #APP
#   callq  *4260152(%rbx)
#   {disp32}  nopl  65580(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB2_11
# .Ltmp5:
# .Lfunc_end2:

#=== outcome
# Exit(10), 521 cycles, native
