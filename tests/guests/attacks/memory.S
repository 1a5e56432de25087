/* Accesses at the edges of memory and far beyond them, one per build (-DCASE_...): what is legal must work, the rest
 * must end as ckb-vm's interpreter ends it. */
#include "exit.h"
  .section .text.start, "ax"
  .globl _start
  .type _start, @function
_start:
  hidden_zero t6
#if defined(CASE_READ_END)                  /* first byte behind memory */
  li a0, 0x400000
  ld a0, 0(a0)
#elif defined(CASE_READ_LAST)               /* the last eight bytes; version 0 refuses them */
  li a0, 0x3ffff8
  ld a0, 0(a0)
#elif defined(CASE_READ_DEAD)               /* nobody reads the value */
  li a0, 0x400000
  add a0, a0, t6
  ld a1, 8(a0)
  li a1, 0
  li a0, 0
#elif defined(CASE_READ_STRADDLE)           /* seven bytes inside, one outside */
  li a0, 0x3ffff9
  add a0, a0, t6
  ld a0, 0(a0)
#elif defined(CASE_READ_NEGATIVE)
  addi a0, t6, -8
  ld a0, 0(a0)
#elif defined(CASE_READ_NEGATIVE_BASE)      /* -8 + 16 is legal */
  addi a0, t6, -8
  ld a0, 16(a0)
#elif defined(CASE_READ_NEGATIVE_OFFSET)    /* 16 - 24 is not */
  addi a0, t6, 16
  ld a0, -24(a0)
#elif defined(CASE_READ_WRAP)               /* 2^32 + 16 is not 16 */
  li a0, 1
  slli a0, a0, 32
  add a0, a0, t6
  ld a0, 16(a0)
#elif defined(CASE_READ_WRAP_BELOW)         /* 2^32 - 8 */
  li a0, 1
  slli a0, a0, 32
  add a0, a0, t6
  ld a0, -8(a0)
#elif defined(CASE_READ_FAR)                /* 256 MiB */
  li a0, 0x10000000
  add a0, a0, t6
  lw a0, 0(a0)
#elif defined(CASE_READ_HOST_STATE)         /* where the host might keep its own things behind a guard */
  li a0, 0x410000
  add a0, a0, t6
  ld a0, 0(a0)
#elif defined(CASE_READ_ABOVE47)
  li a0, 1
  slli a0, a0, 47
  add a0, a0, t6
  lb a0, 16(a0)
#elif defined(CASE_READ_ABOVE63)
  li a0, 1
  slli a0, a0, 63
  add a0, a0, t6
  lbu a0, 0(a0)
#elif defined(CASE_READ_MAXIMUM)            /* 2^63 - 1 */
  li a0, -1
  srli a0, a0, 1
  add a0, a0, t6
  lb a0, 0(a0)
#elif defined(CASE_READ_CODE)               /* code is readable */
  la a0, _start
  ld a0, 0(a0)
  li a0, 0
#elif defined(CASE_WRITE_END)
  li a0, 0x400000
  sd zero, 0(a0)
#elif defined(CASE_WRITE_LAST)
  li a0, 0x3ffff8
  sd a0, 0(a0)
  li a0, 0
#elif defined(CASE_WRITE_STRADDLE)
  li a0, 0x3ffffd
  add a0, a0, t6
  sw a0, 0(a0)
#elif defined(CASE_WRITE_NEGATIVE)
  addi a0, t6, -1
  sb a0, 0(a0)
#elif defined(CASE_WRITE_WRAP)
  li a0, 1
  slli a0, a0, 32
  add a0, a0, t6
  sd a0, 16(a0)
#elif defined(CASE_WRITE_FAR)
  li a0, 0x7ffff000
  add a0, a0, t6
  sh a0, 0(a0)
#elif defined(CASE_WRITE_HOST_STATE)
  li a0, 0x410000
  add a0, a0, t6
  sd a0, 256(a0)
#elif defined(CASE_WRITE_ABOVE47)
  li a0, 1
  slli a0, a0, 47
  add a0, a0, t6
  sd a0, 0(a0)
#elif defined(CASE_WRITE_CODE)
  la a0, _start
  add a0, a0, t6
  li a1, 0x12345678
  sw a1, 0(a0)
#elif defined(CASE_WRITE_CODE_SAME)         /* the value that is there already */
  la a0, _start
  add a0, a0, t6
  lw a1, 0(a0)
  sw a1, 0(a0)
#elif defined(CASE_WRITE_CODE_STRADDLE)     /* four bytes in front of the code page, four in it */
  la a0, _start
  add a0, a0, t6
  sd zero, -4(a0)
#elif defined(CASE_WRITE_CONSTANTS)         /* read-only segments are writable at run time */
  la a0, constant
  li a1, 7
  sd a1, 0(a0)
  ld a0, 0(a0)
#elif defined(CASE_WRITE_MANY)              /* a memset that runs over the end */
  la a0, writable
  li a1, 0x500000
1:
  sd a1, 0(a0)
  addi a0, a0, 8
  bltu a0, a1, 1b
#elif defined(CASE_STACK_FAR)               /* a stack pointer above 2^32 */
  li a0, 1
  slli a0, a0, 40
  add sp, sp, a0
  addi sp, sp, -16
  sd ra, 8(sp)
#elif defined(CASE_STACK_NEGATIVE)
  li sp, -64
  sd ra, 8(sp)
#else
#error "no such case"
#endif
  exit
  .size _start, . - _start

  .section .constants, "a"
  .balign 8
constant:
  .dword 1
  .data
  .balign 8
writable:
  .dword 0
