# version: 2
# show: llvm outcome
/* Functions that pass many registers: most are in the state wherever a function begins or ends. `s1` stays there in `middle`, which
   mentions it less often than it would be moved at calls and returns; `s2` counts a loop and is in hand. */
.macro each do, last
  .set index, 0
  .irp register, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, a2, a3, a4, a5, a6, a7, t3, t4, t5, t6
  \do \register
  .set index, index + 1
  .endr
.endm
.macro number register
  li \register, index
.endm
.macro save register
  sd \register, 8 * index(sp)
.endm
.macro load register
  ld \register, 8 * (20 - index)(sp)
.endm
.macro sum register
  add a0, a0, \register
.endm
  .globl _start
_start:
  each number
  call middle
  li a0, 0
  each sum
  li a7, 93
  ecall
middle:
  addi sp, sp, -16
  sd ra, 0(sp)
  addi s1, s1, 1
  call reverse
  call reverse
  ld ra, 0(sp)
  li s2, 4
again:
  addi s2, s2, -1
  bnez s2, again
  addi sp, sp, 16
  ret
reverse:
  addi sp, sp, -176
  each save
  each load
  addi sp, sp, 176
  ret

#=== llvm
# define internal x86_regcallcc { i64 } @guest_10000(ptr inreg %0, i64 inreg %1, i64 inreg %2) #2 !dbg !5 {
# entry:
#   %left = alloca i64, align 8, !dbg !8
#   %deferred = alloca i64, align 8, !dbg !8
#   store i64 0, ptr %deferred, align 8, !dbg !8
#   %ra = alloca i64, align 8, !dbg !8
#   %sp = alloca i64, align 8, !dbg !8
#   %field = getelementptr i8, ptr %0, i64 4259912, !dbg !8
#   %a0 = alloca i64, align 8, !dbg !8
#   %a2 = alloca i64, align 8, !dbg !8
#   %a3 = alloca i64, align 8, !dbg !8
#   %a4 = alloca i64, align 8, !dbg !8
#   %a5 = alloca i64, align 8, !dbg !8
#   %field1 = getelementptr i8, ptr %0, i64 4259968, !dbg !8
#   %field2 = getelementptr i8, ptr %0, i64 4259976, !dbg !8
#   %field3 = getelementptr i8, ptr %0, i64 4259984, !dbg !8
#   %field4 = getelementptr i8, ptr %0, i64 4259992, !dbg !8
#   %field5 = getelementptr i8, ptr %0, i64 4260000, !dbg !8
#   %field6 = getelementptr i8, ptr %0, i64 4260008, !dbg !8
#   %field7 = getelementptr i8, ptr %0, i64 4260016, !dbg !8
#   %field8 = getelementptr i8, ptr %0, i64 4260024, !dbg !8
#   %field9 = getelementptr i8, ptr %0, i64 4260032, !dbg !8
#   %field10 = getelementptr i8, ptr %0, i64 4260040, !dbg !8
#   %field11 = getelementptr i8, ptr %0, i64 4260048, !dbg !8
#   %field12 = getelementptr i8, ptr %0, i64 4260056, !dbg !8
#   %field13 = getelementptr i8, ptr %0, i64 4260064, !dbg !8
#   %field14 = getelementptr i8, ptr %0, i64 4260072, !dbg !8
#   %field15 = getelementptr i8, ptr %0, i64 4260080, !dbg !8
#   %field16 = getelementptr i8, ptr %0, i64 4260088, !dbg !8
#   %target = alloca i64, align 8, !dbg !8
#   %link = alloca i64, align 8, !dbg !8
#   store i64 %1, ptr %left, align 8, !dbg !8
#   store i64 %2, ptr %sp, align 8, !dbg !8
#   br label %pc_10000, !dbg !8
#
# pc_10000:                                         ; preds = %entry
#   %left17 = load i64, ptr %left, align 8, !dbg !8
#   %left18 = sub i64 %left17, 24, !dbg !8
#   store i64 %left18, ptr %left, align 8, !dbg !8
#   %is_over = icmp slt i64 %left18, 0, !dbg !8
#   br i1 %is_over, label %over, label %on, !dbg !8, !prof !4
#
# pc_1002e:                                         ; preds = %on
#   %left33 = load i64, ptr %left, align 8, !dbg !8
#   %left34 = sub i64 %left33, 523, !dbg !8
#   store i64 %left34, ptr %left, align 8, !dbg !8
#   %is_over35 = icmp slt i64 %left34, 0, !dbg !8
#   br i1 %is_over35, label %over36, label %on37, !dbg !8, !prof !4
#
# over:                                             ; preds = %pc_10000
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65536($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left18) #4, !dbg !8
#   store i64 %granted, ptr %left, align 8, !dbg !8
#   br label %on, !dbg !8
#
# on:                                               ; preds = %over, %pc_10000
#   store i64 65582, ptr %ra, align 8, !dbg !8
#   store i64 0, ptr %field, align 8, !dbg !8
#   store i64 11, ptr %a2, align 8, !dbg !8
#   store i64 12, ptr %a3, align 8, !dbg !8
#   store i64 13, ptr %a4, align 8, !dbg !8
#   store i64 14, ptr %a5, align 8, !dbg !8
#   store i64 15, ptr %field1, align 8, !dbg !8
#   store i64 16, ptr %field2, align 8, !dbg !8
#   store i64 1, ptr %field3, align 8, !dbg !8
#   store i64 2, ptr %field4, align 8, !dbg !8
#   store i64 3, ptr %field5, align 8, !dbg !8
#   store i64 4, ptr %field6, align 8, !dbg !8
#   store i64 5, ptr %field7, align 8, !dbg !8
#   store i64 6, ptr %field8, align 8, !dbg !8
#   store i64 7, ptr %field9, align 8, !dbg !8
#   store i64 8, ptr %field10, align 8, !dbg !8
#   store i64 9, ptr %field11, align 8, !dbg !8
#   store i64 10, ptr %field12, align 8, !dbg !8
#   store i64 17, ptr %field13, align 8, !dbg !8
#   store i64 18, ptr %field14, align 8, !dbg !8
#   store i64 19, ptr %field15, align 8, !dbg !8
#   store i64 20, ptr %field16, align 8, !dbg !8
#   %left19 = load i64, ptr %left, align 8, !dbg !9
#   %ra20 = load i64, ptr %ra, align 8, !dbg !9
#   %sp21 = load i64, ptr %sp, align 8, !dbg !9
#   %a222 = load i64, ptr %a2, align 8, !dbg !9
#   %a323 = load i64, ptr %a3, align 8, !dbg !9
#   %a424 = load i64, ptr %a4, align 8, !dbg !9
#   %a525 = load i64, ptr %a5, align 8, !dbg !9
#   %call = call x86_regcallcc { i64 } @guest_10062(ptr inreg %0, i64 inreg %left19, i64 inreg %ra20, i64 inreg %sp21, i64 inreg %a222, i64 inreg %a323, i64 inreg %a424, i64 inreg %a525), !dbg !9
#   %result = extractvalue { i64 } %call, 0, !dbg !9
#   store i64 %result, ptr %left, align 8, !dbg !9
#   %field26 = getelementptr i8, ptr %0, i64 4259936, !dbg !9
#   %state = load i64, ptr %field26, align 8, !dbg !9
#   store i64 %state, ptr %a2, align 8, !dbg !9
#   %field27 = getelementptr i8, ptr %0, i64 4259944, !dbg !9
#   %state28 = load i64, ptr %field27, align 8, !dbg !9
#   store i64 %state28, ptr %a3, align 8, !dbg !9
#   %field29 = getelementptr i8, ptr %0, i64 4259952, !dbg !9
#   %state30 = load i64, ptr %field29, align 8, !dbg !9
#   store i64 %state30, ptr %a4, align 8, !dbg !9
#   %field31 = getelementptr i8, ptr %0, i64 4259960, !dbg !9
#   %state32 = load i64, ptr %field31, align 8, !dbg !9
#   store i64 %state32, ptr %a5, align 8, !dbg !9
#   br label %pc_1002e, !dbg !9
#
# over36:                                           ; preds = %pc_1002e
#   %granted38 = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65582($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left34) #4, !dbg !8
#   store i64 %granted38, ptr %left, align 8, !dbg !8
#   br label %on37, !dbg !8
#
# on37:                                             ; preds = %over36, %pc_1002e
#   %s1 = load i64, ptr %field, align 8, !dbg !8
#   %s2 = load i64, ptr %field3, align 8, !dbg !8
#   %s3 = load i64, ptr %field4, align 8, !dbg !8
#   %s4 = load i64, ptr %field5, align 8, !dbg !8
#   %s5 = load i64, ptr %field6, align 8, !dbg !8
#   %s6 = load i64, ptr %field7, align 8, !dbg !8
#   %s7 = load i64, ptr %field8, align 8, !dbg !8
#   %s8 = load i64, ptr %field9, align 8, !dbg !8
#   %s9 = load i64, ptr %field10, align 8, !dbg !8
#   %s10 = load i64, ptr %field11, align 8, !dbg !8
#   %s11 = load i64, ptr %field12, align 8, !dbg !8
#   %a239 = load i64, ptr %a2, align 8, !dbg !8
#   %a340 = load i64, ptr %a3, align 8, !dbg !8
#   %a441 = load i64, ptr %a4, align 8, !dbg !8
#   %a542 = load i64, ptr %a5, align 8, !dbg !8
#   %a6 = load i64, ptr %field1, align 8, !dbg !8
#   %a7 = load i64, ptr %field2, align 8, !dbg !8
#   %t3 = load i64, ptr %field13, align 8, !dbg !8
#   %t4 = load i64, ptr %field14, align 8, !dbg !8
#   %t5 = load i64, ptr %field15, align 8, !dbg !8
#   %t6 = load i64, ptr %field16, align 8, !dbg !8
#   %3 = add i64 0, %s1, !dbg !8
#   %4 = add i64 %3, %s2, !dbg !8
#   %5 = add i64 %4, %s3, !dbg !8
#   %6 = add i64 %5, %s4, !dbg !8
#   %7 = add i64 %6, %s5, !dbg !8
#   %8 = add i64 %7, %s6, !dbg !8
#   %9 = add i64 %8, %s7, !dbg !8
#   %10 = add i64 %9, %s8, !dbg !8
#   %11 = add i64 %10, %s9, !dbg !8
#   %12 = add i64 %11, %s10, !dbg !8
#   %13 = add i64 %12, %s11, !dbg !8
#   %14 = add i64 %13, %a239, !dbg !8
#   %15 = add i64 %14, %a340, !dbg !8
#   %16 = add i64 %15, %a441, !dbg !8
#   %17 = add i64 %16, %a542, !dbg !8
#   %18 = add i64 %17, %a6, !dbg !8
#   %19 = add i64 %18, %a7, !dbg !8
#   %20 = add i64 %19, %t3, !dbg !8
#   %21 = add i64 %20, %t4, !dbg !8
#   %22 = add i64 %21, %t5, !dbg !8
#   %23 = add i64 %22, %t6, !dbg !8
#   store i64 %23, ptr %a0, align 8, !dbg !8
#   store i64 93, ptr %field2, align 8, !dbg !8
#   %a043 = load i64, ptr %a0, align 8, !dbg !10
#   %field44 = getelementptr i8, ptr %0, i64 4259920, !dbg !10
#   store i64 %a043, ptr %field44, align 8, !dbg !10
#   %field45 = getelementptr i8, ptr %0, i64 4260096, !dbg !10
#   store i64 65630, ptr %field45, align 8, !dbg !10
#   %field46 = getelementptr i8, ptr %0, i64 4260120, !dbg !10
#   store i64 0, ptr %field46, align 8, !dbg !10
#   %left47 = load i64, ptr %left, align 8, !dbg !10
#   %field48 = getelementptr i8, ptr %0, i64 4260104, !dbg !10
#   store i64 %left47, ptr %field48, align 8, !dbg !10
#   call x86_regcallcc void @ecall(ptr inreg %0), !dbg !10
#   %field49 = getelementptr i8, ptr %0, i64 4260104, !dbg !10
#   %state50 = load i64, ptr %field49, align 8, !dbg !10
#   store i64 %state50, ptr %left, align 8, !dbg !10
#   %field51 = getelementptr i8, ptr %0, i64 4259920, !dbg !10
#   %state52 = load i64, ptr %field51, align 8, !dbg !10
#   store i64 %state52, ptr %a0, align 8, !dbg !10
#   call void @llvm.ubsantrap(i8 4) #3, !dbg !10
#   unreachable, !dbg !10
# }
# define internal x86_regcallcc { i64 } @guest_10062(ptr inreg %0, i64 inreg %1, i64 inreg %2, i64 inreg %3, i64 inreg %4, i64 inreg %5, i64 inreg %6, i64 inreg %7) #2 !dbg !11 {
# entry:
#   %left = alloca i64, align 8, !dbg !12
#   %deferred = alloca i64, align 8, !dbg !12
#   store i64 0, ptr %deferred, align 8, !dbg !12
#   %ra = alloca i64, align 8, !dbg !12
#   %sp = alloca i64, align 8, !dbg !12
#   %field = getelementptr i8, ptr %0, i64 4259912, !dbg !12
#   %a2 = alloca i64, align 8, !dbg !12
#   %a3 = alloca i64, align 8, !dbg !12
#   %a4 = alloca i64, align 8, !dbg !12
#   %a5 = alloca i64, align 8, !dbg !12
#   %s2 = alloca i64, align 8, !dbg !12
#   %target = alloca i64, align 8, !dbg !12
#   %link = alloca i64, align 8, !dbg !12
#   store i64 %1, ptr %left, align 8, !dbg !12
#   store i64 %2, ptr %ra, align 8, !dbg !12
#   store i64 %3, ptr %sp, align 8, !dbg !12
#   store i64 %4, ptr %a2, align 8, !dbg !12
#   store i64 %5, ptr %a3, align 8, !dbg !12
#   store i64 %6, ptr %a4, align 8, !dbg !12
#   store i64 %7, ptr %a5, align 8, !dbg !12
#   %field3 = getelementptr i8, ptr %0, i64 4259984, !dbg !12
#   %state = load i64, ptr %field3, align 8, !dbg !12
#   store i64 %state, ptr %s2, align 8, !dbg !12
#   %sp4 = load i64, ptr %sp, align 8, !dbg !12
#   %distance = add i64 %sp4, -69648, !dbg !12
#   %is_bad = icmp ugt i64 %distance, 4124656, !dbg !12
#   br i1 %is_bad, label %leave, label %on, !dbg !12, !prof !4
#
# pc_10062:                                         ; preds = %on
#   %left5 = load i64, ptr %left, align 8, !dbg !12
#   %left6 = sub i64 %left5, 7, !dbg !12
#   store i64 %left6, ptr %left, align 8, !dbg !12
#   %sp7 = load i64, ptr %sp, align 8, !dbg !12
#   %ra8 = load i64, ptr %ra, align 8, !dbg !12
#   %s1 = load i64, ptr %field, align 8, !dbg !12
#   %8 = add i64 %sp7, -16, !dbg !12
#   %at_base = getelementptr i8, ptr %0, i64 %sp7, !dbg !12
#   %address = getelementptr i8, ptr %at_base, i64 -16, !dbg !12
#   store i64 %ra8, ptr %address, align 1, !dbg !12
#   %9 = add i64 %s1, 1, !dbg !12
#   store i64 65644, ptr %ra, align 8, !dbg !12
#   store i64 %8, ptr %sp, align 8, !dbg !12
#   store i64 %9, ptr %field, align 8, !dbg !12
#   %left9 = load i64, ptr %left, align 8, !dbg !13
#   %sp10 = load i64, ptr %sp, align 8, !dbg !13
#   %a211 = load i64, ptr %a2, align 8, !dbg !13
#   %a312 = load i64, ptr %a3, align 8, !dbg !13
#   %a413 = load i64, ptr %a4, align 8, !dbg !13
#   %a514 = load i64, ptr %a5, align 8, !dbg !13
#   %call = call x86_regcallcc { i64 } @guest_1007e(ptr inreg %0, i64 inreg %left9, i64 inreg %sp10, i64 inreg %a211, i64 inreg %a312, i64 inreg %a413, i64 inreg %a514), !dbg !13
#   %result = extractvalue { i64 } %call, 0, !dbg !13
#   store i64 %result, ptr %left, align 8, !dbg !13
#   %field15 = getelementptr i8, ptr %0, i64 4259936, !dbg !13
#   %state16 = load i64, ptr %field15, align 8, !dbg !13
#   store i64 %state16, ptr %a2, align 8, !dbg !13
#   %field17 = getelementptr i8, ptr %0, i64 4259944, !dbg !13
#   %state18 = load i64, ptr %field17, align 8, !dbg !13
#   store i64 %state18, ptr %a3, align 8, !dbg !13
#   %field19 = getelementptr i8, ptr %0, i64 4259952, !dbg !13
#   %state20 = load i64, ptr %field19, align 8, !dbg !13
#   store i64 %state20, ptr %a4, align 8, !dbg !13
#   %field21 = getelementptr i8, ptr %0, i64 4259960, !dbg !13
#   %state22 = load i64, ptr %field21, align 8, !dbg !13
#   store i64 %state22, ptr %a5, align 8, !dbg !13
#   %field23 = getelementptr i8, ptr %0, i64 4259984, !dbg !13
#   %state24 = load i64, ptr %field23, align 8, !dbg !13
#   store i64 %state24, ptr %s2, align 8, !dbg !13
#   br label %pc_1006c, !dbg !13
#
# pc_1006c:                                         ; preds = %pc_10062
#   %left25 = load i64, ptr %left, align 8, !dbg !12
#   %left26 = sub i64 %left25, 3, !dbg !12
#   store i64 %left26, ptr %left, align 8, !dbg !12
#   store i64 65648, ptr %ra, align 8, !dbg !12
#   %left27 = load i64, ptr %left, align 8, !dbg !14
#   %sp28 = load i64, ptr %sp, align 8, !dbg !14
#   %a229 = load i64, ptr %a2, align 8, !dbg !14
#   %a330 = load i64, ptr %a3, align 8, !dbg !14
#   %a431 = load i64, ptr %a4, align 8, !dbg !14
#   %a532 = load i64, ptr %a5, align 8, !dbg !14
#   %call33 = call x86_regcallcc { i64 } @guest_1007e(ptr inreg %0, i64 inreg %left27, i64 inreg %sp28, i64 inreg %a229, i64 inreg %a330, i64 inreg %a431, i64 inreg %a532), !dbg !14
#   %result34 = extractvalue { i64 } %call33, 0, !dbg !14
#   store i64 %result34, ptr %left, align 8, !dbg !14
#   %field35 = getelementptr i8, ptr %0, i64 4259936, !dbg !14
#   %state36 = load i64, ptr %field35, align 8, !dbg !14
#   store i64 %state36, ptr %a2, align 8, !dbg !14
#   %field37 = getelementptr i8, ptr %0, i64 4259944, !dbg !14
#   %state38 = load i64, ptr %field37, align 8, !dbg !14
#   store i64 %state38, ptr %a3, align 8, !dbg !14
#   %field39 = getelementptr i8, ptr %0, i64 4259952, !dbg !14
#   %state40 = load i64, ptr %field39, align 8, !dbg !14
#   store i64 %state40, ptr %a4, align 8, !dbg !14
#   %field41 = getelementptr i8, ptr %0, i64 4259960, !dbg !14
#   %state42 = load i64, ptr %field41, align 8, !dbg !14
#   store i64 %state42, ptr %a5, align 8, !dbg !14
#   %field43 = getelementptr i8, ptr %0, i64 4259984, !dbg !14
#   %state44 = load i64, ptr %field43, align 8, !dbg !14
#   store i64 %state44, ptr %s2, align 8, !dbg !14
#   br label %pc_10070, !dbg !14
#
# pc_10070:                                         ; preds = %pc_1006c
#   %left45 = load i64, ptr %left, align 8, !dbg !12
#   %left46 = sub i64 %left45, 0, !dbg !12
#   store i64 %left46, ptr %left, align 8, !dbg !12
#   %sp47 = load i64, ptr %sp, align 8, !dbg !12
#   %at_base48 = getelementptr i8, ptr %0, i64 %sp47, !dbg !12
#   %address49 = getelementptr i8, ptr %at_base48, i64 0, !dbg !12
#   %loaded = load i64, ptr %address49, align 1, !dbg !12
#   store i64 %loaded, ptr %ra, align 8, !dbg !12
#   store i64 4, ptr %s2, align 8, !dbg !12
#   br label %pc_10074, !dbg !15
#
# pc_10074:                                         ; preds = %pc_10070
#   %left50 = load i64, ptr %left, align 8, !dbg !12
#   %left51 = sub i64 %left50, 3, !dbg !12
#   store i64 %left51, ptr %left, align 8, !dbg !12
#   %s252 = load i64, ptr %s2, align 8, !dbg !12
#   %10 = add i64 %s252, -1, !dbg !12
#   %11 = sub i64 %10, 0, !dbg !12
#   %12 = icmp ult i64 %11, 1048576, !dbg !12
#   %13 = zext i1 %12 to i64, !dbg !12
#   %14 = and i64 1, %13, !dbg !12
#   %left53 = load i64, ptr %left, align 8, !dbg !12
#   %15 = icmp sge i64 %left53, -4194304, !dbg !12
#   %16 = zext i1 %15 to i64, !dbg !12
#   %17 = and i64 %14, %16, !dbg !12
#   %is_taken = icmp ne i64 %17, 0, !dbg !16
#   br i1 %is_taken, label %pc_100742, label %pc_100741, !dbg !16
#
# pc_1007a:                                         ; preds = %pc_100742, %on68
#   %left54 = load i64, ptr %left, align 8, !dbg !12
#   %left55 = sub i64 %left54, 4, !dbg !12
#   store i64 %left55, ptr %left, align 8, !dbg !12
#   %is_over = icmp slt i64 %left55, 0, !dbg !12
#   br i1 %is_over, label %over, label %on56, !dbg !12, !prof !4
#
# pc_100741:                                        ; preds = %on68, %pc_10074
#   %left64 = load i64, ptr %left, align 8, !dbg !12
#   %left65 = sub i64 %left64, 4, !dbg !12
#   store i64 %left65, ptr %left, align 8, !dbg !12
#   %is_over66 = icmp slt i64 %left65, 0, !dbg !12
#   br i1 %is_over66, label %over67, label %on68, !dbg !12, !prof !4
#
# pc_100742:                                        ; preds = %pc_100742, %pc_10074
#   %left72 = load i64, ptr %left, align 8, !dbg !12
#   %left73 = sub i64 %left72, 4, !dbg !12
#   store i64 %left73, ptr %left, align 8, !dbg !12
#   %s274 = load i64, ptr %s2, align 8, !dbg !12
#   %18 = add i64 %s274, -1, !dbg !12
#   %19 = icmp ne i64 %18, 0, !dbg !12
#   %20 = zext i1 %19 to i64, !dbg !12
#   store i64 %18, ptr %s2, align 8, !dbg !12
#   %is_taken75 = icmp ne i64 %18, 0, !dbg !16
#   br i1 %is_taken75, label %pc_100742, label %pc_1007a, !dbg !16
#
# leave:                                            ; preds = %entry
#   call void @llvm.ubsantrap(i8 6) #3, !dbg !12
#   unreachable, !dbg !12
#
# on:                                               ; preds = %entry
#   br label %pc_10062, !dbg !12
#
# over:                                             ; preds = %pc_1007a
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65658($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left55) #4, !dbg !12
#   store i64 %granted, ptr %left, align 8, !dbg !12
#   br label %on56, !dbg !12
#
# on56:                                             ; preds = %over, %pc_1007a
#   %sp57 = load i64, ptr %sp, align 8, !dbg !12
#   %ra58 = load i64, ptr %ra, align 8, !dbg !12
#   %21 = add i64 %sp57, 16, !dbg !12
#   store i64 %21, ptr %sp, align 8, !dbg !12
#   %differs = icmp ne i64 %ra58, %2, !dbg !17
#   br i1 %differs, label %leave59, label %on60, !dbg !17, !prof !4
#
# leave59:                                          ; preds = %on56
#   call void @llvm.ubsantrap(i8 3) #3, !dbg !17
#   unreachable, !dbg !17
#
# on60:                                             ; preds = %on56
#   %s261 = load i64, ptr %s2, align 8, !dbg !17
#   %field62 = getelementptr i8, ptr %0, i64 4259984, !dbg !17
#   store i64 %s261, ptr %field62, align 8, !dbg !17
#   %left63 = load i64, ptr %left, align 8, !dbg !17
#   %mrv = insertvalue { i64 } poison, i64 %left63, 0, !dbg !17
#   ret { i64 } %mrv, !dbg !17
#
# over67:                                           ; preds = %pc_100741
#   %granted69 = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65652($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left65) #4, !dbg !12
#   store i64 %granted69, ptr %left, align 8, !dbg !12
#   br label %on68, !dbg !12
#
# on68:                                             ; preds = %over67, %pc_100741
#   %s270 = load i64, ptr %s2, align 8, !dbg !12
#   %22 = add i64 %s270, -1, !dbg !12
#   %23 = icmp ne i64 %22, 0, !dbg !12
#   %24 = zext i1 %23 to i64, !dbg !12
#   store i64 %22, ptr %s2, align 8, !dbg !12
#   %is_taken71 = icmp ne i64 %22, 0, !dbg !16
#   br i1 %is_taken71, label %pc_100741, label %pc_1007a, !dbg !16
# }
# define internal x86_regcallcc { i64 } @guest_1007e(ptr inreg %0, i64 inreg %1, i64 inreg %2, i64 inreg %3, i64 inreg %4, i64 inreg %5, i64 inreg %6) #2 !dbg !18 {
# entry:
#   %left = alloca i64, align 8, !dbg !19
#   %deferred = alloca i64, align 8, !dbg !19
#   store i64 0, ptr %deferred, align 8, !dbg !19
#   %sp = alloca i64, align 8, !dbg !19
#   %field = getelementptr i8, ptr %0, i64 4259912, !dbg !19
#   %a2 = alloca i64, align 8, !dbg !19
#   %a3 = alloca i64, align 8, !dbg !19
#   %a4 = alloca i64, align 8, !dbg !19
#   %a5 = alloca i64, align 8, !dbg !19
#   %field1 = getelementptr i8, ptr %0, i64 4259968, !dbg !19
#   %field2 = getelementptr i8, ptr %0, i64 4259976, !dbg !19
#   %field3 = getelementptr i8, ptr %0, i64 4259984, !dbg !19
#   %field4 = getelementptr i8, ptr %0, i64 4259992, !dbg !19
#   %field5 = getelementptr i8, ptr %0, i64 4260000, !dbg !19
#   %field6 = getelementptr i8, ptr %0, i64 4260008, !dbg !19
#   %field7 = getelementptr i8, ptr %0, i64 4260016, !dbg !19
#   %field8 = getelementptr i8, ptr %0, i64 4260024, !dbg !19
#   %field9 = getelementptr i8, ptr %0, i64 4260032, !dbg !19
#   %field10 = getelementptr i8, ptr %0, i64 4260040, !dbg !19
#   %field11 = getelementptr i8, ptr %0, i64 4260048, !dbg !19
#   %field12 = getelementptr i8, ptr %0, i64 4260056, !dbg !19
#   %field13 = getelementptr i8, ptr %0, i64 4260064, !dbg !19
#   %field14 = getelementptr i8, ptr %0, i64 4260072, !dbg !19
#   %field15 = getelementptr i8, ptr %0, i64 4260080, !dbg !19
#   %field16 = getelementptr i8, ptr %0, i64 4260088, !dbg !19
#   %target = alloca i64, align 8, !dbg !19
#   %link = alloca i64, align 8, !dbg !19
#   store i64 %1, ptr %left, align 8, !dbg !19
#   store i64 %2, ptr %sp, align 8, !dbg !19
#   store i64 %3, ptr %a2, align 8, !dbg !19
#   store i64 %4, ptr %a3, align 8, !dbg !19
#   store i64 %5, ptr %a4, align 8, !dbg !19
#   store i64 %6, ptr %a5, align 8, !dbg !19
#   %sp17 = load i64, ptr %sp, align 8, !dbg !19
#   %distance = add i64 %sp17, -69808, !dbg !19
#   %is_bad = icmp ugt i64 %distance, 4124496, !dbg !19
#   br i1 %is_bad, label %leave, label %on, !dbg !19, !prof !4
#
# pc_1007e:                                         ; preds = %on
#   %left18 = load i64, ptr %left, align 8, !dbg !19
#   %left19 = sub i64 %left18, 89, !dbg !19
#   store i64 %left19, ptr %left, align 8, !dbg !19
#   %is_over = icmp slt i64 %left19, 0, !dbg !19
#   br i1 %is_over, label %over, label %on20, !dbg !19, !prof !4
#
# leave:                                            ; preds = %entry
#   call void @llvm.ubsantrap(i8 6) #3, !dbg !19
#   unreachable, !dbg !19
#
# on:                                               ; preds = %entry
#   br label %pc_1007e, !dbg !19
#
# over:                                             ; preds = %pc_1007e
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65662($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left19) #4, !dbg !19
#   store i64 %granted, ptr %left, align 8, !dbg !19
#   br label %on20, !dbg !19
#
# on20:                                             ; preds = %over, %pc_1007e
#   %sp21 = load i64, ptr %sp, align 8, !dbg !19
#   %s1 = load i64, ptr %field, align 8, !dbg !19
#   %s2 = load i64, ptr %field3, align 8, !dbg !19
#   %s3 = load i64, ptr %field4, align 8, !dbg !19
#   %s4 = load i64, ptr %field5, align 8, !dbg !19
#   %s5 = load i64, ptr %field6, align 8, !dbg !19
#   %s6 = load i64, ptr %field7, align 8, !dbg !19
#   %s7 = load i64, ptr %field8, align 8, !dbg !19
#   %s8 = load i64, ptr %field9, align 8, !dbg !19
#   %s9 = load i64, ptr %field10, align 8, !dbg !19
#   %s10 = load i64, ptr %field11, align 8, !dbg !19
#   %s11 = load i64, ptr %field12, align 8, !dbg !19
#   %a222 = load i64, ptr %a2, align 8, !dbg !19
#   %a323 = load i64, ptr %a3, align 8, !dbg !19
#   %a424 = load i64, ptr %a4, align 8, !dbg !19
#   %a525 = load i64, ptr %a5, align 8, !dbg !19
#   %a6 = load i64, ptr %field1, align 8, !dbg !19
#   %a7 = load i64, ptr %field2, align 8, !dbg !19
#   %t3 = load i64, ptr %field13, align 8, !dbg !19
#   %t4 = load i64, ptr %field14, align 8, !dbg !19
#   %t5 = load i64, ptr %field15, align 8, !dbg !19
#   %t6 = load i64, ptr %field16, align 8, !dbg !19
#   %7 = add i64 %sp21, -176, !dbg !19
#   %at_base = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address = getelementptr i8, ptr %at_base, i64 -176, !dbg !19
#   store i64 %s1, ptr %address, align 1, !dbg !19
#   %at_base26 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address27 = getelementptr i8, ptr %at_base26, i64 -168, !dbg !19
#   store i64 %s2, ptr %address27, align 1, !dbg !19
#   %at_base28 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address29 = getelementptr i8, ptr %at_base28, i64 -160, !dbg !19
#   store i64 %s3, ptr %address29, align 1, !dbg !19
#   %at_base30 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address31 = getelementptr i8, ptr %at_base30, i64 -152, !dbg !19
#   store i64 %s4, ptr %address31, align 1, !dbg !19
#   %at_base32 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address33 = getelementptr i8, ptr %at_base32, i64 -144, !dbg !19
#   store i64 %s5, ptr %address33, align 1, !dbg !19
#   %at_base34 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address35 = getelementptr i8, ptr %at_base34, i64 -136, !dbg !19
#   store i64 %s6, ptr %address35, align 1, !dbg !19
#   %at_base36 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address37 = getelementptr i8, ptr %at_base36, i64 -128, !dbg !19
#   store i64 %s7, ptr %address37, align 1, !dbg !19
#   %at_base38 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address39 = getelementptr i8, ptr %at_base38, i64 -120, !dbg !19
#   store i64 %s8, ptr %address39, align 1, !dbg !19
#   %at_base40 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address41 = getelementptr i8, ptr %at_base40, i64 -112, !dbg !19
#   store i64 %s9, ptr %address41, align 1, !dbg !19
#   %at_base42 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address43 = getelementptr i8, ptr %at_base42, i64 -104, !dbg !19
#   store i64 %s10, ptr %address43, align 1, !dbg !19
#   %at_base44 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address45 = getelementptr i8, ptr %at_base44, i64 -96, !dbg !19
#   store i64 %s11, ptr %address45, align 1, !dbg !19
#   %at_base46 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address47 = getelementptr i8, ptr %at_base46, i64 -88, !dbg !19
#   store i64 %a222, ptr %address47, align 1, !dbg !19
#   %at_base48 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address49 = getelementptr i8, ptr %at_base48, i64 -80, !dbg !19
#   store i64 %a323, ptr %address49, align 1, !dbg !19
#   %at_base50 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address51 = getelementptr i8, ptr %at_base50, i64 -72, !dbg !19
#   store i64 %a424, ptr %address51, align 1, !dbg !19
#   %at_base52 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address53 = getelementptr i8, ptr %at_base52, i64 -64, !dbg !19
#   store i64 %a525, ptr %address53, align 1, !dbg !19
#   %at_base54 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address55 = getelementptr i8, ptr %at_base54, i64 -56, !dbg !19
#   store i64 %a6, ptr %address55, align 1, !dbg !19
#   %at_base56 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address57 = getelementptr i8, ptr %at_base56, i64 -48, !dbg !19
#   store i64 %a7, ptr %address57, align 1, !dbg !19
#   %at_base58 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address59 = getelementptr i8, ptr %at_base58, i64 -40, !dbg !19
#   store i64 %t3, ptr %address59, align 1, !dbg !19
#   %at_base60 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address61 = getelementptr i8, ptr %at_base60, i64 -32, !dbg !19
#   store i64 %t4, ptr %address61, align 1, !dbg !19
#   %at_base62 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address63 = getelementptr i8, ptr %at_base62, i64 -24, !dbg !19
#   store i64 %t5, ptr %address63, align 1, !dbg !19
#   %at_base64 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address65 = getelementptr i8, ptr %at_base64, i64 -16, !dbg !19
#   store i64 %t6, ptr %address65, align 1, !dbg !19
#   %at_base66 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address67 = getelementptr i8, ptr %at_base66, i64 -16, !dbg !19
#   %loaded = load i64, ptr %address67, align 1, !dbg !19
#   %at_base68 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address69 = getelementptr i8, ptr %at_base68, i64 -24, !dbg !19
#   %loaded70 = load i64, ptr %address69, align 1, !dbg !19
#   %at_base71 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address72 = getelementptr i8, ptr %at_base71, i64 -32, !dbg !19
#   %loaded73 = load i64, ptr %address72, align 1, !dbg !19
#   %at_base74 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address75 = getelementptr i8, ptr %at_base74, i64 -40, !dbg !19
#   %loaded76 = load i64, ptr %address75, align 1, !dbg !19
#   %at_base77 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address78 = getelementptr i8, ptr %at_base77, i64 -48, !dbg !19
#   %loaded79 = load i64, ptr %address78, align 1, !dbg !19
#   %at_base80 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address81 = getelementptr i8, ptr %at_base80, i64 -56, !dbg !19
#   %loaded82 = load i64, ptr %address81, align 1, !dbg !19
#   %at_base83 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address84 = getelementptr i8, ptr %at_base83, i64 -64, !dbg !19
#   %loaded85 = load i64, ptr %address84, align 1, !dbg !19
#   %at_base86 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address87 = getelementptr i8, ptr %at_base86, i64 -72, !dbg !19
#   %loaded88 = load i64, ptr %address87, align 1, !dbg !19
#   %at_base89 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address90 = getelementptr i8, ptr %at_base89, i64 -80, !dbg !19
#   %loaded91 = load i64, ptr %address90, align 1, !dbg !19
#   %at_base92 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address93 = getelementptr i8, ptr %at_base92, i64 -88, !dbg !19
#   %loaded94 = load i64, ptr %address93, align 1, !dbg !19
#   %at_base95 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address96 = getelementptr i8, ptr %at_base95, i64 -96, !dbg !19
#   %loaded97 = load i64, ptr %address96, align 1, !dbg !19
#   %at_base98 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address99 = getelementptr i8, ptr %at_base98, i64 -104, !dbg !19
#   %loaded100 = load i64, ptr %address99, align 1, !dbg !19
#   %at_base101 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address102 = getelementptr i8, ptr %at_base101, i64 -112, !dbg !19
#   %loaded103 = load i64, ptr %address102, align 1, !dbg !19
#   %at_base104 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address105 = getelementptr i8, ptr %at_base104, i64 -120, !dbg !19
#   %loaded106 = load i64, ptr %address105, align 1, !dbg !19
#   %at_base107 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address108 = getelementptr i8, ptr %at_base107, i64 -128, !dbg !19
#   %loaded109 = load i64, ptr %address108, align 1, !dbg !19
#   %at_base110 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address111 = getelementptr i8, ptr %at_base110, i64 -136, !dbg !19
#   %loaded112 = load i64, ptr %address111, align 1, !dbg !19
#   %at_base113 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address114 = getelementptr i8, ptr %at_base113, i64 -144, !dbg !19
#   %loaded115 = load i64, ptr %address114, align 1, !dbg !19
#   %at_base116 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address117 = getelementptr i8, ptr %at_base116, i64 -152, !dbg !19
#   %loaded118 = load i64, ptr %address117, align 1, !dbg !19
#   %at_base119 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address120 = getelementptr i8, ptr %at_base119, i64 -160, !dbg !19
#   %loaded121 = load i64, ptr %address120, align 1, !dbg !19
#   %at_base122 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address123 = getelementptr i8, ptr %at_base122, i64 -168, !dbg !19
#   %loaded124 = load i64, ptr %address123, align 1, !dbg !19
#   %at_base125 = getelementptr i8, ptr %0, i64 %sp21, !dbg !19
#   %address126 = getelementptr i8, ptr %at_base125, i64 -176, !dbg !19
#   %loaded127 = load i64, ptr %address126, align 1, !dbg !19
#   %8 = add i64 %7, 176, !dbg !19
#   store i64 %8, ptr %sp, align 8, !dbg !19
#   store i64 %loaded, ptr %field, align 8, !dbg !19
#   store i64 %loaded100, ptr %a2, align 8, !dbg !19
#   store i64 %loaded103, ptr %a3, align 8, !dbg !19
#   store i64 %loaded106, ptr %a4, align 8, !dbg !19
#   store i64 %loaded109, ptr %a5, align 8, !dbg !19
#   store i64 %loaded112, ptr %field1, align 8, !dbg !19
#   store i64 %loaded115, ptr %field2, align 8, !dbg !19
#   store i64 %loaded70, ptr %field3, align 8, !dbg !19
#   store i64 %loaded73, ptr %field4, align 8, !dbg !19
#   store i64 %loaded76, ptr %field5, align 8, !dbg !19
#   store i64 %loaded79, ptr %field6, align 8, !dbg !19
#   store i64 %loaded82, ptr %field7, align 8, !dbg !19
#   store i64 %loaded85, ptr %field8, align 8, !dbg !19
#   store i64 %loaded88, ptr %field9, align 8, !dbg !19
#   store i64 %loaded91, ptr %field10, align 8, !dbg !19
#   store i64 %loaded94, ptr %field11, align 8, !dbg !19
#   store i64 %loaded97, ptr %field12, align 8, !dbg !19
#   store i64 %loaded118, ptr %field13, align 8, !dbg !19
#   store i64 %loaded121, ptr %field14, align 8, !dbg !19
#   store i64 %loaded124, ptr %field15, align 8, !dbg !19
#   store i64 %loaded127, ptr %field16, align 8, !dbg !19
#   %a2128 = load i64, ptr %a2, align 8, !dbg !19
#   %field129 = getelementptr i8, ptr %0, i64 4259936, !dbg !19
#   store i64 %a2128, ptr %field129, align 8, !dbg !19
#   %a3130 = load i64, ptr %a3, align 8, !dbg !19
#   %field131 = getelementptr i8, ptr %0, i64 4259944, !dbg !19
#   store i64 %a3130, ptr %field131, align 8, !dbg !19
#   %a4132 = load i64, ptr %a4, align 8, !dbg !19
#   %field133 = getelementptr i8, ptr %0, i64 4259952, !dbg !19
#   store i64 %a4132, ptr %field133, align 8, !dbg !19
#   %a5134 = load i64, ptr %a5, align 8, !dbg !19
#   %field135 = getelementptr i8, ptr %0, i64 4259960, !dbg !19
#   store i64 %a5134, ptr %field135, align 8, !dbg !19
#   %left136 = load i64, ptr %left, align 8, !dbg !19
#   %mrv = insertvalue { i64 } poison, i64 %left136, 0, !dbg !19
#   ret { i64 } %mrv, !dbg !19
# }

#=== outcome
# Exit(-46), 758 cycles, native
