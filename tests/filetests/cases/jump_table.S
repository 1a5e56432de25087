# version: 2
# args: x
# show: program lifted ir baseline outcome
/* A switch through a table of 32-bit distances, as gcc writes it. */
  .globl _start
_start:
  lbu a0, 0(sp)
  li a1, 3
  bgtu a0, a1, 9f
  la a2, table
  slli a0, a0, 2
  add a0, a0, a2
  lw a0, 0(a0)
  add a0, a0, a2
  jr a0
1:
  li a0, 11
  j 9f
2:
  li a0, 12
  j 9f
3:
  li a0, 13
9:
  li a7, 93
  ecall
  .section .rodata
  .balign 4
table:
  .word 1b - table
  .word 2b - table
  .word 3b - table
  .word 2b - table

#=== program
# program version 2 isa imc+b+mop
# entry 0x10000 code 0x10000..0x11000
#
# function fn0 at 0x10000 link ra exposed
# block0 at 0x10000:
#     0x10000: lbu a0,0(sp)
#     0x10004: addi a1,zero,3
#     0x10006: bltu a1,a0,32
#     -> branch block5 else block1
# block1 at 0x1000a:
#     0x1000a: load.imm a2,65584
#     0x10012: slli a0,a0,2
#     0x10014: add a0,a0,a2
#     0x10016: lw a0,0(a0)
#     0x10018: add a0,a0,a2
#     0x1001a: jalr zero,0(a0)
#     -> jump table [block2 block3 block4]
# block2 at 0x1001c:
#     0x1001c: addi a0,zero,11
#     0x1001e: jal zero,8
#     -> jump block5
# block3 at 0x10020:
#     0x10020: addi a0,zero,12
#     0x10022: jal zero,4
#     -> jump block5
# block4 at 0x10024:
#     0x10024: addi a0,zero,13
#     -> jump block5
# block5 at 0x10026:
#     0x10026: addi a7,zero,93
#     0x1002a: ecall
#     -> exit

#=== lifted
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {} changes {}
#
# function fn0 at 0x10000 {} -> {} exposed sp compared
# block0 at 0x10000 cycles 7:
#     v0 = read sp
#     v1 = const 0x0
#     v2 = const 0x3
#     check.read v0+0..+1
#     v4 = load.bu v0+0
#     v5 = lt.u v2, v4
#     a0 = v4
#     a1 = v2
#     branch v5, block5, block1
# block1 at 0x1000a cycles 10:
#     v0 = const 0x10030
#     v1 = read a0
#     v2 = const 0x2
#     v3 = const 0x1001c
#     v4 = const 0xfffffffffffffffe
#     v5 = shl v1, v2
#     check.read v5+65584..+65588
#     v7 = add v5, v0
#     v8 = load.w v5+65584
#     v9 = add v8, v0
#     v10 = and v9, v4
#     a0 = v9
#     a2 = v0
#     jump.indirect v10, [0x1001c: block2, 0x10020: block3, 0x10024: block4]
# block2 at 0x1001c cycles 4:
#     v0 = const 0x0
#     v1 = const 0xb
#     v2 = const 0x10020
#     a0 = v1
#     jump block5
# block3 at 0x10020 cycles 4:
#     v0 = const 0x0
#     v1 = const 0xc
#     v2 = const 0x10024
#     a0 = v1
#     jump block5
# block4 at 0x10024 cycles 1:
#     v0 = const 0x0
#     v1 = const 0xd
#     a0 = v1
#     jump block5
# block5 at 0x10026 cycles 501:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1002a

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 7 charged 17:
#     v0 = read sp
#     v1 = const 0x0
#     v2 = const 0x3
#     check.read v0+0..+1
#     v4 = load.bu v0+0
#     v5 = lt.u v2, v4
#     a0 = v4
#     a1 = v2
#     branch v5, block5, block1
# block1 at 0x1000a cycles 10 charged 0:
#     v0 = const 0x10030
#     v1 = read a0
#     v2 = const 0x2
#     v3 = const 0x1001c
#     v4 = const 0xfffffffffffffffe
#     v5 = shl v1, v2
#     check.read v5+65584..+65588
#     v7 = add v5, v0
#     v8 = load.w v5+65584
#     v9 = add v8, v0
#     v10 = and v9, v4
#     a0 = v9
#     a2 = v0
#     jump.indirect v10, [0x1001c: block2, 0x10020: block3, 0x10024: block4] by v5 in 0x10030: 0 1 2 1 times 4 bytes
# block2 at 0x1001c cycles 4 charged 14:
#     v0 = const 0x0
#     v1 = const 0xb
#     v2 = const 0x10020
#     a0 = v1
#     jump block5
# block3 at 0x10020 cycles 4 charged 14:
#     v0 = const 0x0
#     v1 = const 0xc
#     v2 = const 0x10024
#     a0 = v1
#     jump block5
# block4 at 0x10024 cycles 1 charged 11:
#     v0 = const 0x0
#     v1 = const 0xd
#     a0 = v1
#     jump block5
# block5 at 0x10026 cycles 501 charged 491 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1002a

#=== baseline
# function at 0x10000:
#      0  nop [rax]
#      7  sub r11,11h
#      b  cmp r12,3FFFFFh
#     12  ja bad_address
#     14  movzx ebx,byte ptr [r10+r12]
#     19  cmp rbx,3
#     1d  mov r13d,3
#     23  ja b8
#     29  mov rax,rbx
#     2c  shl rax,2
#     30  lea rcx,[rax+10030h]
#     37  cmp rcx,3FFFFCh
#     3e  ja bad_address
#     40  movsxd rcx,[r10+rax+10030h]
#     48  lea rbx,[rcx+10030h]
#     4f  mov rcx,rbx
#     52  and rcx,0FFFFFFFFFFFFFFFEh
#     56  mov rdx,rax
#     59  mov rax,rcx
#     5c  mov r14d,10030h
#     62  cmp rax,1001Ch
#     69  je 93
#     6f  cmp rax,10020h
#     76  je a1
#     7c  cmp rax,10024h
#     83  je af
#     89  jmp 8e
#     8e  jmp past_table
#     93  sub r11,0Eh
#     97  mov ebx,0Bh
#     9c  jmp b8
#     a1  sub r11,0Eh
#     a5  mov ebx,0Ch
#     aa  jmp b8
#     af  sub r11,0Bh
#     b3  mov ebx,0Dh
#     b8  sub r11,1EBh
#     bf  js da
#     c5  mov r15d,5Dh
#     cb  mov eax,1002Ah
#     d0  call ecall
#     d5  ud1 eax,[eax+4]
#     da  call qword ptr [r10+411008h]
#     e1  nop [r10+r11+10026h]
#     ea  jmp c5

#=== outcome
# Exit(12), 522 cycles, native
