# version: 2
# show: ir asm outcome
/* A loop without an end is stopped by the cycle limit. */
  .globl _start
_start:
  j _start

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed
# block0 at 0x10000 cycles 3 metered:
#     v0 = const 0x10002
#     jump block0

#=== asm
# enter_10000:
# .Lfunc_begin0:
#   movq  4260104(%rax), %rcx
# .Ltmp0:
# .LBB0_1:
# .Ltmp1:
#   addq  $-3, %rcx
#   jns  .LBB0_1
#   #APP
#   callq  *4263944(%rax)
#   {disp32}  nopl  65536(%rax,%rcx)
#   #NO_APP
#   jmp  .LBB0_1
# .Ltmp2:
# .Lfunc_end0:

#=== outcome
# CyclesExceeded, 999999 cycles, interpreted, native code left: out_of_cycles
