# version: 2
# args: x
# show: ir baseline outcome
/* Frames of no fixed size: `s0` says where `sp` was. In a function that calls nobody that is proved; behind a call it is not, since who
   knows what became of `s0`, and so the caller compares. */
  .globl _start
_start:
  lbu a0, 0(sp)
  addi sp, sp, -16
  sd a0, 8(sp)
  call leaf
  call caller
  ld a1, 8(sp)
  addi sp, sp, 16
  add a0, a0, a1
  andi a0, a0, 127
  li a7, 93
  ecall
leaf:
  addi sp, sp, -32
  sd s0, 24(sp)
  addi s0, sp, 32
  sub sp, sp, a0
  sb a0, 0(sp)
  lbu a0, 0(sp)
  addi sp, s0, -32
  ld s0, 24(sp)
  addi sp, sp, 32
  ret
caller:
  addi sp, sp, -32
  sd ra, 16(sp)
  sd s0, 24(sp)
  addi s0, sp, 32
  sub sp, sp, a0
  andi sp, sp, -16
  call leaf
  addi sp, s0, -32
  ld ra, 16(sp)
  ld s0, 24(sp)
  addi sp, sp, 32
  ret

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp s0} changes {}
#
# function fn0 at 0x10000 {sp s0} -> {} exposed frame -8
# block0 at 0x10000 cycles 9 metered:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = const 0x1000c
#     check.read v0+0..+1
#     v4 = load.bu v0+0
#     v5 = add v0, v1
#     store.d v0-8, v4
#     ra = v2
#     sp = v5
#     a0 = v4
#     call fn1, then block1
# block1 at 0x1000c cycles 3 metered:
#     v0 = const 0x10010
#     ra = v0
#     call fn2, then block2
# block2 at 0x10010 cycles 506 metered:
#     v0 = read sp
#     v1 = const 0x10
#     v2 = read a0
#     v3 = const 0x7f
#     v4 = const 0x0
#     v5 = const 0x5d
#     v6 = load.du v0+8
#     v7 = add v0, v1
#     v8 = add v2, v6
#     v9 = and v8, v3
#     sp = v7
#     a0 = v9
#     a1 = v6
#     a7 = v5
#     exit at 0x1001e
#
# function fn1 at 0x10022 {sp s0 a0} -> {s0 a0} frame -8
# block0 at 0x10022 cycles 18 metered:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read s0
#     v3 = const 0x20
#     v4 = read a0
#     v5 = add v0, v1
#     store.d v0-8, v2
#     v7 = add v5, v3
#     v8 = sub v5, v4
#     check.write v8+0..+1
#     store.b v8+0, v4
#     v11 = load.bu v8+0
#     v12 = add v7, v1
#     v13 = load.du v0-8
#     v14 = add v12, v3
#     sp = v14
#     s0 = v13
#     a0 = v11
#     return
#
# function fn2 at 0x1003e {ra sp s0 a0} -> {sp a0} frame -16 sp compared
# block0 at 0x1003e cycles 11 metered:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read ra
#     v3 = read s0
#     v4 = const 0x20
#     v5 = read a0
#     v6 = const 0xfffffffffffffff0
#     v7 = const 0x10052
#     v8 = add v0, v1
#     store.d v0-16, v2
#     store.d v0-8, v3
#     v11 = add v8, v4
#     v12 = sub v8, v5
#     v13 = and v12, v6
#     ra = v7
#     sp = v13
#     s0 = v11
#     call fn1, then block1
# block1 at 0x10052 cycles 9 metered:
#     v0 = read s0
#     v1 = const 0xffffffffffffffe0
#     v2 = const 0x20
#     check.read v0-16..+0
#     v4 = add v0, v1
#     v5 = load.du v0-16
#     v6 = load.du v0-8
#     v7 = add v4, v2
#     ra = v5
#     sp = v7
#     s0 = v6
#     return if v5 is the return address

