# version: 2
# show: optimised outcome
/* A counted loop over words, without checks and meter, runs on vectors: the sums are of eight words at once, and the
   cycles of all passes are one product. */
  .globl _start
_start:
  lui s0, 0x20
  lui s1, 0x21
  mv a0, s0
  mv a1, s1
  jal sum
  mv a0, s0
  mv a1, s1
  jal sum
  lw a0, 8(s1)
  li a7, 93
  ecall
sum:
  addi a2, a1, 256
1:
  lw a3, 0(a0)
  lw a4, 0(a1)
  addw a3, a3, a4
  addiw a3, a3, 3
  sw a3, 0(a1)
  addi a0, a0, 4
  addi a1, a1, 4
  bne a1, a2, 1b
  ret

#=== optimised
# define internal x86_regcallcc { i64 } @guest_10022(ptr inreg %0, i64 inreg %1, i64 inreg %2, i64 inreg %3) #2 !dbg !4 {
# entry:
#   %left4 = add i64 %1, -1, !dbg !7
#   %4 = add i64 %3, 256, !dbg !7
#   %5 = add i64 %3, 4, !dbg !7
#   %6 = icmp ult i64 %5, 1073741824, !dbg !7
#   %7 = add i64 %1, 4194303, !dbg !7
#   %8 = icmp sgt i64 %7, 1023, !dbg !7
#   %9 = and i1 %6, %8, !dbg !7
#   %10 = icmp ult i64 %2, 4194049, !dbg !7
#   %11 = and i1 %9, %10, !dbg !7
#   %12 = add i64 %3, -69632, !dbg !7
#   %13 = icmp ult i64 %12, 4124417, !dbg !7
#   %14 = and i1 %11, %13, !dbg !7
#   br i1 %14, label %vector.memcheck, label %pc_100261, !dbg !8
#
# vector.memcheck:                                  ; preds = %entry
#   %scevgep = getelementptr i8, ptr %0, i64 %3, !dbg !8
#   %scevgep71 = getelementptr i8, ptr %0, i64 %4, !dbg !8
#   %scevgep72 = getelementptr i8, ptr %0, i64 %2, !dbg !8
#   %15 = getelementptr i8, ptr %0, i64 %2, !dbg !8
#   %scevgep73 = getelementptr i8, ptr %15, i64 256, !dbg !8
#   %bound0 = icmp ult ptr %scevgep, %scevgep73, !dbg !8
#   %bound1 = icmp ult ptr %scevgep72, %scevgep71, !dbg !8
#   %found.conflict = and i1 %bound0, %bound1, !dbg !8
#   br i1 %found.conflict, label %pc_100262, label %vector.ph
#
# vector.ph:                                        ; preds = %vector.memcheck
#   %16 = insertelement <4 x i64> <i64 poison, i64 0, i64 0, i64 0>, i64 %left4, i64 0
#   br label %vector.body
#
# vector.body:                                      ; preds = %vector.body, %vector.ph
#   %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
#   %vec.phi = phi <4 x i64> [ %16, %vector.ph ], [ %18, %vector.body ]
#   %vec.phi74 = phi <4 x i64> [ zeroinitializer, %vector.ph ], [ %19, %vector.body ]
#   %vec.phi75 = phi <4 x i64> [ zeroinitializer, %vector.ph ], [ %20, %vector.body ]
#   %vec.phi76 = phi <4 x i64> [ zeroinitializer, %vector.ph ], [ %21, %vector.body ]
#   %17 = shl i64 %index, 2
#   %18 = add <4 x i64> %vec.phi, splat (i64 -16), !dbg !7
#   %19 = add <4 x i64> %vec.phi74, splat (i64 -16), !dbg !7
#   %20 = add <4 x i64> %vec.phi75, splat (i64 -16), !dbg !7
#   %21 = add <4 x i64> %vec.phi76, splat (i64 -16), !dbg !7
#   %22 = getelementptr i8, ptr %0, i64 %2, !dbg !7
#   %23 = getelementptr i8, ptr %22, i64 %17, !dbg !7
#   %24 = getelementptr nusw nuw i8, ptr %23, i64 16, !dbg !7
#   %25 = getelementptr nusw nuw i8, ptr %23, i64 32, !dbg !7
#   %26 = getelementptr nusw nuw i8, ptr %23, i64 48, !dbg !7
#   %wide.load = load <4 x i32>, ptr %23, align 1, !dbg !7, !alias.scope !9
#   %wide.load78 = load <4 x i32>, ptr %24, align 1, !dbg !7, !alias.scope !9
#   %wide.load79 = load <4 x i32>, ptr %25, align 1, !dbg !7, !alias.scope !9
#   %wide.load80 = load <4 x i32>, ptr %26, align 1, !dbg !7, !alias.scope !9
#   %27 = getelementptr i8, ptr %0, i64 %3, !dbg !7
#   %28 = getelementptr i8, ptr %27, i64 %17, !dbg !7
#   %29 = getelementptr nusw nuw i8, ptr %28, i64 16, !dbg !7
#   %30 = getelementptr nusw nuw i8, ptr %28, i64 32, !dbg !7
#   %31 = getelementptr nusw nuw i8, ptr %28, i64 48, !dbg !7
#   %wide.load81 = load <4 x i32>, ptr %28, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %wide.load82 = load <4 x i32>, ptr %29, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %wide.load83 = load <4 x i32>, ptr %30, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %wide.load84 = load <4 x i32>, ptr %31, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %32 = add <4 x i32> %wide.load, %wide.load81, !dbg !7
#   %33 = add <4 x i32> %wide.load78, %wide.load82, !dbg !7
#   %34 = add <4 x i32> %wide.load79, %wide.load83, !dbg !7
#   %35 = add <4 x i32> %wide.load80, %wide.load84, !dbg !7
#   %36 = add <4 x i32> %32, splat (i32 3), !dbg !7
#   %37 = add <4 x i32> %33, splat (i32 3), !dbg !7
#   %38 = add <4 x i32> %34, splat (i32 3), !dbg !7
#   %39 = add <4 x i32> %35, splat (i32 3), !dbg !7
#   store <4 x i32> %36, ptr %28, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   store <4 x i32> %37, ptr %29, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   store <4 x i32> %38, ptr %30, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   store <4 x i32> %39, ptr %31, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %index.next = add nuw i64 %index, 16
#   %40 = icmp eq i64 %index.next, 64, !dbg !8
#   br i1 %40, label %middle.block, label %vector.body, !dbg !8, !llvm.loop !14
#
# middle.block:                                     ; preds = %vector.body
#   %bin.rdx = add <4 x i64> %19, %18, !dbg !8
#   %bin.rdx85 = add <4 x i64> %20, %bin.rdx, !dbg !8
#   %bin.rdx86 = add <4 x i64> %21, %bin.rdx85, !dbg !8
#   %41 = call i64 @llvm.vector.reduce.add.v4i64(<4 x i64> %bin.rdx86), !dbg !8
#   br label %pc_10038, !dbg !8
#
# pc_10038:                                         ; preds = %on28, %pc_100262, %middle.block
#   %left.0 = phi i64 [ %41, %middle.block ], [ %left37, %pc_100262 ], [ %left.4, %on28 ], !dbg !7
#   %left13 = add i64 %left.0, -3, !dbg !7
#   %is_over = icmp slt i64 %left13, 0, !dbg !7
#   br i1 %is_over, label %over, label %on, !dbg !7, !prof !17
#
# pc_100261:                                        ; preds = %entry, %on28
#   %a0.0 = phi i64 [ %49, %on28 ], [ %2, %entry ], !dbg !7
#   %a1.0 = phi i64 [ %50, %on28 ], [ %3, %entry ], !dbg !7
#   %left.1 = phi i64 [ %left.4, %on28 ], [ %left4, %entry ], !dbg !7
#   %left16 = add i64 %left.1, -16, !dbg !7
#   %is_over17 = icmp slt i64 %left16, 0, !dbg !7
#   br i1 %is_over17, label %over18, label %on19, !dbg !7, !prof !17
#
# pc_100262:                                        ; preds = %vector.memcheck, %pc_100262
#   %a0.1 = phi i64 [ %44, %pc_100262 ], [ %2, %vector.memcheck ], !dbg !7
#   %a1.1 = phi i64 [ %45, %pc_100262 ], [ %3, %vector.memcheck ], !dbg !7
#   %left.2 = phi i64 [ %left37, %pc_100262 ], [ %left4, %vector.memcheck ], !dbg !7
#   %left37 = add i64 %left.2, -16, !dbg !7
#   %address41 = getelementptr nusw i8, ptr %0, i64 %a0.1, !dbg !7
#   %loaded42 = load i32, ptr %address41, align 1, !dbg !7
#   %address44 = getelementptr nusw i8, ptr %0, i64 %a1.1, !dbg !7
#   %loaded45 = load i32, ptr %address44, align 1, !dbg !7
#   %42 = add i32 %loaded42, %loaded45, !dbg !7
#   %43 = add i32 %42, 3, !dbg !7
#   store i32 %43, ptr %address44, align 1, !dbg !7
#   %44 = add i64 %a0.1, 4, !dbg !7
#   %45 = add i64 %a1.1, 4, !dbg !7
#   %.not64 = icmp eq i64 %45, %4, !dbg !7
#   br i1 %.not64, label %pc_10038, label %pc_100262, !dbg !8, !llvm.loop !18
#
# over:                                             ; preds = %pc_10038
#   %granted = call i64 asm sideeffect "callq *4260152(%r10)\0A.byte 0xf, 0x1f, 0x80\0A.long 65592", "={r11},{r10},0,~{flags}"(ptr nonnull %0, i64 %left13) #5, !dbg !7
#   br label %on, !dbg !7
#
# on:                                               ; preds = %over, %pc_10038
#   %left.3 = phi i64 [ %granted, %over ], [ %left13, %pc_10038 ], !dbg !7
#   %mrv = insertvalue { i64 } poison, i64 %left.3, 0, !dbg !19
#   ret { i64 } %mrv, !dbg !19
#
# over18:                                           ; preds = %pc_100261
#   %granted20 = call i64 asm sideeffect "callq *4260152(%r10)\0A.byte 0xf, 0x1f, 0x80\0A.long 65574", "={r11},{r10},0,~{flags}"(ptr %0, i64 %left16) #5, !dbg !7
#   br label %on19, !dbg !7
#
# on19:                                             ; preds = %over18, %pc_100261
#   %left.4 = phi i64 [ %granted20, %over18 ], [ %left16, %pc_100261 ], !dbg !7
#   %is_bad = icmp ugt i64 %a0.0, 4194300, !dbg !7
#   br i1 %is_bad, label %leave, label %on24, !dbg !7, !prof !17
#
# leave:                                            ; preds = %on19
#   call void @llvm.ubsantrap(i8 6) #6, !dbg !7
#   unreachable, !dbg !7
#
# on24:                                             ; preds = %on19
#   %46 = add i64 %a1.0, -4194301, !dbg !7
#   %is_bad26 = icmp ult i64 %46, -4124669, !dbg !7
#   br i1 %is_bad26, label %leave27, label %on28, !dbg !7, !prof !17
#
# leave27:                                          ; preds = %on24
#   call void @llvm.ubsantrap(i8 6) #6, !dbg !7
#   unreachable, !dbg !7
#
# on28:                                             ; preds = %on24
#   %at_base = getelementptr i8, ptr %0, i64 %a0.0, !dbg !7
#   %loaded = load i32, ptr %at_base, align 1, !dbg !7
#   %at_base29 = getelementptr i8, ptr %0, i64 %a1.0, !dbg !7
#   %loaded31 = load i32, ptr %at_base29, align 1, !dbg !7
#   %47 = add i32 %loaded, %loaded31, !dbg !7
#   %48 = add i32 %47, 3, !dbg !7
#   store i32 %48, ptr %at_base29, align 1, !dbg !7
#   %49 = add nuw nsw i64 %a0.0, 4, !dbg !7
#   %50 = add nuw nsw i64 %a1.0, 4, !dbg !7
#   %.not = icmp eq i64 %50, %4, !dbg !7
#   br i1 %.not, label %pc_10038, label %pc_100261, !dbg !8
# }

#=== outcome
# Exit(6), 2572 cycles, native
