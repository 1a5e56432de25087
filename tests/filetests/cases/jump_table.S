# version: 2
# args: x
# show: program ir baseline outcome
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
#     0x1000a: load.imm a2,69632
#     0x10012: slli a0,a0,2
#     0x10014: add a0,a0,a2
#     0x10016: lw a0,0(a0)
#     0x10018: add a0,a0,a2
#     0x1001a: jalr zero,0(a0)
#     -> jump indirect [block2 block3 block4]
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

#=== ir
# module version 2 isa imc+b+mop
# code 0x10000..0x11000
# stores 0x11000..0x400000
# indirect {sp} changes {a0 a1 a2 a7}
#
# function fn0 at 0x10000 {sp} -> {} exposed
# block0 at 0x10000 cycles 7 charged 6:
#     v0 = read sp
#     v1 = const 0x0
#     v2 = const 0x3
#     check.read v0+0..+1
#     v4 = load.bu v0+0
#     v5 = lt.u v2, v4
#     a0 = v4
#     a1 = v2
#     branch v5, block5, block1
# block1 at 0x1000a cycles 10 charged 11 metered:
#     v0 = const 0x11000
#     v1 = read a0
#     v2 = const 0x2
#     v3 = const 0x1001c
#     v4 = const 0xfffffffffffffffe
#     v5 = shl v1, v2
#     check.read v5+69632..+69636
#     v7 = add v5, v0
#     v8 = load.w v5+69632
#     v9 = add v8, v0
#     v10 = and v9, v4
#     a0 = v9
#     a2 = v0
#     jump.indirect v10, [0x1001c: block2, 0x10020: block3, 0x10024: block4] or tail.call
# block2 at 0x1001c cycles 4 charged 3:
#     v0 = const 0x0
#     v1 = const 0xb
#     v2 = const 0x10020
#     a0 = v1
#     jump block5
# block3 at 0x10020 cycles 4 charged 3:
#     v0 = const 0x0
#     v1 = const 0xc
#     v2 = const 0x10024
#     a0 = v1
#     jump block5
# block4 at 0x10024 cycles 1 charged 0:
#     v0 = const 0x0
#     v1 = const 0xd
#     a0 = v1
#     jump block5
# block5 at 0x10026 cycles 501 charged 502 metered:
#     v0 = const 0x0
#     v1 = const 0x5d
#     a7 = v1
#     exit at 0x1002a

#=== baseline
# function at 0x10000:
#      0  sub rsp,8
#      7  sub r11,6
#      b  cmp r12,3FFFFFh
#     12  ja bad_address
#     14  movzx ebx,byte ptr [r10+r12]
#     19  cmp rbx,3
#     1d  mov r13d,3
#     23  ja d4
#     29  sub r11,0Bh
#     2d  js f6
#     33  mov rax,rbx
#     36  shl rax,2
#     3a  lea rcx,[rax+11000h]
#     41  cmp rcx,3FFFFCh
#     48  ja bad_address
#     4a  movsxd rax,[r10+rax+11000h]
#     52  lea rbx,[rax+11000h]
#     59  mov rax,rbx
#     5c  and rax,0FFFFFFFFFFFFFFFEh
#     60  mov rcx,rax
#     63  mov rax,rcx
#     66  mov r14d,11000h
#     6c  cmp rax,1001Ch
#     73  je b3
#     79  cmp rax,10020h
#     80  je c1
#     86  cmp rax,10024h
#     8d  je cf
#     93  jmp 98
#     98  mov [rsp],r12
#     9c  call dispatch
#     a1  cmp r12,[rsp]
#     a5  jne unknown_target
#     ab  add rsp,8
#     b2  ret
#     b3  sub r11,3
#     b7  mov ebx,0Bh
#     bc  jmp d4
#     c1  sub r11,3
#     c5  mov ebx,0Ch
#     ca  jmp d4
#     cf  mov ebx,0Dh
#     d4  sub r11,1F6h
#     db  js 10b
#     e1  mov r15d,5Dh
#     e7  mov eax,1002Ah
#     ec  call ecall
#     f1  ud1 eax,[eax+4]
#     f6  call qword ptr [r10+410138h]
#     fd  nop [r10+r11+1000Ah]
#    106  jmp 33
#    10b  call qword ptr [r10+410138h]
#    112  nop [r10+r11+10026h]
#    11b  jmp e1

#=== outcome
# Exit(12), 522 cycles, native
