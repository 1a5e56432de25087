# version: 2
# show: outcome
/* Most registers are passed through the state. A link comes back from a call by address without being passed back: what the state holds of
   `ra` is the callee's then, and who is called through another register and reads `ra` must find its own caller's. */
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
  call user
  la a1, user
  sub a0, a0, a1
  each sum
  li a7, 93
  ecall
user:
  addi sp, sp, -16
  sd ra, 0(sp)
  call reverse
  la t1, table
  ld t1, 0(t1)
  jalr t1
  jal t0, reader
  ld ra, 0(sp)
  addi sp, sp, 16
  ret
reader:
  mv a0, ra
  jr t0
reverse:
  addi sp, sp, -176
  each save
  each load
  addi sp, sp, 176
  ret
reverse_too:
  addi sp, sp, -176
  each save
  each load
  addi sp, sp, 176
  ret
called:
  mv t2, ra
  call reverse_too
  jal t0, reader
  mv ra, t2
  ret
  .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
other\number:
  addi s1, s1, \number
  j reverse_too
  .endr
  .data
  .balign 8
table:
  .dword called
  .irp number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
  .dword other\number
  .endr

#=== outcome
# Exit(-24), 766 cycles, native
