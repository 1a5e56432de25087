# version: 2
# show: program ir asm baseline outcome
/* A loop with a counter: cycles are counted down once for each round, compared at its head. */
  .globl _start
_start:
  li a0, 0
  li a1, 100
1:
  add a0, a0, a1
  addi a1, a1, -1
  bnez a1, 1b
  li a7, 93
  ecall

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,0
#     0x10002: addi a1,zero,100
#     -> jump block1
# block1 at 0x10006:
#     0x10006: add a0,a0,a1
#     0x10008: addi a1,a1,-1
#     0x1000a: bne a1,zero,-4
#     -> branch block1 else block2
# block2 at 0x1000c:
#     0x1000c: addi a7,zero,93
#     0x10010: ecall
#     -> exit

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# loop block4 blocks 1 guard block1 last v6
#     exit block4 counter 1*a1 + -1 step -1 end 0
# block0 at 0x10000 cycles 2 charged 0:
#     v0 = const 0x0
#     v1 = const 0x64
#     a0 = v0
#     a1 = v1
#     jump block1
# block1 at 0x10006 cycles 0 charged 2:
#     v0 = read a1
#     v1 = const 0xffffffffffffffff
#     v2 = add v0, v1
#     v3 = const 0x0
#     v4 = const 0x40000000
#     v5 = lt.u v3, v4
#     v6 = sub v2, v3
#     v7 = const 0xccccc
#     v8 = lt.u v6, v7
#     v9 = and v5, v8
#     v10 = cycles.left
#     v11 = const 0xffffffffffc00000
#     v12 = ge v10, v11
#     v13 = and v9, v12
#     branch v13, block4, block3
# block2 at 0x1000c cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x10010
# block3 at 0x10006 cycles 5 metered:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0xffffffffffffffff
#     v3 = const 0x0
#     v4 = add v0, v1
#     v5 = add v1, v2
#     v6 = ne v5, v3
#     a0 = v4
#     a1 = v5
#     branch v6, block3, block2
# block4 at 0x10006 cycles 5 bounded:
#     v0 = read a0
#     v1 = read a1
#     v2 = const 0xffffffffffffffff
#     v3 = const 0x0
#     v4 = add v0, v1
#     v5 = add v1, v2
#     v6 = ne v5, v3
#     a0 = v4
#     a1 = v5
#     branch v6, block4, block2

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  4260104(%rax), %rdx
# .Ltmp0:
#   leaq  -2(%rdx), %rcx
#   cmpq  $-4194305, %rcx
#   jle  .LBB1_1
#   addq  $-502, %rdx
#   movq  %rdx, %rcx
# .LBB1_6:
#   addq  $-501, %rcx
#   js  .LBB1_7
# .LBB1_8:
#   pushq  %rax
#   movq  $5050, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65552, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_1:
#   movl  $100, %edx
# .LBB1_2:
#   addq  $-5, %rcx
#   js  .LBB1_3
# .LBB1_4:
#   decq  %rdx
#   jne  .LBB1_2
#   jmp  .LBB1_6
# .LBB1_3:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65542(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_4
# .LBB1_7:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65548(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_8
# .Ltmp1:
# .Lfunc_end1:

#=== baseline
# function at 0x10000:
#      0  nop [rax]
#      7  mov r12d,0
#      d  mov ebx,64h
#     12  sub r11,2
#     16  lea rax,[rbx-1]
#     1a  cmp rax,0CCCCCh
#     21  setb al
#     24  movzx eax,al
#     27  and rax,1
#     2b  mov rcx,r11
#     2e  cmp rcx,0FFFFFFFFFFC00000h
#     35  setge cl
#     38  movzx ecx,cl
#     3b  and rax,rcx
#     3e  test rax,rax
#     41  jne 86
#     47  jmp 6e
#     4c  sub r11,1F5h
#     53  js 98
#     59  mov r13d,5Dh
#     5f  mov eax,10010h
#     64  call ecall
#     69  ud1 eax,[eax+4]
#     6e  sub r11,5
#     72  js aa
#     78  add r12,rbx
#     7b  add rbx,0FFFFFFFFFFFFFFFFh
#     7f  test rbx,rbx
#     82  jne 6e
#     84  jmp 4c
#     86  sub r11,5
#     8a  add r12,rbx
#     8d  add rbx,0FFFFFFFFFFFFFFFFh
#     91  test rbx,rbx
#     94  jne 86
#     96  jmp 4c
#     98  call qword ptr [r10+411008h]
#     9f  nop [r10+r11+1000Ch]
#     a8  jmp 59
#     aa  call qword ptr [r10+411008h]
#     b1  nop [r10+r11+10006h]
#     ba  jmp 78

#=== outcome
# Exit(-70), 1003 cycles, native
