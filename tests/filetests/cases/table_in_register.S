# version: 2
# args: x
# show: ir asm outcome
/* A switch in a loop, the table's address in a register: the table stands in executable pages, so its place says where to go, if the
   register holds that address. */
  .globl _start
_start:
  lbu s1, 0(sp)
  la s0, table
  li s2, 5
again:
  andi a1, s1, 3
  slli a1, a1, 2
  add a1, a1, s0
  lw a1, 0(a1)
  add a1, a1, s0
  jr a1
1:
  addi s1, s1, 3
  j 9f
2:
  slli s1, s1, 1
  j 9f
3:
  xori s1, s1, 1
9:
  addi s2, s2, -1
  bnez s2, again
  andi a0, s1, 127
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word 1b - table
  .word 2b - table
  .word 3b - table
  .word 2b - table

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {s0 s1 a0 a1 a7 s2}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 5 charged 1:
#     v0 = read sp
#     v1 = const 0x1003c
#     v2 = const 0x0
#     v3 = const 0x5
#     check.read v0+0..+1
#     v5 = load.bu v0+0
#     s0 = v1
#     s1 = v5
#     s2 = v3
#     jump block1
# block1 at 0x1000e cycles 10 charged 14 metered:
#     v0 = read s1
#     v1 = const 0x3
#     v2 = const 0x2
#     v3 = read s0
#     v4 = const 0x1001c
#     v5 = const 0xfffffffffffffffe
#     v6 = and v0, v1
#     v7 = shl v6, v2
#     v8 = add v7, v3
#     check.read v8+0..+4
#     v10 = load.w v8+0
#     v11 = add v10, v3
#     v12 = and v11, v5
#     a1 = v11
#     jump.indirect v12, [0x1001c: block2, 0x10020: block3, 0x10024: block4] or tail.call by v7 in 0x1003c: 0 1 2 1 times 4 bytes if v3 is 0x1003c
# block2 at 0x1001c cycles 4:
#     v0 = read s1
#     v1 = const 0x3
#     v2 = const 0x10020
#     v3 = add v0, v1
#     s1 = v3
#     jump block5
# block3 at 0x10020 cycles 4:
#     v0 = read s1
#     v1 = const 0x1
#     v2 = const 0x10024
#     v3 = shl v0, v1
#     s1 = v3
#     jump block5
# block4 at 0x10024 cycles 1:
#     v0 = read s1
#     v1 = const 0x1
#     v2 = xor v0, v1
#     s1 = v2
#     jump block5
# block5 at 0x10028 cycles 4 charged 0:
#     v0 = read s2
#     v1 = const 0xffffffffffffffff
#     v2 = const 0x0
#     v3 = add v0, v1
#     v4 = ne v3, v2
#     s2 = v3
#     branch v4, block1, block6
# block6 at 0x1002e cycles 502 charged 506 metered:
#     v0 = read s1
#     v1 = const 0x7f
#     v2 = const 0x0
#     v3 = const 0x5d
#     v4 = and v0, v1
#     a0 = v4
#     a7 = v3
#     exit at 0x10036

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  4259856(%rax), %rdx
# .Ltmp0:
#   cmpq  $4194303, %rdx
#   ja  .LBB1_14
# .Ltmp1:
#   movq  4260104(%rax), %rcx
# .Ltmp2:
#   decq  %rcx
#   movzbl  (%rax,%rdx), %edx
#   movl  $5, %esi
#   jmp  .LBB1_2
# .Ltmp3:
# .LBB1_13:
#   addq  $-4, %rcx
#   addq  %rdx, %rdx
# .LBB1_8:
#   decq  %rsi
#   je  .LBB1_9
# .LBB1_2:
#   addq  $-14, %rcx
#   js  .LBB1_3
# .LBB1_4:
#   movl  %edx, %edi
#   andl  $3, %edi
#   cmpq  $1, %rdi
#   jg  .LBB1_12
#   testq  %rdi, %rdi
#   jne  .LBB1_13
#   addq  $-4, %rcx
#   addq  $3, %rdx
#   jmp  .LBB1_8
# .Ltmp4:
# .LBB1_12:
#   cmpl  $2, %edi
#   jne  .LBB1_13
#   decq  %rcx
#   xorq  $1, %rdx
#   jmp  .LBB1_8
# .LBB1_3:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65550(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_4
# .LBB1_9:
#   addq  $-506, %rcx
#   js  .LBB1_10
# .LBB1_11:
#   pushq  %rax
#   andl  $127, %edx
#   movq  %rdx, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65590, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_14:
#   ud1l  6(%eax), %eax
# .LBB1_10:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65582(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_11
# .Ltmp5:
# .Lfunc_end1:

#=== outcome
# Exit(14), 591 cycles, native