#=== baseline
# function at 0x10000:
#      0  sub rsp,8
#      7  lea rcx,[rbx-11008h]
#      e  cmp rcx,3EEFF8h
#     15  ja bad_address
#     17  sub r11,9
#     1b  js 9c
#     21  cmp rbx,3FFFFFh
#     28  ja bad_address
#     2a  movzx r13d,byte ptr [r10+rbx]
#     2f  lea rax,[rbx-10h]
#     33  mov [r10+rbx-8],r13
#     38  mov r14d,1000Ch
#     3e  mov rbx,rax
#     41  call function at 0x10022
#     46  sub r11,3
#     4a  js b1
#     50  mov r14d,10010h
#     56  mov [rsp],rbx
#     5a  call function at 0x1003e
#     5f  cmp rbx,[rsp]
#     63  jne unknown_target
#     65  sub r11,1FAh
#     6c  js c3
#     72  mov r15,[r10+rbx+8]
#     77  add rbx,10h
#     7b  lea rax,[r13+r15]
#     80  mov r13,rax
#     83  and r13,7Fh
#     87  mov r9d,5Dh
#     8d  mov eax,1001Eh
#     92  call ecall
#     97  ud1 eax,[eax+4]
#     9c  call qword ptr [r10+410138h]
#     a3  nop [r10+r11+10000h]
#     ac  jmp 21
#     b1  call qword ptr [r10+410138h]
#     b8  nop [r10+r11+1000Ch]
#     c1  jmp 50
#     c3  call qword ptr [r10+410138h]
#     ca  nop [r10+r11+10010h]
#     d3  jmp 72
# function at 0x10022:
#      0  nop [rax]
#      7  lea rcx,[rbx-11008h]
#      e  cmp rcx,3EEFF8h
#     15  ja bad_address
#     1b  sub r11,12h
#     1f  js 67
#     25  lea rax,[rbx-20h]
#     29  mov [r10+rbx-8],r12
#     2e  lea rcx,[rax+20h]
#     32  sub rax,r13
#     35  lea rdx,[rax-11000h]
#     3c  cmp rdx,3EEFFFh
#     43  ja bad_address
#     49  mov [r10+rax],r13b
#     4d  movzx r13d,byte ptr [r10+rax]
#     52  add rcx,0FFFFFFFFFFFFFFE0h
#     56  mov r12,[r10+rbx-8]
#     5b  lea rbx,[rcx+20h]
#     5f  nop [rax]
#     66  ret
#     67  call qword ptr [r10+410138h]
#     6e  nop [r10+r11+10022h]
#     77  jmp 25
# function at 0x1003e:
#      0  sub rsp,8
#      7  mov [rsp],r14
#      b  lea rcx,[rbx-11010h]
#     12  cmp rcx,3EEFF0h
#     19  ja bad_address
#     1f  sub r11,0Bh
#     23  js 91
#     29  lea rax,[rbx-20h]
#     2d  mov [r10+rbx-10h],r14
#     32  mov [r10+rbx-8],r12
#     37  lea r12,[rax+20h]
#     3b  sub rax,r13
#     3e  mov rbx,rax
#     41  and rbx,0FFFFFFFFFFFFFFF0h
#     45  mov r14d,10052h
#     4b  call function at 0x10022
#     50  sub r11,9
#     54  js a3
#     5a  lea rax,[r12-10h]
#     5f  cmp rax,3FFFF0h
#     66  ja bad_address
#     6c  lea rax,[r12-20h]
#     71  mov r14,[r10+r12-10h]
#     76  mov r12,[r10+r12-8]
#     7b  lea rbx,[rax+20h]
#     7f  cmp r14,[rsp]
#     83  jne unknown_target
#     89  add rsp,8
#     90  ret
#     91  call qword ptr [r10+410138h]
#     98  nop [r10+r11+1003Eh]
#     a1  jmp 29
#     a3  call qword ptr [r10+410138h]
#     aa  nop [r10+r11+10052h]
#     b3  jmp 5a

#=== outcome
# Exit(2), 574 cycles, native
