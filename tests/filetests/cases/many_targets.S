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
# .Lfunc_begin2:
#   pushq  %rbx
#   movq  4259856(%rax), %rcx
# .Ltmp0:
#   cmpq  $4194303, %rcx
#   ja  .LBB2_19
# .Ltmp1:
#   movq  %rax, %rbx
#   movq  4260104(%rax), %rax
# .Ltmp2:
#   movzbl  (%rbx,%rcx), %ecx
#   cmpq  $7, %rcx
#   ja  .LBB2_13
#   addq  $-16, %rax
#   js  .LBB2_3
# .LBB2_4:
#   movslq  69632(%rbx,%rcx,4), %rcx
#   andq  $-2, %rcx
#   leaq  -65562(%rcx), %rdx
#   shrq  %rdx
#   cmpq  $14, %rdx
#   ja  .LBB2_17
#   leaq  .LJTI2_0(%rip), %rsi
#   movslq  (%rsi,%rdx,4), %rdx
#   addq  %rsi, %rdx
#   jmpq  *%rdx
# .LBB2_17:
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  dispatch
# .Ltmp3:
#   movq  $0, 4260120(%rbx)
#   popq  %rbx
#   retq
# .LBB2_12:
#   movl  $17, %ecx
# .Ltmp4:
#   jmp  .LBB2_14
# .LBB2_11:
#   movl  $16, %ecx
#   jmp  .LBB2_14
# .LBB2_10:
#   movl  $15, %ecx
#   jmp  .LBB2_14
# .LBB2_19:
#   ud1l  6(%eax), %eax
# .LBB2_9:
#   movl  $14, %ecx
#   jmp  .LBB2_14
# .LBB2_13:
#   addq  $-4, %rax
#   movl  $18, %ecx
#   jmp  .LBB2_14
# .LBB2_3:
#   #APP
#   callq  *4260152(%rbx)
#   {disp32}  nopl  65546(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB2_4
# .LBB2_8:
#   movl  $13, %ecx
#   jmp  .LBB2_14
# .LBB2_7:
#   movl  $12, %ecx
#   jmp  .LBB2_14
# .LBB2_6:
#   movl  $11, %ecx
#   jmp  .LBB2_14
# .LBB2_18:
#   movl  $10, %ecx
# .LBB2_14:
#   addq  $-505, %rax
#   js  .LBB2_15
# .LBB2_16:
#   movq  %rcx, 4259920(%rbx)
#   movq  $93, 4259976(%rbx)
#   movq  $65600, 4260096(%rbx)
#   movq  $0, 4260120(%rbx)
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB2_15:
#   #APP
#   callq  *4260152(%rbx)
#   {disp32}  nopl  65596(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB2_16
# .Ltmp5:
# .Lfunc_end2:
# .LJTI2_0:

#=== outcome
# Exit(10), 521 cycles, native
