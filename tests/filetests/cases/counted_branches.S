# version: 2
# show: counted outcome
/* Code that counts where it goes: each way of a branch has a counter. A call whose target is known needs none. */
  .globl _start
_start:
  li a0, 0
  li a1, 3
1:
  add a0, a0, a1
  addi a1, a1, -1
  bnez a1, 1b
  la t1, add_one
  jalr t1
  li a7, 93
  ecall
add_one:
  addi a0, a0, 1
  ret

#=== counted
# function at 0x10000:
#      0  nop [rax]
#      7  sub r11,6
#      b  mov ebx,0
#     10  mov r12d,3
#     16  sub r11,5
#     1a  js 6a
#     20  add rbx,r12
#     23  add r12,0FFFFFFFFFFFFFFFFh
#     27  test r12,r12
#     2a  jne 7c
#     30  inc byte ptr [r10+4121EEh]
#     37  mov r13d,10014h
#     3d  mov r14d,1001Ch
#     43  call function at 0x1001c
#     48  sub r11,1F5h
#     4f  js 85
#     55  mov r15d,5Dh
#     5b  mov eax,10018h
#     60  call ecall
#     65  ud1 eax,[eax+4]
#     6a  call qword ptr [r10+411008h]
#     71  nop [r10+r11+10004h]
#     7a  jmp 20
#     7c  inc byte ptr [r10+412BBAh]
#     83  jmp 16
#     85  call qword ptr [r10+411008h]
#     8c  nop [r10+r11+10014h]
#     95  jmp 55
# function at 0x1001c:
#      0  nop [rax]
#      7  sub r11,4
#      b  js 1d
#     11  add rbx,1
#     15  nop [rax]
#     1c  ret
#     1d  call qword ptr [r10+411008h]
#     24  nop [r10+r11+1001Ch]
#     2d  jmp 11

#=== outcome
# Exit(7), 526 cycles, native
