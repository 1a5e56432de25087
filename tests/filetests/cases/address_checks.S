# version: 2
# show: lifted ir llvm baseline outcome
/* Accesses around one base share one check over their whole span; stores also stay out of code. */
  .globl _start
_start:
  la a0, words
  ld a1, 0(a0)
  ld a2, 8(a0)
  add a1, a1, a2
  sd a1, 16(a0)
  lb a3, -1(a0)
  lhu a0, 16(a0)
  li a7, 93
  ecall
  .data
  .balign 16
  .dword 0
  .balign 16
words:
  .dword 30, 12, 0

#=== lifted
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed sp compared
# block0 at 0x10000 cycles 515:
#     v0 = const 0x11010
#     v1 = const 0x0
#     v2 = const 0x5d
#     check.read v0-1..+18
#     check.write v0+16..+24
#     v5 = load.du v0+0
#     v6 = load.du v0+8
#     v7 = add v5, v6
#     store.d v0+16, v7
#     v9 = load.b v0-1
#     v10 = load.hu v0+16
#     a0 = v10
#     a1 = v7
#     a2 = v6
#     a3 = v9
#     a7 = v2
#     exit at 0x1001c

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 515 metered:
#     v0 = const 0x11010
#     v1 = const 0x0
#     v2 = const 0x5d
#     check.read v0-1..+18
#     check.write v0+16..+24
#     v5 = load.du v0+0
#     v6 = load.du v0+8
#     v7 = add v5, v6
#     store.d v0+16, v7
#     v9 = load.b v0-1
#     v10 = load.hu v0+16
#     a0 = v10
#     a1 = v7
#     a2 = v6
#     a3 = v9
#     a7 = v2
#     exit at 0x1001c

#=== llvm
# define internal x86_regcallcc { i64 } @guest_10000(ptr inreg %0, i64 inreg %1) #2 !dbg !5 {
# entry:
#   %left = alloca i64, align 8, !dbg !8
#   %deferred = alloca i64, align 8, !dbg !8
#   store i64 0, ptr %deferred, align 8, !dbg !8
#   %a0 = alloca i64, align 8, !dbg !8
#   %a1 = alloca i64, align 8, !dbg !8
#   %a2 = alloca i64, align 8, !dbg !8
#   %a3 = alloca i64, align 8, !dbg !8
#   %a7 = alloca i64, align 8, !dbg !8
#   %target = alloca i64, align 8, !dbg !8
#   %link = alloca i64, align 8, !dbg !8
#   store i64 %1, ptr %left, align 8, !dbg !8
#   br label %pc_10000, !dbg !8
#
# pc_10000:                                         ; preds = %entry
#   %left1 = load i64, ptr %left, align 8, !dbg !8
#   %left2 = sub i64 %left1, 515, !dbg !8
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
#   br i1 false, label %leave, label %on3, !dbg !8, !prof !4
#
# leave:                                            ; preds = %on
#   call void @llvm.ubsantrap(i8 6) #3, !dbg !8
#   unreachable, !dbg !8
#
# on3:                                              ; preds = %on
#   br i1 false, label %leave4, label %on5, !dbg !8, !prof !4
#
# leave4:                                           ; preds = %on3
#   call void @llvm.ubsantrap(i8 6) #3, !dbg !8
#   unreachable, !dbg !8
#
# on5:                                              ; preds = %on3
#   %at_base = getelementptr i8, ptr %0, i64 69648, !dbg !8
#   %address = getelementptr i8, ptr %at_base, i64 0, !dbg !8
#   %loaded = load i64, ptr %address, align 1, !dbg !8
#   %at_base6 = getelementptr i8, ptr %0, i64 69648, !dbg !8
#   %address7 = getelementptr i8, ptr %at_base6, i64 8, !dbg !8
#   %loaded8 = load i64, ptr %address7, align 1, !dbg !8
#   %2 = add i64 %loaded, %loaded8, !dbg !8
#   %at_base9 = getelementptr i8, ptr %0, i64 69648, !dbg !8
#   %address10 = getelementptr i8, ptr %at_base9, i64 16, !dbg !8
#   store i64 %2, ptr %address10, align 1, !dbg !8
#   %at_base11 = getelementptr i8, ptr %0, i64 69648, !dbg !8
#   %address12 = getelementptr i8, ptr %at_base11, i64 -1, !dbg !8
#   %loaded13 = load i8, ptr %address12, align 1, !dbg !8
#   %3 = sext i8 %loaded13 to i64, !dbg !8
#   %at_base14 = getelementptr i8, ptr %0, i64 69648, !dbg !8
#   %address15 = getelementptr i8, ptr %at_base14, i64 16, !dbg !8
#   %loaded16 = load i16, ptr %address15, align 1, !dbg !8
#   %4 = zext i16 %loaded16 to i64, !dbg !8
#   store i64 %4, ptr %a0, align 8, !dbg !8
#   store i64 %2, ptr %a1, align 8, !dbg !8
#   store i64 %loaded8, ptr %a2, align 8, !dbg !8
#   store i64 %3, ptr %a3, align 8, !dbg !8
#   store i64 93, ptr %a7, align 8, !dbg !8
#   %a017 = load i64, ptr %a0, align 8, !dbg !8
#   %field = getelementptr i8, ptr %0, i64 4259920, !dbg !8
#   store i64 %a017, ptr %field, align 8, !dbg !8
#   %a718 = load i64, ptr %a7, align 8, !dbg !8
#   %field19 = getelementptr i8, ptr %0, i64 4259976, !dbg !8
#   store i64 %a718, ptr %field19, align 8, !dbg !8
#   %field20 = getelementptr i8, ptr %0, i64 4260096, !dbg !8
#   store i64 65564, ptr %field20, align 8, !dbg !8
#   %field21 = getelementptr i8, ptr %0, i64 4260120, !dbg !8
#   store i64 0, ptr %field21, align 8, !dbg !8
#   %left22 = load i64, ptr %left, align 8, !dbg !8
#   %field23 = getelementptr i8, ptr %0, i64 4260104, !dbg !8
#   store i64 %left22, ptr %field23, align 8, !dbg !8
#   call x86_regcallcc void @ecall(ptr inreg %0), !dbg !8
#   %field24 = getelementptr i8, ptr %0, i64 4260104, !dbg !8
#   %state = load i64, ptr %field24, align 8, !dbg !8
#   store i64 %state, ptr %left, align 8, !dbg !8
#   %field25 = getelementptr i8, ptr %0, i64 4259920, !dbg !8
#   %state26 = load i64, ptr %field25, align 8, !dbg !8
#   store i64 %state26, ptr %a0, align 8, !dbg !8
#   call void @llvm.ubsantrap(i8 4) #3, !dbg !8
#   unreachable, !dbg !8
# }

#=== baseline
# function at 0x10000:
#      0  nop [rax]
#      7  sub r11,203h
#      e  js 52
#     14  mov rax,[r10+11010h]
#     1b  mov r13,[r10+11018h]
#     22  lea r12,[rax+r13]
#     26  mov [r10+11020h],r12
#     2d  movsx r14,byte ptr [r10+1100Fh]
#     35  movzx ebx,word ptr [r10+11020h]
#     3d  mov r15d,5Dh
#     43  mov eax,1001Ch
#     48  call ecall
#     4d  ud1 eax,[eax+4]
#     52  call qword ptr [r10+411008h]
#     59  nop [r10+r11+10000h]
#     62  jmp 14

#=== outcome
# Exit(42), 515 cycles, native
