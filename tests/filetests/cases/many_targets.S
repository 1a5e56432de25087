# version: 2
# show: asm outcome
/* A jump through a table with many targets uses a table of the host's, with a place for each even address. */
  .globl _start
_start:
  lbu a0, 0(sp)
  li a1, 7
  bgtu a0, a1, other
  slli a0, a0, 2
  la a1, table
  add a0, a0, a1
  lw a0, 0(a0)
  jr a0
case0:
  li a0, 10
  j end
case1:
  li a0, 11
  j end
case2:
  li a0, 12
  j end
case3:
  li a0, 13
  j end
case4:
  li a0, 14
  j end
case5:
  li a0, 15
  j end
case6:
  li a0, 16
  j end
case7:
  li a0, 17
  j end
other:
  li a0, 18
end:
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word case0, case1, case2, case3, case4, case5, case6, case7

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  4259856(%rax), %rdx
# .Ltmp0:
#   cmpq  $4194303, %rdx
#   ja  .LBB1_1
# .Ltmp1:
#   movq  4260104(%rax), %rcx
# .Ltmp2:
#   movzbl  (%rax,%rdx), %edx
#   cmpq  $7, %rdx
#   jbe  .LBB1_15
#   addq  $-4, %rcx
#   movl  $18, %edx
# .LBB1_11:
#   addq  $-505, %rcx
#   js  .LBB1_12
# .LBB1_13:
#   pushq  %rax
#   movq  %rdx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65600, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_15:
#   addq  $-16, %rcx
#   leaq  .LJTI1_0(%rip), %rsi
#   movslq  (%rsi,%rdx,4), %rdx
#   addq  %rsi, %rdx
#   jmpq  *%rdx
# .LBB1_2:
#   movl  $10, %edx
#   jmp  .LBB1_11
# .LBB1_6:
#   movl  $14, %edx
#   jmp  .LBB1_11
# .LBB1_4:
#   movl  $12, %edx
#   jmp  .LBB1_11
# .LBB1_5:
#   movl  $13, %edx
#   jmp  .LBB1_11
# .LBB1_9:
#   movl  $17, %edx
#   jmp  .LBB1_11
# .LBB1_3:
#   movl  $11, %edx
#   jmp  .LBB1_11
# .LBB1_7:
#   movl  $15, %edx
#   jmp  .LBB1_11
# .LBB1_8:
#   movl  $16, %edx
#   jmp  .LBB1_11
# .LBB1_1:
#   ud1l  6(%eax), %eax
# .LBB1_12:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65596(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_13
# .Ltmp3:
# .Lfunc_end1:
# .LJTI1_0:
# enter_10036:
# .Lfunc_begin2:
#   movq  $-505, %rcx
# .Ltmp4:
#   addq  4260104(%rax), %rcx
#   js  .LBB2_1
# .LBB2_2:
#   pushq  %rax
#   movq  $17, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65600, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB2_1:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65596(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB2_2
# .Ltmp5:
# .Lfunc_end2:

#=== outcome
# Exit(10), 521 cycles, native
