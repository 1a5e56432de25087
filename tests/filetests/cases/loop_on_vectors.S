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
  /* With a frame, so that it stays a function. */
  addi sp, sp, -16
  sd s0, 8(sp)
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
  ld s0, 8(sp)
  addi sp, sp, 16
  ret

#=== optimised
# define internal x86_regcallcc { i64, i64 } @guest_1002a(ptr inreg %0, i64 inreg %1, i64 inreg range(i64 0, 4194297) %2, i64 inreg %3, i64 inreg %4, i64 inreg %5) #2 !dbg !4 {
# entry:
#   %6 = icmp samesign ult i64 %2, 69640, !dbg !7
#   br i1 %6, label %leave, label %on, !dbg !7, !prof !8
#
# pc_10044.loopexit:                                ; preds = %vector.body, %pc_100322
#   %7 = add i64 %1, -1028, !dbg !9
#   br label %pc_10044, !dbg !7
#
# pc_10044:                                         ; preds = %on40, %pc_10044.loopexit
#   %left.0 = phi i64 [ %7, %pc_10044.loopexit ], [ %left.4, %on40 ], !dbg !7
#   %left16 = add i64 %left.0, -6, !dbg !7
#   %is_over = icmp slt i64 %left16, 0, !dbg !7
#   br i1 %is_over, label %over, label %on17, !dbg !7, !prof !8
#
# pc_100321:                                        ; preds = %on, %on40
#   %a1.0 = phi i64 [ %32, %on40 ], [ %5, %on ], !dbg !7
#   %a0.0 = phi i64 [ %31, %on40 ], [ %4, %on ], !dbg !7
#   %left.1 = phi i64 [ %left.4, %on40 ], [ %left5, %on ], !dbg !7
#   %left25 = add i64 %left.1, -16, !dbg !7
#   %is_over26 = icmp slt i64 %left25, 0, !dbg !7
#   br i1 %is_over26, label %over27, label %on28, !dbg !7, !prof !8
#
# pc_100322:                                        ; preds = %vector.memcheck, %pc_100322
#   %a1.1 = phi i64 [ %11, %pc_100322 ], [ %5, %vector.memcheck ], !dbg !7
#   %a0.1 = phi i64 [ %10, %pc_100322 ], [ %4, %vector.memcheck ], !dbg !7
#   %address56 = getelementptr nusw i8, ptr %0, i64 %a0.1, !dbg !7
#   %loaded57 = load i32, ptr %address56, align 1, !dbg !7
#   %address59 = getelementptr nusw i8, ptr %0, i64 %a1.1, !dbg !7
#   %loaded60 = load i32, ptr %address59, align 1, !dbg !7
#   %8 = add i32 %loaded57, %loaded60, !dbg !7
#   %9 = add i32 %8, 3, !dbg !7
#   store i32 %9, ptr %address59, align 1, !dbg !7
#   %10 = add i64 %a0.1, 4, !dbg !7
#   %11 = add i64 %a1.1, 4, !dbg !7
#   %.not66 = icmp eq i64 %11, %12, !dbg !7
#   br i1 %.not66, label %pc_10044.loopexit, label %pc_100322, !dbg !9, !llvm.loop !10
#
# leave:                                            ; preds = %entry
#   call void @llvm.ubsantrap(i8 6) #4, !dbg !7
#   unreachable, !dbg !7
#
# on:                                               ; preds = %entry
#   %left5 = add i64 %1, -4, !dbg !7
#   %at_base = getelementptr i8, ptr %0, i64 %2, !dbg !7
#   %address = getelementptr i8, ptr %at_base, i64 -8, !dbg !7
#   store i64 %3, ptr %address, align 1, !dbg !7
#   %12 = add i64 %5, 256, !dbg !7
#   %13 = icmp sgt i64 %left5, -4194305, !dbg !7
#   %14 = icmp ult i64 %4, 4194049, !dbg !7
#   %15 = and i1 %13, %14, !dbg !7
#   %16 = add i64 %5, -69632, !dbg !7
#   %17 = icmp ult i64 %16, 4124417, !dbg !7
#   %18 = and i1 %15, %17, !dbg !7
#   br i1 %18, label %vector.memcheck, label %pc_100321, !dbg !9
#
# vector.memcheck:                                  ; preds = %on
#   %scevgep = getelementptr i8, ptr %0, i64 %5, !dbg !9
#   %scevgep73 = getelementptr i8, ptr %0, i64 %12, !dbg !9
#   %scevgep74 = getelementptr i8, ptr %0, i64 %4, !dbg !9
#   %19 = getelementptr i8, ptr %0, i64 %4, !dbg !9
#   %scevgep75 = getelementptr i8, ptr %19, i64 256, !dbg !9
#   %bound0 = icmp ult ptr %scevgep, %scevgep75, !dbg !9
#   %bound1 = icmp ult ptr %scevgep74, %scevgep73, !dbg !9
#   %found.conflict = and i1 %bound0, %bound1, !dbg !9
#   br i1 %found.conflict, label %pc_100322, label %vector.body
#
# vector.body:                                      ; preds = %vector.memcheck, %vector.body
#   %index = phi i64 [ %index.next, %vector.body ], [ 0, %vector.memcheck ]
#   %20 = shl i64 %index, 2
#   %21 = getelementptr i8, ptr %0, i64 %4, !dbg !7
#   %22 = getelementptr i8, ptr %21, i64 %20, !dbg !7
#   %wide.load = load <8 x i32>, ptr %22, align 1, !dbg !7, !alias.scope !12
#   %23 = getelementptr i8, ptr %0, i64 %5, !dbg !7
#   %24 = getelementptr i8, ptr %23, i64 %20, !dbg !7
#   %wide.load76 = load <8 x i32>, ptr %24, align 1, !dbg !7, !alias.scope !15, !noalias !12
#   %25 = add <8 x i32> %wide.load, %wide.load76, !dbg !7
#   %26 = add <8 x i32> %25, splat (i32 3), !dbg !7
#   store <8 x i32> %26, ptr %24, align 1, !dbg !7, !alias.scope !15, !noalias !12
#   %index.next = add nuw i64 %index, 8
#   %27 = icmp eq i64 %index.next, 64, !dbg !9
#   br i1 %27, label %pc_10044.loopexit, label %vector.body, !dbg !9, !llvm.loop !17
#
# over:                                             ; preds = %pc_10044
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65604($1,$0)", "=r,r,0,~{flags}"(ptr nonnull %0, i64 %left16) #5, !dbg !7
#   br label %on17, !dbg !7
#
# on17:                                             ; preds = %over, %pc_10044
#   %left.3 = phi i64 [ %granted, %over ], [ %left16, %pc_10044 ], !dbg !7
#   %loaded = load i64, ptr %address, align 1, !dbg !7
#   %mrv = insertvalue { i64, i64 } poison, i64 %left.3, 0, !dbg !19
#   %mrv23 = insertvalue { i64, i64 } %mrv, i64 %loaded, 1, !dbg !19
#   ret { i64, i64 } %mrv23, !dbg !19
#
# over27:                                           ; preds = %pc_100321
#   %granted29 = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65586($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left25) #5, !dbg !7
#   br label %on28, !dbg !7
#
# on28:                                             ; preds = %over27, %pc_100321
#   %left.4 = phi i64 [ %granted29, %over27 ], [ %left25, %pc_100321 ], !dbg !7
#   %is_bad34 = icmp ugt i64 %a0.0, 4194300, !dbg !7
#   br i1 %is_bad34, label %leave35, label %on36, !dbg !7, !prof !8
#
# leave35:                                          ; preds = %on28
#   call void @llvm.ubsantrap(i8 6) #4, !dbg !7
#   unreachable, !dbg !7
#
# on36:                                             ; preds = %on28
#   %28 = add i64 %a1.0, -4194301, !dbg !7
#   %is_bad38 = icmp ult i64 %28, -4124669, !dbg !7
#   br i1 %is_bad38, label %leave39, label %on40, !dbg !7, !prof !8
#
# leave39:                                          ; preds = %on36
#   call void @llvm.ubsantrap(i8 6) #4, !dbg !7
#   unreachable, !dbg !7
#
# on40:                                             ; preds = %on36
#   %at_base41 = getelementptr i8, ptr %0, i64 %a0.0, !dbg !7
#   %loaded43 = load i32, ptr %at_base41, align 1, !dbg !7
#   %at_base44 = getelementptr i8, ptr %0, i64 %a1.0, !dbg !7
#   %loaded46 = load i32, ptr %at_base44, align 1, !dbg !7
#   %29 = add i32 %loaded43, %loaded46, !dbg !7
#   %30 = add i32 %29, 3, !dbg !7
#   store i32 %30, ptr %at_base44, align 1, !dbg !7
#   %31 = add nuw nsw i64 %a0.0, 4, !dbg !7
#   %32 = add nuw nsw i64 %a1.0, 4, !dbg !7
#   %.not = icmp eq i64 %32, %12, !dbg !7
#   br i1 %.not, label %pc_10044, label %pc_100321, !dbg !9
# }

#=== outcome
# Exit(6), 2588 cycles, native
