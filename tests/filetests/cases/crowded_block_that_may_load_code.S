# version: 2
# show: optimised outcome
/* The guest makes values for all of its registers before it stores the first. It may load code (2091), so its stores are volatile: they
   keep their order, and the arithmetic goes to where its result is stored. */
  .globl _start
_start:
  ld a0, 0(sp)
  bltz a0, load
  jal words
  li a0, 5
  jal words
  lui a0, 0x20
  ld a1, 512(a0)
  ld a2, 704(a0)
  add a0, a1, a2
  andi a0, a0, 63
  li a7, 93
  ecall
load:
  lui a7, 1
  addiw a7, a7, -2005
  ecall
  j load
words:
  lui a1, 0x20
  .set factor, 3
  .irp register, t0,t1,t2,t3,t4,t5,t6,s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,a2,a3,a4,a5,a6,a7
  addi \register, a0, factor
  mul \register, \register, \register
  .set factor, factor + 2
  .endr
  .set offset, 512
  .irp register, t0,t1,t2,t3,t4,t5,t6,s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,a2,a3,a4,a5,a6,a7
  sd \register, offset(a1)
  .set offset, offset + 8
  .endr
  ret

#=== optimised
# define internal x86_regcallcc { i64 } @guest_10038(ptr inreg %0, i64 inreg %1, i64 inreg range(i64 0, -9223372036854775808) %2) #2 !dbg !4 {
# entry:
#   %left2 = add i64 %1, -204, !dbg !7
#   %is_over = icmp slt i64 %left2, 0, !dbg !7
#   br i1 %is_over, label %over, label %on4, !dbg !7, !prof !8
#
# over:                                             ; preds = %entry
#   %granted = call i64 asm sideeffect "callq *4263944($1)\0A{disp32} nopl 65592($1,$0)", "=r,r,0,~{flags}"(ptr %0, i64 %left2) #4, !dbg !7
#   br label %on4, !dbg !7
#
# on4:                                              ; preds = %entry, %over
#   %left.0 = phi i64 [ %granted, %over ], [ %left2, %entry ], !dbg !7
#   %3 = add nuw i64 %2, 3, !dbg !7
#   %4 = mul i64 %3, %3, !dbg !7
#   %address = getelementptr i8, ptr %0, i64 131584, !dbg !7
#   store volatile i64 %4, ptr %address, align 1, !dbg !7
#   %5 = add nuw i64 %2, 5, !dbg !7
#   %6 = mul i64 %5, %5, !dbg !7
#   %address6 = getelementptr i8, ptr %0, i64 131592, !dbg !7
#   store volatile i64 %6, ptr %address6, align 1, !dbg !7
#   %7 = add nuw i64 %2, 7, !dbg !7
#   %8 = mul i64 %7, %7, !dbg !7
#   %address8 = getelementptr i8, ptr %0, i64 131600, !dbg !7
#   store volatile i64 %8, ptr %address8, align 1, !dbg !7
#   %9 = add nuw i64 %2, 9, !dbg !7
#   %10 = mul i64 %9, %9, !dbg !7
#   %address10 = getelementptr i8, ptr %0, i64 131608, !dbg !7
#   store volatile i64 %10, ptr %address10, align 1, !dbg !7
#   %11 = add nuw i64 %2, 11, !dbg !7
#   %12 = mul i64 %11, %11, !dbg !7
#   %address12 = getelementptr i8, ptr %0, i64 131616, !dbg !7
#   store volatile i64 %12, ptr %address12, align 1, !dbg !7
#   %13 = add nuw i64 %2, 13, !dbg !7
#   %14 = mul i64 %13, %13, !dbg !7
#   %address14 = getelementptr i8, ptr %0, i64 131624, !dbg !7
#   store volatile i64 %14, ptr %address14, align 1, !dbg !7
#   %15 = add nuw i64 %2, 15, !dbg !7
#   %16 = mul i64 %15, %15, !dbg !7
#   %address16 = getelementptr i8, ptr %0, i64 131632, !dbg !7
#   store volatile i64 %16, ptr %address16, align 1, !dbg !7
#   %17 = add nuw i64 %2, 17, !dbg !7
#   %18 = mul i64 %17, %17, !dbg !7
#   %address18 = getelementptr i8, ptr %0, i64 131640, !dbg !7
#   store volatile i64 %18, ptr %address18, align 1, !dbg !7
#   %19 = add nuw i64 %2, 19, !dbg !7
#   %20 = mul i64 %19, %19, !dbg !7
#   %address20 = getelementptr i8, ptr %0, i64 131648, !dbg !7
#   store volatile i64 %20, ptr %address20, align 1, !dbg !7
#   %21 = add nuw i64 %2, 21, !dbg !7
#   %22 = mul i64 %21, %21, !dbg !7
#   %address22 = getelementptr i8, ptr %0, i64 131656, !dbg !7
#   store volatile i64 %22, ptr %address22, align 1, !dbg !7
#   %23 = add nuw i64 %2, 23, !dbg !7
#   %24 = mul i64 %23, %23, !dbg !7
#   %address24 = getelementptr i8, ptr %0, i64 131664, !dbg !7
#   store volatile i64 %24, ptr %address24, align 1, !dbg !7
#   %25 = add nuw i64 %2, 25, !dbg !7
#   %26 = mul i64 %25, %25, !dbg !7
#   %address26 = getelementptr i8, ptr %0, i64 131672, !dbg !7
#   store volatile i64 %26, ptr %address26, align 1, !dbg !7
#   %27 = add nuw i64 %2, 27, !dbg !7
#   %28 = mul i64 %27, %27, !dbg !7
#   %address28 = getelementptr i8, ptr %0, i64 131680, !dbg !7
#   store volatile i64 %28, ptr %address28, align 1, !dbg !7
#   %29 = add nuw i64 %2, 29, !dbg !7
#   %30 = mul i64 %29, %29, !dbg !7
#   %address30 = getelementptr i8, ptr %0, i64 131688, !dbg !7
#   store volatile i64 %30, ptr %address30, align 1, !dbg !7
#   %31 = add nuw i64 %2, 31, !dbg !7
#   %32 = mul i64 %31, %31, !dbg !7
#   %address32 = getelementptr i8, ptr %0, i64 131696, !dbg !7
#   store volatile i64 %32, ptr %address32, align 1, !dbg !7
#   %33 = add nuw i64 %2, 33, !dbg !7
#   %34 = mul i64 %33, %33, !dbg !7
#   %address34 = getelementptr i8, ptr %0, i64 131704, !dbg !7
#   store volatile i64 %34, ptr %address34, align 1, !dbg !7
#   %35 = add nuw i64 %2, 35, !dbg !7
#   %36 = mul i64 %35, %35, !dbg !7
#   %address36 = getelementptr i8, ptr %0, i64 131712, !dbg !7
#   store volatile i64 %36, ptr %address36, align 1, !dbg !7
#   %37 = add nuw i64 %2, 37, !dbg !7
#   %38 = mul i64 %37, %37, !dbg !7
#   %address38 = getelementptr i8, ptr %0, i64 131720, !dbg !7
#   store volatile i64 %38, ptr %address38, align 1, !dbg !7
#   %39 = add nuw i64 %2, 39, !dbg !7
#   %40 = mul i64 %39, %39, !dbg !7
#   %address40 = getelementptr i8, ptr %0, i64 131728, !dbg !7
#   store volatile i64 %40, ptr %address40, align 1, !dbg !7
#   %41 = add nuw i64 %2, 41, !dbg !7
#   %42 = mul i64 %41, %41, !dbg !7
#   %address42 = getelementptr i8, ptr %0, i64 131736, !dbg !7
#   store volatile i64 %42, ptr %address42, align 1, !dbg !7
#   %43 = add nuw i64 %2, 43, !dbg !7
#   %44 = mul i64 %43, %43, !dbg !7
#   %address44 = getelementptr i8, ptr %0, i64 131744, !dbg !7
#   store volatile i64 %44, ptr %address44, align 1, !dbg !7
#   %45 = add nuw i64 %2, 45, !dbg !7
#   %46 = mul i64 %45, %45, !dbg !7
#   %address46 = getelementptr i8, ptr %0, i64 131752, !dbg !7
#   store volatile i64 %46, ptr %address46, align 1, !dbg !7
#   %47 = add nuw i64 %2, 47, !dbg !7
#   %48 = mul i64 %47, %47, !dbg !7
#   %address48 = getelementptr i8, ptr %0, i64 131760, !dbg !7
#   store volatile i64 %48, ptr %address48, align 1, !dbg !7
#   %49 = add nuw i64 %2, 49, !dbg !7
#   %50 = mul i64 %49, %49, !dbg !7
#   %address50 = getelementptr i8, ptr %0, i64 131768, !dbg !7
#   store volatile i64 %50, ptr %address50, align 1, !dbg !7
#   %51 = add nuw i64 %2, 51, !dbg !7
#   %52 = mul i64 %51, %51, !dbg !7
#   %address52 = getelementptr i8, ptr %0, i64 131776, !dbg !7
#   store volatile i64 %52, ptr %address52, align 1, !dbg !7
#   %mrv = insertvalue { i64 } poison, i64 %left.0, 0, !dbg !7
#   ret { i64 } %mrv, !dbg !7
# }

#=== outcome
# Exit(0), 928 cycles, native
