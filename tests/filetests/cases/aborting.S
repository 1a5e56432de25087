# version: 2
# args: x
# show: program ir outcome
/* What follows a call that never returns is cut off: here the next function, which reads what this one does not pass. */
  .globl _start
_start:
  lbu a0, 0(sp)
  call checked
  li a1, 2
  call other
  li a7, 93
  ecall
checked:
  bnez a0, 1f
  call refuse
1:
  addi a0, a0, 1
  ret
refuse:
  addi sp, sp, -16
  sd ra, 8(sp)
  call stop
other:
  add a0, a0, a1
  ret
stop:
  ebreak
  .type last, @function
last:
  ret

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: lbu a0,0(sp)
#     0x10004: jal ra,18
#     -> call fn1, ra = 0x10008, then block1
# block1 at 0x10008:
#     0x10008: addi a1,zero,2
#     0x1000a: jal ra,30
#     -> call fn3, ra = 0x1000e, then block2
# block2 at 0x1000e:
#     0x1000e: addi a7,zero,93
#     0x10012: ecall
#     -> exit
#
# function fn1 at 0x10016 link ra
# block0 at 0x10016:
#     0x10016: bne a0,zero,6
#     -> branch block2 else block1
# block1 at 0x10018:
#     0x10018: jal ra,8
#     -> call fn2, ra = 0x1001c, then block2
# block2 at 0x1001c:
#     0x1001c: addi a0,a0,1
#     0x1001e: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x10020 link ra
# block0 at 0x10020:
#     0x10020: addi sp,sp,-16
#     0x10022: sd ra,8(sp)
#     0x10024: jal ra,8
#     -> call fn4, ra = 0x10028, then block1
# block1 at 0x10028:
#     -> tail call fn3
#
# function fn3 at 0x10028 link ra
# block0 at 0x10028:
#     0x10028: add a0,a0,a1
#     0x1002a: jalr zero,0(ra)
#     -> return
#
# function fn4 at 0x1002c link ra
# block0 at 0x1002c:
#     0x1002c: ebreak
#     -> leave

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 6:
#     v0 = read sp
#     v1 = const 0x10008
#     check.read v0+0..+1
#     v3 = load.bu v0+0
#     ra = v1
#     a0 = v3
#     call fn1, then block1
# block1 at 0x10008 cycles 4:
#     v0 = const 0x0
#     v1 = const 0x2
#     v2 = const 0x1000e
#     ra = v2
#     a1 = v1
#     call fn3, then block2
# block2 at 0x1000e cycles 501 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x10012
#
# function fn1 at 0x10016 {ra sp a0} -> {a0}
# block0 at 0x10016 cycles 3 charged 0:
#     v0 = read a0
#     v1 = const 0x0
#     v2 = ne v0, v1
#     branch v2, block2, block1
# block1 at 0x10018 cycles 3 charged 6:
#     v0 = const 0x1001c
#     ra = v0
#     call fn2, then block3
# block2 at 0x1001c cycles 4 charged 7 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = read ra
#     v3 = add v0, v1
#     a0 = v3
#     return if v2 is the return address
# block3 at 0x1001c cycles 0:
#     leave
#
# function fn2 at 0x10020 {ra sp} -> {} frame -8
# block0 at 0x10020 cycles 6:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = read ra
#     v3 = const 0x10028
#     v4 = add v0, v1
#     store.d v0-8, v2
#     ra = v3
#     sp = v4
#     call fn4, then block1
# block1 at 0x10028 cycles 0:
#     leave
#
# function fn3 at 0x10028 {a0 a1} -> {a0}
# block0 at 0x10028 cycles 4 metered:
#     v0 = read a0
#     v1 = read a1
#     v2 = add v0, v1
#     a0 = v2
#     return
#
# function fn4 at 0x1002c {} -> {}
# block0 at 0x1002c cycles 500:
#     leave

#=== outcome
# Exit(4), 522 cycles, native
