# version: 2
# show: program ir baseline outcome
/* A call, a callee-saved register in a frame, a return. */
  .globl _start
  .type _start, @function
_start:
  li s0, 5
  li a0, 1
  jal ra, twice
  add a0, a0, s0
  li a7, 93
  ecall
  .type twice, @function
twice:
  addi sp, sp, -16
  sd ra, 8(sp)
  sd s0, 0(sp)
  mv s0, a0
  jal ra, one_more
  add a0, a0, s0
  ld s0, 0(sp)
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
  .type one_more, @function
one_more:
  addi a0, a0, 1
  ret

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed named "_start"
# block0 at 0x10000:
#     0x10000: addi s0,zero,5
#     0x10002: addi a0,zero,1
#     0x10004: jal ra,14
#     -> call fn1, ra = 0x10008, then block1
# block1 at 0x10008:
#     0x10008: add a0,a0,s0
#     0x1000a: addi a7,zero,93
#     0x1000e: ecall
#     -> exit
#
# function fn1 at 0x10012 link ra named "twice"
# block0 at 0x10012:
#     0x10012: addi sp,sp,-16
#     0x10014: sd ra,8(sp)
#     0x10016: sd s0,0(sp)
#     0x10018: add s0,zero,a0
#     0x1001a: jal ra,14
#     -> call fn2, ra = 0x1001e, then block1
# block1 at 0x1001e:
#     0x1001e: add a0,a0,s0
#     0x10020: ld s0,0(sp)
#     0x10022: ld ra,8(sp)
#     0x10024: addi sp,sp,16
#     0x10026: jalr zero,0(ra)
#     -> return
#
# function fn2 at 0x10028 link ra named "one_more"
# block0 at 0x10028:
#     0x10028: addi a0,a0,1
#     0x1002a: jalr zero,0(ra)
#     -> return

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 5:
#     v0 = const 0x0
#     v1 = const 0x5
#     v2 = const 0x1
#     v3 = const 0x10008
#     ra = v3
#     s0 = v1
#     a0 = v2
#     call fn1, then block1
# block1 at 0x10008 cycles 502 metered:
#     v0 = read a0
#     v1 = read s0
#     v2 = const 0x0
#     v3 = const 0x5d
#     v4 = add v0, v1
#     a0 = v4
#     a7 = v3
#     exit at 0x1000e
#
# function fn1 at 0x10012 {ra sp s0 a0} -> {s0 a0} frame -16
# block0 at 0x10012 cycles 9:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = read ra
#     v3 = read s0
#     v4 = const 0x0
#     v5 = read a0
#     v6 = const 0x1001e
#     v7 = add v0, v1
#     store.d v0-8, v2
#     store.d v0-16, v3
#     v10 = add v4, v5
#     ra = v6
#     sp = v7
#     s0 = v10
#     call fn2, then block1
# block1 at 0x1001e cycles 9 metered:
#     v0 = read a0
#     v1 = read s0
#     v2 = read sp
#     v3 = const 0x10
#     v4 = add v0, v1
#     v5 = load.du v2+0
#     v6 = load.du v2+8
#     v7 = add v2, v3
#     ra = v6
#     sp = v7
#     s0 = v5
#     a0 = v4
#     return if v6 is the return address
#
# function fn2 at 0x10028 {a0} -> {a0}
# block0 at 0x10028 cycles 4 metered:
#     v0 = read a0
#     v1 = const 0x1
#     v2 = add v0, v1
#     a0 = v2
#     return

#=== baseline
# function at 0x10000:
#      0  nop [rax]
#      7  sub r11,5
#      b  mov r13d,10008h
#     11  mov ebx,1
#     16  mov r12d,5
#     1c  call function at 0x10012
#     21  sub r11,1F6h
#     28  js 46
#     2e  add rbx,r12
#     31  mov r15d,5Dh
#     37  mov eax,1000Eh
#     3c  call ecall
#     41  ud1 eax,[eax+4]
#     46  call qword ptr [r10+411008h]
#     4d  nop [r10+r11+10008h]
#     56  jmp 2e
# function at 0x10012:
#      0  sub rsp,8
#      7  mov [rsp],r13
#      b  lea rcx,[r14-11010h]
#     12  cmp rcx,3EEFF0h
#     19  ja bad_address
#     1f  sub r11,9
#     23  lea rax,[r14-10h]
#     27  mov [r10+r14-8],r13
#     2c  mov [r10+r14-10h],r12
#     31  mov r12,rbx
#     34  mov r13d,1001Eh
#     3a  mov r14,rax
#     3d  call function at 0x10028
#     42  sub r11,9
#     46  js 6e
#     4c  add rbx,r12
#     4f  mov r12,[r10+r14]
#     53  mov r13,[r10+r14+8]
#     58  add r14,10h
#     5c  cmp r13,[rsp]
#     60  jne unknown_target
#     66  add rsp,8
#     6d  ret
#     6e  call qword ptr [r10+411008h]
#     75  nop [r10+r11+1001Eh]
#     7e  jmp 4c
# function at 0x10028:
#      0  nop [rax]
#      7  sub r11,4
#      b  js 1d
#     11  add rbx,1
#     15  nop [rax]
#     1c  ret
#     1d  call qword ptr [r10+411008h]
#     24  nop [r10+r11+10028h]
#     2d  jmp 11

#=== outcome
# Exit(8), 529 cycles, native
