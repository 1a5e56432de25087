# version: 2
# show: optimised outcome
/* A counted loop over words, without checks and meter, runs on vectors: the sums are of eight words at once, and the
   cycles of all passes are one product. */
  .globl _start
_start:
  /* No arguments, which nobody knows here. */
  ld t0, 0(sp)
  lui s0, 0x20
  lui s1, 0x21
  add s0, s0, t0
  sub s1, s1, t0
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
# define internal x86_regcallcc { i64 } @guest_1002a(ptr inreg %0, i64 inreg %1, i64 inreg %2, i64 inreg %3) #2 !dbg !4 {
# entry:
#   %left4 = add i64 %1, -1, !dbg !7
#   %4 = add i64 %3, 256, !dbg !7
#   %5 = icmp sgt i64 %left4, -4194305, !dbg !7
#   %6 = icmp ult i64 %2, 4194049, !dbg !7
#   %7 = and i1 %5, %6, !dbg !7
#   %8 = add i64 %3, -69632, !dbg !7
#   %9 = icmp ult i64 %8, 4124417, !dbg !7
#   %10 = and i1 %7, %9, !dbg !7
#   br i1 %10, label %vector.memcheck, label %pc_1002e1, !dbg !8
#
# vector.memcheck:                                  ; preds = %entry
#   %scevgep = getelementptr i8, ptr %0, i64 %3, !dbg !8
#   %scevgep71 = getelementptr i8, ptr %0, i64 %4, !dbg !8
#   %scevgep72 = getelementptr i8, ptr %0, i64 %2, !dbg !8
#   %11 = getelementptr i8, ptr %0, i64 %2, !dbg !8
#   %scevgep73 = getelementptr i8, ptr %11, i64 256, !dbg !8
#   %bound0 = icmp ult ptr %scevgep, %scevgep73, !dbg !8
#   %bound1 = icmp ult ptr %scevgep72, %scevgep71, !dbg !8
#   %found.conflict = and i1 %bound0, %bound1, !dbg !8
#   br i1 %found.conflict, label %pc_1002e2, label %vector.body
#
# vector.body:                                      ; preds = %vector.memcheck, %vector.body
#   %index = phi i64 [ %index.next, %vector.body ], [ 0, %vector.memcheck ]
#   %12 = shl i64 %index, 2
#   %13 = getelementptr i8, ptr %0, i64 %2, !dbg !7
#   %14 = getelementptr i8, ptr %13, i64 %12, !dbg !7
#   %wide.load = load <8 x i32>, ptr %14, align 1, !dbg !7, !alias.scope !9
#   %15 = getelementptr i8, ptr %0, i64 %3, !dbg !7
#   %16 = getelementptr i8, ptr %15, i64 %12, !dbg !7
#   %wide.load74 = load <8 x i32>, ptr %16, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %17 = add <8 x i32> %wide.load, %wide.load74, !dbg !7
#   %18 = add <8 x i32> %17, splat (i32 3), !dbg !7
#   store <8 x i32> %18, ptr %16, align 1, !dbg !7, !alias.scope !12, !noalias !9
#   %index.next = add nuw i64 %index, 8
#   %19 = icmp eq i64 %index.next, 64, !dbg !8
#   br i1 %19, label %pc_10040.loopexit, label %vector.body, !dbg !8, !llvm.loop !14
#
# pc_10040.loopexit:                                ; preds = %vector.body, %pc_1002e2
#   %20 = add i64 %1, -1025, !dbg !8
#   br label %pc_10040, !dbg !7
#
# pc_10040:                                         ; preds = %on28, %pc_10040.loopexit
#   %left.0 = phi i64 [ %20, %pc_10040.loopexit ], [ %left.4, %on28 ], !dbg !7
#   %left13 = add i64 %left.0, -3, !dbg !7
#   %is_over = icmp slt i64 %left13, 0, !dbg !7
#   br i1 %is_over, label %over, label %on, !dbg !7, !prof !17
#
# pc_1002e1:                                        ; preds = %entry, %on28
#   %a0.0 = phi i64 [ %28, %on28 ], [ %2, %entry ], !dbg !7
#   %a1.0 = phi i64 [ %29, %on28 ], [ %3, %entry ], !dbg !7
#   %left.1 = phi i64 [ %left.4, %on28 ], [ %left4, %entry ], !dbg !7
#   %left16 = add i64 %left.1, -16, !dbg !7
#   %is_over17 = icmp slt i64 %left16, 0, !dbg !7
#   br i1 %is_over17, label %over18, label %on19, !dbg !7, !prof !17
#
# pc_1002e2:                                        ; preds = %vector.memcheck, %pc_1002e2
#   %a0.1 = phi i64 [ %23, %pc_1002e2 ], [ %2, %vector.memcheck ], !dbg !7
#   %a1.1 = phi i64 [ %24, %pc_1002e2 ], [ %3, %vector.memcheck ], !dbg !7
#   %address41 = getelementptr nusw i8, ptr %0, i64 %a0.1, !dbg !7
#   %loaded42 = load i32, ptr %address41, align 1, !dbg !7
#   %address44 = getelementptr nusw i8, ptr %0, i64 %a1.1, !dbg !7
#   %loaded45 = load i32, ptr %address44, align 1, !dbg !7
#   %21 = add i32 %loaded42, %loaded45, !dbg !7
#   %22 = add i32 %21, 3, !dbg !7
#   store i32 %22, ptr %address44, align 1, !dbg !7
#   %23 = add i64 %a0.1, 4, !dbg !7
#   %24 = add i64 %a1.1, 4, !dbg !7
#   %.not64 = icmp eq i64 %24, %4, !dbg !7
#   br i1 %.not64, label %pc_10040.loopexit, label %pc_1002e2, !dbg !8, !llvm.loop !18
#
# over:                                             ; preds = %pc_10040
#   %granted = call i64 asm sideeffect "callq *4260152($1)\0A{disp32} nopl 65600($1,$0)", "=r,r,0,~{flags}"(ptr nonnull %0, i64 %left13) #4, !dbg !7
#   br label %on, !dbg !7
#
# on:                                               ; preds = %over, %pc_10040
#   %left.3 = phi i64 [ %granted, %over ], [ %left13, %pc_10040 ], !dbg !7
#   %mrv = insertvalue { i64 } poison, i64 %left.3, 0, !dbg !19
#   ret { i64 } %mrv, !dbg !19
#
# over18:                                           ; preds = %pc_1002e1
#   %granted20 = call i64 asm sideeffect "callq *4260152($1)\0A{disp32} nopl 65582($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left16) #4, !dbg !7
#   br label %on19, !dbg !7
#
# on19:                                             ; preds = %over18, %pc_1002e1
#   %left.4 = phi i64 [ %granted20, %over18 ], [ %left16, %pc_1002e1 ], !dbg !7
#   %is_bad = icmp ugt i64 %a0.0, 4194300, !dbg !7
#   br i1 %is_bad, label %leave, label %on24, !dbg !7, !prof !17
#
# leave:                                            ; preds = %on19
#   call void @llvm.ubsantrap(i8 6) #5, !dbg !7
#   unreachable, !dbg !7
#
# on24:                                             ; preds = %on19
#   %25 = add i64 %a1.0, -4194301, !dbg !7
#   %is_bad26 = icmp ult i64 %25, -4124669, !dbg !7
#   br i1 %is_bad26, label %leave27, label %on28, !dbg !7, !prof !17
#
# leave27:                                          ; preds = %on24
#   call void @llvm.ubsantrap(i8 6) #5, !dbg !7
#   unreachable, !dbg !7
#
# on28:                                             ; preds = %on24
#   %at_base = getelementptr i8, ptr %0, i64 %a0.0, !dbg !7
#   %loaded = load i32, ptr %at_base, align 1, !dbg !7
#   %at_base29 = getelementptr i8, ptr %0, i64 %a1.0, !dbg !7
#   %loaded31 = load i32, ptr %at_base29, align 1, !dbg !7
#   %26 = add i32 %loaded, %loaded31, !dbg !7
#   %27 = add i32 %26, 3, !dbg !7
#   store i32 %27, ptr %at_base29, align 1, !dbg !7
#   %28 = add nuw nsw i64 %a0.0, 4, !dbg !7
#   %29 = add nuw nsw i64 %a1.0, 4, !dbg !7
#   %.not = icmp eq i64 %29, %4, !dbg !7
#   br i1 %.not, label %pc_10040, label %pc_1002e1, !dbg !8
# }

#=== outcome
# Exit(6), 2576 cycles, native
