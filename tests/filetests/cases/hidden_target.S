# version: 2
# show: ir outcome
/* A function that the host may enter is called by an address that nothing tells: it is found, with its registers. */
  .globl _start
_start:
  li s2, 7
  li s3, 1
  li a0, 0
  call stopping
  la a1, hidden
  ld a1, 0(a1)
  li a2, 0x100000
  sub a1, a1, a2
  li s2, 35
  jalr a1
  mv a0, s3
  li a7, 93
  ecall
stopping:
  addi sp, sp, -16
  sd ra, 8(sp)
  beqz a0, 1f
  li a7, 2601
  ecall
1:
  call adds
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
adds:
  add s3, s3, s2
  ret
  .data
  .balign 8
hidden:
  .dword adds + 0x100000

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} changes {a0 a7 s3}
#
# function fn0 at 0x10000 {sp gp tp t0 t1 t2 s0 s1 a1 a2 a3 a4 a5 a6 a7 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} -> {} exposed resumable
# block0 at 0x10000 cycles 6:
#     v0 = const 0x0
#     v1 = const 0x7
#     v2 = const 0x1
#     v3 = const 0x1000a
#     ra = v3
#     a0 = v0
#     s2 = v1
#     s3 = v2
#     call fn1, then block1
# block1 at 0x1000a cycles 9:
#     v0 = const 0x11000
#     v1 = const 0x100000
#     v2 = const 0x0
#     v3 = const 0x23
#     v4 = const 0x10020
#     v5 = const 0xfffffffffffffffe
#     check.read v0+0..+8
#     v7 = load.du v0+0
#     v8 = sub v7, v1
#     v9 = and v8, v5
#     ra = v4
#     a1 = v8
#     a2 = v1
#     s2 = v3
#     call.indirect v9, then block2 with {s3}
# block2 at 0x10020 cycles 502 metered:
#     v0 = const 0x0
#     v1 = read s3
#     v2 = const 0x5d
#     v3 = add v0, v1
#     a0 = v3
#     a7 = v2
#     exit at 0x10026
#
# function fn1 at 0x1002a {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6} -> {a0 a7 s3} exposed resumable frame -8
# block0 at 0x1002a cycles 6:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = read ra
#     v3 = read a0
#     v4 = const 0x0
#     v5 = add v0, v1
#     store.d v0-8, v2
#     v7 = eq v3, v4
#     sp = v5
#     branch v7, block2, block1
# block1 at 0x10030 cycles 501 metered:
#     v0 = const 0xa29
#     a7 = v0
#     ecall at 0x10036 {ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6}, then block2
# block2 at 0x1003a cycles 3:
#     v0 = const 0x1003e
#     ra = v0
#     call fn2, then block3
# block3 at 0x1003e cycles 6 metered:
#     v0 = read sp
#     v1 = const 0x10
#     v2 = load.du v0+8
#     v3 = add v0, v1
#     ra = v2
#     sp = v3
#     return if v2 is the return address
#
# function fn2 at 0x10044 {s2 s3} -> {s3} exposed resumable
# block0 at 0x10044 cycles 4 metered:
#     v0 = read s3
#     v1 = read s2
#     v2 = add v0, v1
#     s3 = v2
#     return

#=== outcome
# Exit(43), 540 cycles, native
