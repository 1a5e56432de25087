# version: 2
# isa: imc
# show: image program ir llvm asm outcome
/* Registers only: the simplest function there is. */
  .globl _start
_start:
  li a0, 40
  addi a1, a0, 2
  mul a0, a1, a1
  srli a0, a0, 1
  sub a0, a0, a1
  li a7, 93
  ecall

#=== image
# image version 2 isa imc
# entry 0x10000
# segment 0x10000..0x11000
# segment 0x0..0x0
# segment 0x0..0x0
# executable 0x10000..0x11000
# stores 0x11000..0x400000

#=== program
# program version 2 isa imc
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: addi a0,zero,40
#     0x10004: addi a1,a0,2
#     0x10008: mul a0,a1,a1
#     0x1000c: srli a0,a0,1
#     0x1000e: sub a0,a0,a1
#     0x10010: addi a7,zero,93
#     0x10014: ecall
#     -> exit

#=== ir
# module version 2 isa imc
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 510 metered:
#     v0 = const 0x0
#     v1 = const 0x28
#     v2 = const 0x2
#     v3 = const 0x2a
#     v4 = const 0x1
#     v5 = const 0x5d
#     v6 = mul v3, v3
#     v7 = lshr v6, v4
#     v8 = sub v7, v3
#     a0 = v8
#     a1 = v3
#     a7 = v5
#     exit at 0x10014

#=== llvm
# define internal x86_regcallcc { i64 } @guest_10000(ptr inreg %0, i64 inreg %1) #2 !dbg !5 {
# entry:
#   %left = alloca i64, align 8, !dbg !8
#   %deferred = alloca i64, align 8, !dbg !8
#   store i64 0, ptr %deferred, align 8, !dbg !8
#   %a0 = alloca i64, align 8, !dbg !8
#   %a1 = alloca i64, align 8, !dbg !8
#   %a7 = alloca i64, align 8, !dbg !8
#   %target = alloca i64, align 8, !dbg !8
#   %link = alloca i64, align 8, !dbg !8
#   store i64 %1, ptr %left, align 8, !dbg !8
#   br label %pc_10000, !dbg !8
#
# pc_10000:                                         ; preds = %entry
#   %left1 = load i64, ptr %left, align 8, !dbg !8
#   %left2 = sub i64 %left1, 510, !dbg !8
#   store i64 %left2, ptr %left, align 8, !dbg !8
#   %is_over = icmp slt i64 %left2, 0, !dbg !8
#   br i1 %is_over, label %over, label %on, !dbg !8, !prof !4
#
# over:                                             ; preds = %pc_10000
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65536($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left2) #4, !dbg !8
#   store i64 %granted, ptr %left, align 8, !dbg !8
#   br label %on, !dbg !8
#
# on:                                               ; preds = %over, %pc_10000
#   store i64 840, ptr %a0, align 8, !dbg !8
#   store i64 42, ptr %a1, align 8, !dbg !8
#   store i64 93, ptr %a7, align 8, !dbg !8
#   %a03 = load i64, ptr %a0, align 8, !dbg !8
#   %field = getelementptr i8, ptr %0, i64 4259920, !dbg !8
#   store i64 %a03, ptr %field, align 8, !dbg !8
#   %a74 = load i64, ptr %a7, align 8, !dbg !8
#   %field5 = getelementptr i8, ptr %0, i64 4259976, !dbg !8
#   store i64 %a74, ptr %field5, align 8, !dbg !8
#   %field6 = getelementptr i8, ptr %0, i64 4260096, !dbg !8
#   store i64 65556, ptr %field6, align 8, !dbg !8
#   %field7 = getelementptr i8, ptr %0, i64 4260120, !dbg !8
#   store i64 0, ptr %field7, align 8, !dbg !8
#   %left8 = load i64, ptr %left, align 8, !dbg !8
#   %field9 = getelementptr i8, ptr %0, i64 4260104, !dbg !8
#   store i64 %left8, ptr %field9, align 8, !dbg !8
#   call x86_regcallcc void @ecall(ptr inreg %0), !dbg !8
#   %field10 = getelementptr i8, ptr %0, i64 4260104, !dbg !8
#   %state = load i64, ptr %field10, align 8, !dbg !8
#   store i64 %state, ptr %left, align 8, !dbg !8
#   %field11 = getelementptr i8, ptr %0, i64 4259920, !dbg !8
#   %state12 = load i64, ptr %field11, align 8, !dbg !8
#   store i64 %state12, ptr %a0, align 8, !dbg !8
#   call void @llvm.ubsantrap(i8 4) #3, !dbg !8
#   unreachable, !dbg !8
# }

#=== asm
# enter_10000:
# .Lfunc_begin1:
#   movq  $-510, %rcx
# .Ltmp0:
#   addq  4260104(%rax), %rcx
#   js  .LBB1_1
# .LBB1_2:
#   pushq  %rax
#   movq  $840, 4259920(%rax)
#   movq  $93, 4259976(%rax)
#   movq  $65556, 4260096(%rax)
#   movq  $0, 4260120(%rax)
#   movq  %rcx, 4260104(%rax)
#   callq  ecall
#   ud1l  4(%eax), %eax
# .LBB1_1:
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65536(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB1_2
# .Ltmp1:
# .Lfunc_end1:

#=== outcome
# Exit(72), 510 cycles, native
