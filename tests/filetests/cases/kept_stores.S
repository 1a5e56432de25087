# version: 1
# show: asm
/* A program that may load code (2091) stores even what it has just loaded from there: the page may refuse it. */
  .globl _start
_start:
  lui t1, 0x200
  ld t2, 0(t1)
  sd t2, 0(t1)
  lui a7, 1
  addiw a7, a7, -2005
  ecall
  li a7, 93
  ecall

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   pushq  %rbx
#   movq  %rax, %rbx
#   movq  $-506, %rax
# .Ltmp0:
#   addq  4260104(%rbx), %rax
#   js  .LBB1_1
# .LBB1_2:
#   movq  2097152(%rbx), %rcx
#   movq  %rcx, 2097152(%rbx)
#   movq  $2091, 4259976(%rbx)
#   movq  $65554, 4260096(%rbx)
#   movq  $0, 4260120(%rbx)
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  ecall
#   movq  $-501, %rax
#   addq  4260104(%rbx), %rax
#   js  .LBB1_3
# .LBB1_4:
#   movq  $93, 4259976(%rbx)
#   movq  $65562, 4260096(%rbx)
#   movq  $0, 4260120(%rbx)
#   movq  %rax, 4260104(%rbx)
#   movq  %rbx, %rax
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_1:
#   #APP
#   callq  *4263944(%rbx)
#   {disp32}  nopl  65536(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB1_2
# .LBB1_3:
#   #APP
#   callq  *4263944(%rbx)
#   {disp32}  nopl  65558(%rbx,%rax)
#   #NO_APP
#   jmp  .LBB1_4
# .Ltmp1:
# .Lfunc_end1:
