# version: 2
# args: x
# show: lifted ir baseline outcome
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

#=== lifted
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed sp compared
# block0 at 0x10000 cycles 9:
#     v0 = read sp
#     v1 = const 0xfffffffffffffff0
#     v2 = const 0x1000c
#     check.read v0+0..+1
#     check.write v0-8..+0
#     v5 = load.bu v0+0
#     v6 = add v0, v1
#     store.d v0-8, v5
#     ra = v2
#     sp = v6
#     a0 = v5
#     call fn1, then block1
# block1 at 0x1000c cycles 3:
#     v0 = const 0x10010
#     ra = v0
#     call fn2, then block2
# block2 at 0x10010 cycles 506:
#     v0 = read sp
#     v1 = const 0x10
#     v2 = read a0
#     v3 = const 0x7f
#     v4 = const 0x0
#     v5 = const 0x5d
#     check.read v0+8..+16
#     v7 = load.du v0+8
#     v8 = add v0, v1
#     v9 = add v2, v7
#     v10 = and v9, v3
#     sp = v8
#     a0 = v10
#     a1 = v7
#     a7 = v5
#     exit at 0x1001e
#
# function fn1 at 0x10022 {} -> {} sp compared
# block0 at 0x10022 cycles 18:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read s0
#     v3 = const 0x20
#     v4 = read a0
#     check.write v0-8..+0
#     check.read v0-8..+0
#     v7 = add v0, v1
#     store.d v0-8, v2
#     v9 = add v7, v3
#     v10 = sub v7, v4
#     check.write v10+0..+1
#     check.read v10+0..+1
#     store.b v10+0, v4
#     v14 = load.bu v10+0
#     v15 = add v9, v1
#     v16 = load.du v0-8
#     v17 = add v15, v3
#     sp = v17
#     s0 = v16
#     a0 = v14
#     return
#
# function fn2 at 0x1003e {} -> {} sp compared
# block0 at 0x1003e cycles 11:
#     v0 = read sp
#     v1 = const 0xffffffffffffffe0
#     v2 = read ra
#     v3 = read s0
#     v4 = const 0x20
#     v5 = read a0
#     v6 = const 0xfffffffffffffff0
#     v7 = const 0x10052
#     check.write v0-16..+0
#     v9 = add v0, v1
#     store.d v0-16, v2
#     store.d v0-8, v3
#     v12 = add v9, v4
#     v13 = sub v9, v5
#     v14 = and v13, v6
#     ra = v7
#     sp = v14
#     s0 = v12
#     call fn1, then block1
# block1 at 0x10052 cycles 9:
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

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp s0} changes {}
#
# function fn0 at 0x10000 {sp s0} -> {} exposed frame -8
# block0 at 0x10000 cycles 9:
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
# block1 at 0x1000c cycles 3:
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
# block0 at 0x1003e cycles 11:
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
#     1b  cmp rbx,3FFFFFh
#     22  ja bad_address
#     24  movzx r13d,byte ptr [r10+rbx]
#     29  lea rax,[rbx-10h]
#     2d  mov [r10+rbx-8],r13
#     32  mov r14d,1000Ch
#     38  mov rbx,rax
#     3b  call function at 0x10022
#     40  sub r11,3
#     44  mov r14d,10010h
#     4a  mov [rsp],rbx
#     4e  call function at 0x1003e
#     53  cmp rbx,[rsp]
#     57  jne unknown_target
#     5d  sub r11,1FAh
#     64  js 94
#     6a  mov r15,[r10+rbx+8]
#     6f  add rbx,10h
#     73  lea rax,[r13+r15]
#     78  mov r13,rax
#     7b  and r13,7Fh
#     7f  mov r9d,5Dh
#     85  mov eax,1001Eh
#     8a  call ecall
#     8f  ud1 eax,[eax+4]
#     94  call qword ptr [r10+411008h]
#     9b  nop [r10+r11+10010h]
#     a4  jmp 6a
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
#     67  call qword ptr [r10+411008h]
#     6e  nop [r10+r11+10022h]
#     77  jmp 25
# function at 0x1003e:
#      0  sub rsp,8
#      7  mov [rsp],r14
#      b  lea rcx,[rbx-11010h]
#     12  cmp rcx,3EEFF0h
#     19  ja bad_address
#     1f  sub r11,0Bh
#     23  lea rax,[rbx-20h]
#     27  mov [r10+rbx-10h],r14
#     2c  mov [r10+rbx-8],r12
#     31  lea r12,[rax+20h]
#     35  sub rax,r13
#     38  mov rbx,rax
#     3b  and rbx,0FFFFFFFFFFFFFFF0h
#     3f  mov r14d,10052h
#     45  call function at 0x10022
#     4a  sub r11,9
#     4e  js 8b
#     54  lea rax,[r12-10h]
#     59  cmp rax,3FFFF0h
#     60  ja bad_address
#     66  lea rax,[r12-20h]
#     6b  mov r14,[r10+r12-10h]
#     70  mov r12,[r10+r12-8]
#     75  lea rbx,[rax+20h]
#     79  cmp r14,[rsp]
#     7d  jne unknown_target
#     83  add rsp,8
#     8a  ret
#     8b  call qword ptr [r10+411008h]
#     92  nop [r10+r11+10052h]
#     9b  jmp 54

#=== outcome
# Exit(2), 574 cycles, native
