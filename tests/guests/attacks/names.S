/* Functions with the names of the host's own things: guest symbols are data, never symbols of the library. */
#include "exit.h"
  .macro hostile name, value
  .globl "\name"
  .type "\name", @function
"\name":
  addi a0, a0, \value
  ret
  .size "\name", . - "\name"
  .endm

  .section .text.start, "ax"
  .globl _start
  .type _start, @function
_start:
  li a0, 0
  call antares_library
  call antares_enter
  call State
  call leave
  call memset
  call malloc
  call dlopen
  call abort
  call __stack_chk_fail
  call "llvm.ubsantrap"
  call "../../etc/passwd"
  call "%n%s"
  addi a0, a0, -78
  exit
  .size _start, . - _start
  .text
  hostile antares_library, 1
  hostile antares_enter, 2
  hostile State, 3
  hostile leave, 4
  hostile memset, 5
  hostile malloc, 6
  hostile dlopen, 7
  hostile abort, 8
  hostile __stack_chk_fail, 9
  hostile "llvm.ubsantrap", 10
  hostile "../../etc/passwd", 11
  hostile "%n%s", 12
