/* Control flow that no compiler writes, one per build (-DCASE_...). */
#include "exit.h"
  .section .text.start, "ax"
  .globl _start
  .type _start, @function
_start:
  hidden_zero t6
#if defined(CASE_RECURSION)                 /* 3,000,000 calls deep without any guest stack, then exit */
  li a0, 3000000
  call descend
  exit
#elif defined(CASE_RECURSION_RETURN)        /* the same, but at the bottom it returns: ra is the innermost call for ever */
  li a0, 3000000
  call descend
  exit
#elif defined(CASE_RECURSION_STACK)         /* 150,000 frames of 16 bytes, then back */
  li a0, 150000
  call descend
  li a0, 0
  exit
#elif defined(CASE_RECURSION_OVERFLOW)      /* frames until the stack reaches the code */
  li a0, 3000000
  call descend
  exit
#elif defined(CASE_LOOP)
  j .
#elif defined(CASE_LOOP_BRANCH)
1:
  addi a0, a0, 1
  bgez t6, 1b
#elif defined(CASE_LOOP_TAIL)               /* two functions that jump to each other for ever */
  call ping
#elif defined(CASE_LOOP_CALL)               /* a function that is called for ever */
1:
  call leaf
  j 1b
#elif defined(CASE_RETURN_FORGED)           /* a function returns to another one */
  call forge
  li a0, 1
  exit
#elif defined(CASE_RETURN_MIDDLE)           /* a function returns two bytes further */
  call skip
  .option push
  .option rvc
  c.li a0, 1
  .option pop
  exit
#elif defined(CASE_RETURN_TWICE)            /* as setjmp and longjmp: a stale return address is used again */
  call remember
  addi s0, s0, 1
  li a1, 3
  mv a0, s0
  bge s0, a1, 1f
  mv ra, s1
  ret
1:
  exit
#elif defined(CASE_JUMP_ODD)                /* jalr clears bit 0 */
  la a0, leaf
  add a0, a0, t6
  ori a0, a0, 1
  jalr a0
  li a0, 0
  exit
#elif defined(CASE_JUMP_MIDDLE)             /* into the middle of an instruction: 0x4501 is c.li a0, 0 */
  la a0, 1f
  add a0, a0, t6
  jr a0
  .balign 4
  .2byte 0x0537
1:
  .2byte 0x4501
  exit
#elif defined(CASE_JUMP_DATA)
  la a0, writable
  add a0, a0, t6
  jr a0
#elif defined(CASE_JUMP_WRITTEN)            /* code written at run time */
  la a0, writable
  li a1, 0x00008067                         /* ret */
  sw a1, 0(a0)
  jalr a0
  li a0, 0
  exit
#elif defined(CASE_JUMP_CONSTANTS)
  la a0, constant
  add a0, a0, t6
  jr a0
#elif defined(CASE_JUMP_WRAP)               /* leaf + 2^32: versions 0 and 1 may run a cached trace of leaf */
  call leaf
  la a0, leaf
  li a1, 1
  slli a1, a1, 32
  add a0, a0, a1
  jalr a0
  li a0, 0
  exit
#elif defined(CASE_JUMP_END)
  li a0, 0x400000
  add a0, a0, t6
  jr a0
#elif defined(CASE_JUMP_NEGATIVE)
  addi a0, t6, -2
  jr a0
#elif defined(CASE_JUMP_NULL)
  jr t6
#elif defined(CASE_JUMP_OWN_BODY)           /* into its own unrolled body, at a computed place */
  li s0, 9
1:
  la a1, body
  slli a2, s0, 2
  sub a1, a1, a2
  addi a1, a1, 40
  li a0, 0
  jalr ra, a1
  add s1, s1, a0
  addi s0, s0, -1
  bgez s0, 1b
  mv a0, s1
  exit
#elif defined(CASE_TABLE_FORGED)            /* a jump table in constants that is rewritten before it is used */
  la a1, table
  la a2, forged
  sd a2, 8(a1)
  li a0, 1
  add a0, a0, t6
  call dispatch
  exit
#elif defined(CASE_FALL_OFF)                /* runs into the zeros behind the code */
  j last
#elif defined(CASE_INVALID)
  li a0, 3
  .4byte 0xffffffff
#elif defined(CASE_INVALID_SKIPPED)
  li a0, 0
  beqz t6, 1f
  .4byte 0xffffffff
