# version: 2
# show: ir outcome
/* A syscall that may stop the VM (2603) reads every register, and so does what calls it. What is called beside it can be
   entered by the host, and gives back all that it changes. */
  .globl _start
_start:
  li a0, 5
  jal double
  jal yield
  li a7, 93
  ecall
yield:
  lui a7, 1
  addiw a7, a7, -1493
  ecall
  ret
double:
  add t0, a0, a0
  mv a0, t0
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} changes {t0 a0 a7}
#
# function fn0 at 0x10000 {sp gp tp t1 t2 s0 s1 a1 a2 a3 a4 a5 a6 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} -> {} exposed resumable
# block0 at 0x10000 cycles 4:
#     v0 = const 0x0
#     v1 = const 0x5
#     v2 = const 0x10006
#     ra = v2
#     a0 = v1
#     call fn2, then block1
# block1 at 0x10006 cycles 3:
#     v0 = const 0x1000a
#     ra = v0
#     call fn1, then block2
# block2 at 0x1000a cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1000e
#
# function fn1 at 0x10012 {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} -> {a0 a7} exposed resumable
# block0 at 0x10012 cycles 501 metered:
#     v0 = const 0xa2b
#     a7 = v0
#     ecall at 0x10018 {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6}, then block1
# block1 at 0x1001c cycles 3 metered:
#     return
#
# function fn2 at 0x1001e {a0} -> {t0 a0} exposed resumable
# block0 at 0x1001e cycles 5 metered:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = add v0, v0
#     v3 = add v1, v2
#     t0 = v2
#     a0 = v3
#     return

#=== outcome
# InvalidEcall, 513 cycles, interpreted, native code left: ecall
