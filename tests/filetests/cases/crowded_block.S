# version: 2
# show: optimised outcome
/* The guest loads into all of its registers before it uses the first. On the host each word is loaded where it is used, since what
   is stored between lies elsewhere by the same base; the one store by another base stays behind all loads before it, and before
   those behind it. */
  .globl _start
_start:
  lui a0, 0x20
  jal words
  lui a0, 0x20
  jal words
  lui a0, 0x20
  ld a0, 512(a0)
  andi a0, a0, 63
  li a7, 93
  ecall
words:
  ld a1, 0(a0)
  add a1, a1, a0
  .set offset, 8
  .irp register, t0,t1,t2,t3,t4,t5,t6,s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,a2,a3,a4,a5,a6,a7
  ld \register, offset(a0)
  .set offset, offset + 8
  .endr
  .set offset, 512
  .irp register, t0,t1,t2,t3,t4,t5,t6,s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,a2,a3,a4,a5,a6,a7
  addi \register, \register, 5
  sd \register, offset(a0)
  .set offset, offset + 8
  .endr
  sd a0, 16(a1)
  ld t0, 8(a0)
  sd t0, 800(a0)
  ret

#=== optimised
# define internal x86_regcallcc { i64 } @guest_10024(ptr inreg %0, i64 inreg %1, i64 inreg %2) #2 !dbg !4 {
# entry:
#   %left2 = add i64 %1, -137, !dbg !7
#   %is_over = icmp slt i64 %left2, 0, !dbg !7
#   br i1 %is_over, label %over, label %on, !dbg !7, !prof !8
#
# over:                                             ; preds = %entry
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65572($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left2) #4, !dbg !7
#   br label %on, !dbg !7
#
# on:                                               ; preds = %over, %entry
#   %left.0 = phi i64 [ %granted, %over ], [ %left2, %entry ], !dbg !7
#   %at_base = getelementptr i8, ptr %0, i64 131072, !dbg !7
#   %loaded = load i64, ptr %at_base, align 1, !dbg !7
#   %3 = add i64 %loaded, -4063209, !dbg !7
#   %is_bad6 = icmp ult i64 %3, -4124665, !dbg !7
#   br i1 %is_bad6, label %leave7, label %on8, !dbg !7, !prof !8
#
# leave7:                                           ; preds = %on
#   call void @llvm.ubsantrap(i8 6) #5, !dbg !7
#   unreachable, !dbg !7
#
# on8:                                              ; preds = %on
#   %address10 = getelementptr i8, ptr %0, i64 131080, !dbg !7
#   %loaded11 = load i64, ptr %address10, align 1, !dbg !7
#   %4 = add i64 %loaded11, 5, !dbg !7
#   %address85 = getelementptr i8, ptr %0, i64 131584, !dbg !7
#   store i64 %4, ptr %address85, align 1, !dbg !7
#   %address13 = getelementptr i8, ptr %0, i64 131088, !dbg !7
#   %loaded14 = load i64, ptr %address13, align 1, !dbg !7
#   %5 = add i64 %loaded14, 5, !dbg !7
#   %address87 = getelementptr i8, ptr %0, i64 131592, !dbg !7
#   store i64 %5, ptr %address87, align 1, !dbg !7
#   %address16 = getelementptr i8, ptr %0, i64 131096, !dbg !7
#   %loaded17 = load i64, ptr %address16, align 1, !dbg !7
#   %6 = add i64 %loaded17, 5, !dbg !7
#   %address89 = getelementptr i8, ptr %0, i64 131600, !dbg !7
#   store i64 %6, ptr %address89, align 1, !dbg !7
#   %address19 = getelementptr i8, ptr %0, i64 131104, !dbg !7
#   %loaded20 = load i64, ptr %address19, align 1, !dbg !7
#   %7 = add i64 %loaded20, 5, !dbg !7
#   %address91 = getelementptr i8, ptr %0, i64 131608, !dbg !7
#   store i64 %7, ptr %address91, align 1, !dbg !7
#   %address22 = getelementptr i8, ptr %0, i64 131112, !dbg !7
#   %loaded23 = load i64, ptr %address22, align 1, !dbg !7
#   %8 = add i64 %loaded23, 5, !dbg !7
#   %address93 = getelementptr i8, ptr %0, i64 131616, !dbg !7
#   store i64 %8, ptr %address93, align 1, !dbg !7
#   %address25 = getelementptr i8, ptr %0, i64 131120, !dbg !7
#   %loaded26 = load i64, ptr %address25, align 1, !dbg !7
#   %9 = add i64 %loaded26, 5, !dbg !7
#   %address95 = getelementptr i8, ptr %0, i64 131624, !dbg !7
#   store i64 %9, ptr %address95, align 1, !dbg !7
#   %address28 = getelementptr i8, ptr %0, i64 131128, !dbg !7
#   %loaded29 = load i64, ptr %address28, align 1, !dbg !7
#   %10 = add i64 %loaded29, 5, !dbg !7
#   %address97 = getelementptr i8, ptr %0, i64 131632, !dbg !7
#   store i64 %10, ptr %address97, align 1, !dbg !7
#   %address31 = getelementptr i8, ptr %0, i64 131136, !dbg !7
#   %loaded32 = load i64, ptr %address31, align 1, !dbg !7
#   %11 = add i64 %loaded32, 5, !dbg !7
#   %address99 = getelementptr i8, ptr %0, i64 131640, !dbg !7
#   store i64 %11, ptr %address99, align 1, !dbg !7
#   %address34 = getelementptr i8, ptr %0, i64 131144, !dbg !7
#   %loaded35 = load i64, ptr %address34, align 1, !dbg !7
#   %12 = add i64 %loaded35, 5, !dbg !7
#   %address101 = getelementptr i8, ptr %0, i64 131648, !dbg !7
#   store i64 %12, ptr %address101, align 1, !dbg !7
#   %address37 = getelementptr i8, ptr %0, i64 131152, !dbg !7
#   %loaded38 = load i64, ptr %address37, align 1, !dbg !7
#   %13 = add i64 %loaded38, 5, !dbg !7
#   %address103 = getelementptr i8, ptr %0, i64 131656, !dbg !7
#   store i64 %13, ptr %address103, align 1, !dbg !7
#   %address40 = getelementptr i8, ptr %0, i64 131160, !dbg !7
#   %loaded41 = load i64, ptr %address40, align 1, !dbg !7
#   %14 = add i64 %loaded41, 5, !dbg !7
#   %address105 = getelementptr i8, ptr %0, i64 131664, !dbg !7
#   store i64 %14, ptr %address105, align 1, !dbg !7
#   %address43 = getelementptr i8, ptr %0, i64 131168, !dbg !7
#   %loaded44 = load i64, ptr %address43, align 1, !dbg !7
#   %15 = add i64 %loaded44, 5, !dbg !7
#   %address107 = getelementptr i8, ptr %0, i64 131672, !dbg !7
#   store i64 %15, ptr %address107, align 1, !dbg !7
#   %address46 = getelementptr i8, ptr %0, i64 131176, !dbg !7
#   %loaded47 = load i64, ptr %address46, align 1, !dbg !7
#   %16 = add i64 %loaded47, 5, !dbg !7
#   %address109 = getelementptr i8, ptr %0, i64 131680, !dbg !7
#   store i64 %16, ptr %address109, align 1, !dbg !7
#   %address49 = getelementptr i8, ptr %0, i64 131184, !dbg !7
#   %loaded50 = load i64, ptr %address49, align 1, !dbg !7
#   %17 = add i64 %loaded50, 5, !dbg !7
#   %address111 = getelementptr i8, ptr %0, i64 131688, !dbg !7
#   store i64 %17, ptr %address111, align 1, !dbg !7
#   %address52 = getelementptr i8, ptr %0, i64 131192, !dbg !7
#   %loaded53 = load i64, ptr %address52, align 1, !dbg !7
#   %18 = add i64 %loaded53, 5, !dbg !7
#   %address113 = getelementptr i8, ptr %0, i64 131696, !dbg !7
#   store i64 %18, ptr %address113, align 1, !dbg !7
#   %address55 = getelementptr i8, ptr %0, i64 131200, !dbg !7
#   %loaded56 = load i64, ptr %address55, align 1, !dbg !7
#   %19 = add i64 %loaded56, 5, !dbg !7
#   %address115 = getelementptr i8, ptr %0, i64 131704, !dbg !7
#   store i64 %19, ptr %address115, align 1, !dbg !7
#   %address58 = getelementptr i8, ptr %0, i64 131208, !dbg !7
#   %loaded59 = load i64, ptr %address58, align 1, !dbg !7
#   %20 = add i64 %loaded59, 5, !dbg !7
#   %address117 = getelementptr i8, ptr %0, i64 131712, !dbg !7
#   store i64 %20, ptr %address117, align 1, !dbg !7
#   %address61 = getelementptr i8, ptr %0, i64 131216, !dbg !7
#   %loaded62 = load i64, ptr %address61, align 1, !dbg !7
#   %21 = add i64 %loaded62, 5, !dbg !7
#   %address119 = getelementptr i8, ptr %0, i64 131720, !dbg !7
#   store i64 %21, ptr %address119, align 1, !dbg !7
#   %address64 = getelementptr i8, ptr %0, i64 131224, !dbg !7
#   %loaded65 = load i64, ptr %address64, align 1, !dbg !7
#   %22 = add i64 %loaded65, 5, !dbg !7
#   %address121 = getelementptr i8, ptr %0, i64 131728, !dbg !7
#   store i64 %22, ptr %address121, align 1, !dbg !7
#   %address67 = getelementptr i8, ptr %0, i64 131232, !dbg !7
#   %loaded68 = load i64, ptr %address67, align 1, !dbg !7
#   %23 = add i64 %loaded68, 5, !dbg !7
#   %address123 = getelementptr i8, ptr %0, i64 131736, !dbg !7
#   store i64 %23, ptr %address123, align 1, !dbg !7
#   %address70 = getelementptr i8, ptr %0, i64 131240, !dbg !7
#   %loaded71 = load i64, ptr %address70, align 1, !dbg !7
#   %24 = add i64 %loaded71, 5, !dbg !7
#   %address125 = getelementptr i8, ptr %0, i64 131744, !dbg !7
#   store i64 %24, ptr %address125, align 1, !dbg !7
#   %address73 = getelementptr i8, ptr %0, i64 131248, !dbg !7
#   %loaded74 = load i64, ptr %address73, align 1, !dbg !7
#   %25 = add i64 %loaded74, 5, !dbg !7
#   %address127 = getelementptr i8, ptr %0, i64 131752, !dbg !7
#   store i64 %25, ptr %address127, align 1, !dbg !7
#   %address76 = getelementptr i8, ptr %0, i64 131256, !dbg !7
#   %loaded77 = load i64, ptr %address76, align 1, !dbg !7
#   %26 = add i64 %loaded77, 5, !dbg !7
#   %address129 = getelementptr i8, ptr %0, i64 131760, !dbg !7
#   store i64 %26, ptr %address129, align 1, !dbg !7
#   %address79 = getelementptr i8, ptr %0, i64 131264, !dbg !7
#   %loaded80 = load i64, ptr %address79, align 1, !dbg !7
#   %27 = add i64 %loaded80, 5, !dbg !7
#   %address131 = getelementptr i8, ptr %0, i64 131768, !dbg !7
#   store i64 %27, ptr %address131, align 1, !dbg !7
#   %address82 = getelementptr i8, ptr %0, i64 131272, !dbg !7
#   %loaded83 = load i64, ptr %address82, align 1, !dbg !7
#   %28 = add i64 %loaded83, 5, !dbg !7
#   %address133 = getelementptr i8, ptr %0, i64 131776, !dbg !7
#   store i64 %28, ptr %address133, align 1, !dbg !7
#   %29 = getelementptr i8, ptr %0, i64 %loaded, !dbg !7
#   %address135 = getelementptr i8, ptr %29, i64 131088, !dbg !7
#   store i64 131072, ptr %address135, align 1, !dbg !7
#   %loaded138 = load i64, ptr %address10, align 1, !dbg !7
#   %address140 = getelementptr i8, ptr %0, i64 131872, !dbg !7
#   store i64 %loaded138, ptr %address140, align 1, !dbg !7
#   %mrv = insertvalue { i64 } poison, i64 %left.0, 0, !dbg !7
#   ret { i64 } %mrv, !dbg !7
# }

#=== outcome
# Exit(5), 787 cycles, native
