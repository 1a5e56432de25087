/* Scripts that fail, one for each case: each in a way that an author meets. Lines matter: goldens name them. */
typedef unsigned long u64;
typedef unsigned char u8;
typedef signed char i8;

#define NOINLINE __attribute__((noinline))
#define INPUT 1
#define DEPS 3
#define GROUP_INPUT 0x0100000000000001
#define PAGE 4096

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "ld a0,0(sp)\naddi a1,sp,8\ncall script\nli a7,93\necall\n.text\n");

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a5 __asm__("a5") = f;
  register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
  return a0;
}

struct spawn { u64 argc; const char **argv; u64 *pid; u64 *fds; };
static NOINLINE u64 spawn(u64 argc, const char **argv, u64 *pid, u64 *fds) {
  struct spawn request = {argc, argv, pid, fds};
  return call(2601, 0, DEPS, 0, 0, (u64)&request, 0);
}
static NOINLINE u64 wait(u64 pid, i8 *code) { return call(2602, pid, (u64)code, 0, 0, 0, 0); }
static NOINLINE void exit(u64 code) { call(93, code, 0, 0, 0, 0, 0); __builtin_unreachable(); }
static NOINLINE void say(const char *text) { call(2177, (u64)text, 0, 0, 0, 0, 0); }
static NOINLINE void __assert_fail(const char *what) { say(what); exit(-1); }
#define assert(what) do { if (!(what)) __assert_fail(#what); } while (0)

static volatile u64 amounts[4] = {1, 2, 3, 4};
static volatile u8 constants[4] = {9, 8, 7, 6};

#if defined(CASE_RETURNED)
/* An error code that is passed up through three functions. */
static NOINLINE int check_amount(u64 at) {
  if (amounts[at] > 2)
    return 7;
  return 0;
}
static NOINLINE int check_all(void) {
  for (u64 at = 0; at < 4; at++) {
    int result = check_amount(at);
    if (result) return result;
  }
  return 0;
}
int script(void) { int result = check_all(); amounts[0] = result; return result; }

#elif defined(CASE_NEGATED)
/* A code that is kept in memory, narrowed and negated on its way. */
static struct { i8 code; u64 rest; } state;
static NOINLINE void fail(u64 limit) { if (amounts[3] >= limit) state.code = 21; }
int script(void) { fail(4); amounts[1] = 0; return -state.code; }

#elif defined(CASE_ASSERTED)
static NOINLINE void check(u64 at) { assert(amounts[at] == 3); }
int script(void) { check(2); check(1); return 0; }

#elif defined(CASE_EXITED)
/* It exits in the middle. */
static NOINLINE void verify(u64 at) { if (constants[at] != 9) exit(33); }
int script(void) { verify(0); verify(1); return 0; }

#elif defined(CASE_STORE_INTO_CODE)
static NOINLINE void put(u8 *to) { *to = 1; }
int script(void) { put((u8 *)&script); return 0; }

#elif defined(CASE_STORE_OUTSIDE)
static NOINLINE void put(u64 *to, u64 index) { to[index] = 1; }
int script(void) { put((u64 *)amounts, 1 << 22); return 0; }

#elif defined(CASE_LOAD_OUTSIDE)
static NOINLINE u64 get(volatile u64 *from) { return from[1]; }
int script(void) { amounts[2] = 0x4000000000; return get((u64 *)amounts[2]); }

#elif defined(CASE_NULL_OFFSET)
static NOINLINE u64 get(volatile u64 *from) { return from[-1]; }
int script(void) { return get((u64 *)(amounts[0] - 1)); }

#elif defined(CASE_STACK_OVERFLOW)
static NOINLINE u64 down(volatile u8 *from, u64 depth) {
  volatile u8 frame[1000];
  frame[7] = *from;
  return down(frame + 7, depth + 1) + frame[depth % 1000];
}
int script(void) { return down((u8 *)constants, 0); }

#elif defined(CASE_JUMP_INTO_DATA)
static void (*volatile handler)(void);
static NOINLINE void handle(void) { handler(); }
int script(void) { handler = (void (*)(void))amounts; handle(); return 0; }

#elif defined(CASE_JUMP_TO_ZERO)
static void (*volatile handler)(void);
static NOINLINE void handle(void) { handler(); amounts[1] = 3; }
int script(void) { handle(); return 0; }

#elif defined(CASE_NO_INSTRUCTION)
static NOINLINE void strange(void) { __asm__ volatile(".word 0xffffffff"); }
int script(void) { strange(); return 0; }

#elif defined(CASE_ENDLESS)
static NOINLINE u64 spin(void) { while (amounts[0]) amounts[1]++; return 0; }
int script(void) { return spin(); }

#elif defined(CASE_NO_SUCH_CALL)
static NOINLINE u64 ask(void) { return call(9000, 1, 2, 3, 0, 0, 0); }
int script(void) { return ask(); }