1:
  exit
#elif defined(CASE_ECALL_UNKNOWN)
  li a7, 4242
  ecall
#elif defined(CASE_EBREAK)
  ebreak
  li a0, 0
  exit
#elif defined(CASE_LINK_T0)                 /* calls linked through t0, as compilers do to save registers */
  jal t0, millicode
  li a0, 0
  exit
#elif defined(CASE_LINK_SWAPPED)            /* a call through ra with the link in ra */
  la ra, leaf
  jalr ra, ra
  li a0, 0
  exit
#elif defined(CASE_LINK_CLOBBERED)          /* millicode that changes ra under a function which never writes it */
  call trusting
  li a0, 1
  exit
#elif defined(CASE_LINK_T0_JUMP)            /* linked through t0, goes on to a function that returns through ra */
  la a5, leaf
  la ra, 1f
  jal t0, onward
  li a0, 1
  exit
1:
  li a0, 2
  exit
#elif defined(CASE_LINK_T0_CALLEE)          /* linked through t0, calls a function that changes t0 */
  jal t0, caller
  li a0, 1
  exit
#else
#error "no such case"
#endif
  .size _start, . - _start

  .text
  .type leaf, @function
leaf:
  addi a0, a0, 1
  ret
  .size leaf, . - leaf

  .type millicode, @function
millicode:
  sd s0, -8(sp)
  jr t0
  .size millicode, . - millicode

  .type trusting, @function
trusting:
  jal t0, clobber
  ret
  .size trusting, . - trusting

  .type clobber, @function
clobber:
  la ra, elsewhere
  jr t0
  .size clobber, . - clobber

  .type elsewhere, @function
elsewhere:
  li a0, 3
  exit
  .size elsewhere, . - elsewhere

  .type onward, @function
onward:
  jr a5
  .size onward, . - onward

  .type caller, @function
caller:
  jal ra, forget
  jr t0
  .size caller, . - caller

  .type forget, @function
forget:
  la t0, elsewhere
  ret
  .size forget, . - forget

  .type descend, @function
descend:
#if defined(CASE_RECURSION_STACK) || defined(CASE_RECURSION_OVERFLOW)
  addi sp, sp, -16
  sd ra, 8(sp)
  beqz a0, 1f
  addi a0, a0, -1
  call descend
1:
  ld ra, 8(sp)
  addi sp, sp, 16
  ret
#else
  addi a0, a0, -1
  beqz a0, 1f
  call descend
  ret
1:
#if defined(CASE_RECURSION_RETURN)
  ret
#else
  exit
#endif
#endif
  .size descend, . - descend

  .type ping, @function
ping:
  addi a0, a0, 1
  tail pong
  .size ping, . - ping
  .type pong, @function
pong:
  addi a0, a0, 2
  tail ping
  .size pong, . - pong

  .type forge, @function
forge:
  la ra, forged
  ret
  .size forge, . - forge
  .type forged, @function
forged:
  li a0, 42
  exit
  .size forged, . - forged

  .type skip, @function
skip:
  li a0, 0
  addi ra, ra, 2
  ret
  .size skip, . - skip

  .type remember, @function
remember:
  mv s1, ra
  ret
  .size remember, . - remember

  .option push
  .option norvc
  .type unrolled, @function
unrolled:
body:
  addi a0, a0, 1
  addi a0, a0, 2
  addi a0, a0, 3
  addi a0, a0, 4
  addi a0, a0, 5
  addi a0, a0, 6
  addi a0, a0, 7
  addi a0, a0, 8
  addi a0, a0, 9
  addi a0, a0, 10
  ret
  .size unrolled, . - unrolled
  .option pop

  .type dispatch, @function
dispatch:
  li a1, 2
  bgeu a0, a1, 1f
  slli a0, a0, 3
  la a1, table
  add a0, a0, a1
  ld a0, 0(a0)
  jr a0
1:
  li a0, 9
  ret
2:
  li a0, 10
  ret
3:
  li a0, 11
  ret
  .size dispatch, . - dispatch

  .section .text.zz_last, "ax"
  .type last, @function
last:
  addi a0, a0, 1
  .size last, . - last

  .section .constants, "a"
  .balign 8
table:
  .dword 2b
  .dword 3b
constant:
  .dword 0x0000806700008067
  .data
  .balign 8
writable:
  .dword 0x0000806700008067