#elif defined(CASE_OVERRUN)
/* A length that is not checked: the copy runs out of memory. */
static NOINLINE void copy(volatile u8 *to, const volatile u8 *from, u64 length) {
  for (u64 at = 0; at < length; at++) to[at] = from[at];
}
int script(void) { u8 buffer[16]; copy(buffer, (u8 *)amounts, 4096); return buffer[0]; }

#elif defined(CASE_NO_WITNESS)
static NOINLINE int load(void) {
  u8 witness[64];
  u64 length = sizeof witness;
  u64 result = call(2074, (u64)witness, (u64)&length, 0, 3, INPUT, 0);
  if (result != 0) return -5;
  return witness[0];
}
int script(void) { return load(); }

#elif defined(CASE_NO_TYPE)
static NOINLINE u64 load(void) {
  u8 hash[32];
  u64 length = sizeof hash;
  return call(2081, (u64)hash, (u64)&length, 0, 0, GROUP_INPUT, 5);
}
int script(void) { return load(); }

#elif defined(CASE_SHORT_DATA)
/* Data of a cell is shorter than the script expects. */
static NOINLINE int parse(void) {
  u64 amount[2] = {0}, length = sizeof amount;
  call(2092, (u64)amount, (u64)&length, 0, 1, DEPS, 0);
  if (length < 16) return 12;
  return 0;
}
int script(void) { return parse(); }

#elif defined(CASE_WRONG_DATA)
static NOINLINE int parse(void) {
  u8 data[4] = {0};
  u64 length = sizeof data;
  call(2092, (u64)data, (u64)&length, 0, 1, DEPS, 0);
  if (data[1] != 'x') return 13;
  return 0;
}
int script(void) { return parse(); }

#elif defined(CASE_NO_HEADER)
static NOINLINE int load(void) {
  u64 number = 0, length = 8;
  u64 result = call(2082, (u64)&number, (u64)&length, 0, 0, INPUT, 0);
  return result ? 40 + result : 0;
}
int script(void) { return load(); }

#elif defined(CASE_CHILD_FAILS)
static NOINLINE int child(u64 argc) { if (argc > 1) return 6; return 0; }
static NOINLINE int parent(void) {
  static const char *arguments[2] = {"one", "two"};
  u64 pid = 0;
  i8 code = 0;
  if (spawn(2, arguments, &pid, 0)) return 99;
  if (wait(pid, &code)) return 98;
  return code ? 50 : 0;
}
int script(u64 argc) { return argc ? child(argc) : parent(); }

#elif defined(CASE_CHILD_TRAPS)
static NOINLINE int child(void) { *(volatile u64 *)(amounts[0] << 30) = 1; return 0; }
static NOINLINE int parent(void) {
  static const char *arguments[1] = {"one"};
  u64 pid = 0;
  i8 code = 0;
  if (spawn(1, arguments, &pid, 0)) return 99;
  return wait(pid, &code);
}
int script(u64 argc) { return argc ? child() : parent(); }

#elif defined(CASE_NO_CHILD)
static NOINLINE int parent(void) { i8 code = 0; u64 result = wait(77, &code); if (result) return -7; return code; }
int script(void) { return parent(); }

#elif defined(CASE_CLOSED_PIPE)
static NOINLINE int send(u64 *pipe) {
  u64 length = 4;
  u64 result = call(2605, pipe[0], (u64)"ping", (u64)&length, 0, 0, 0);
  if (result == 6) return 61;
  return result;
}
int script(void) { u64 pipe[2] = {0}; call(2604, (u64)pipe, 0, 0, 0, 0, 0); return send(pipe); }

#elif defined(CASE_EXEC_MISSING)
static NOINLINE u64 replace(void) { return call(2043, 9, DEPS, 0, 0, 0, 0); }
int script(void) { return replace(); }

#elif defined(CASE_EXEC_FAILS)
/* What took its place fails. */
static NOINLINE int second(void) { if (amounts[3] == 4) return 44; return 0; }
static NOINLINE u64 replace(void) {
  static const char *arguments[1] = {"again"};
  return call(2043, 0, DEPS, 0, 0, 1, (u64)arguments);
}
int script(u64 argc) { return argc ? second() : (int)replace(); }

#elif defined(CASE_LOADED_CODE)
/* The function of a library that was loaded fails. */
static u8 area[PAGE] __attribute__((aligned(PAGE)));
static NOINLINE u64 load(u64 bytes) { return call(2091, (u64)area, PAGE, 0, bytes, 1, DEPS); }
int script(void) { if (load(8)) return 90; return ((int (*)(void))area)(); }

#elif defined(CASE_LOADED_INTO)
static u8 area[PAGE] __attribute__((aligned(PAGE)));
static NOINLINE void put(volatile u8 *to) { *to = 1; }
int script(void) { call(2091, (u64)area, PAGE, 0, 8, 1, DEPS); put(area + 8); return 0; }

#elif defined(CASE_LOADED_ASKEW)
static u8 area[2 * PAGE] __attribute__((aligned(PAGE)));
static NOINLINE u64 load(void) { return call(2091, (u64)area + 8, PAGE, 0, 8, 1, DEPS); }
int script(void) { return load(); }

#endif
