/* Scripts that make system calls of transactions, one for each case. The first cell dep is the script itself; what the second one holds is
   up to the test. They print what they see, with their cycles. */
typedef unsigned long u64;
typedef unsigned char u8;

#define DEPS 3
#define PAGE 4096
#define IN_DATA __attribute__((aligned(PAGE), section(".data")))

struct spawn { u64 argc; const char **argv; u64 *pid; u64 *fds; };

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "ld a0,0(sp)\naddi a1,sp,8\nli sp,0x3e0000\ncall script\nli a7,93\necall\n.text\n");

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a5 __asm__("a5") = f;
  register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
  return a0;
}

static u64 cycles(void) { return call(2042, 0, 0, 0, 0, 0, 0); }
static u64 load_code(const volatile u8 *to, u64 bytes, u64 size) { return call(2091, (u64)to, bytes, 0, size, 1, DEPS); }
static u64 wait(u64 pid) { volatile u8 code = 0; u64 result = call(2602, pid, (u64)&code, 0, 0, 0, 0); return result << 8 | code; }
static u64 spawn(u64 argc, const char **argv, u64 *pid, u64 *fds) {
  struct spawn request = {argc, argv, pid, fds};
  return call(2601, 0, DEPS, 0, 0, (u64)&request, 0);
}

static __attribute__((noinline)) void print(char name, u64 value) {
  char line[40];
  char *to = line;
  u64 numbers[2] = {value, cycles()};
  *to++ = name;
  for (int number = 0; number < 2; number++) {
    *to++ = ' ';
    for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[numbers[number] >> shift & 15];
  }
  *to = 0;
  call(2177, (u64)line, 0, 0, 0, 0, 0);
}

static __attribute__((noinline)) u64 sum(const volatile u8 *from, u64 bytes) {
  u64 hash = 0xcbf29ce484222325;
  for (u64 at = 0; at < bytes; at++) hash = (hash ^ from[at]) * 0x100000001b3;
  return hash;
}

/* Six children that wait to read put their parent aside; they end with it. */
static __attribute__((noinline)) void be_put_aside(void) {
  static const char *arguments[1] = {"child"};
  u64 pid, pipe[2], fds[2] = {0};
  for (int child = 0; child < 6; child++) {
    call(2604, (u64)pipe, 0, 0, 0, 0, 0);
    fds[0] = pipe[0];
    print('s', spawn(1, arguments, &pid, fds));
  }
}

/* Fifteen children, and the ways to them and from them. */
static __attribute__((noinline)) void start_children(u64 ways[15][2]) {
  static const char *arguments[1] = {"child"};
  u64 pid, to[2], from[2], fds[3] = {0};
  for (int child = 0; child < 15; child++) {
    call(2604, (u64)to, 0, 0, 0, 0, 0);
    call(2604, (u64)from, 0, 0, 0, 0, 0);
    fds[0] = to[0];
    fds[1] = from[1];
    print('s', spawn(1, arguments, &pid, fds));
    ways[child][0] = to[1];
    ways[child][1] = from[0];
  }
}

/* What a child makes of a value. */
static __attribute__((noinline)) u64 ask(const u64 way[2], u64 value) {
  u64 length = 8;
  call(2605, way[0], (u64)&value, (u64)&length, 0, 0, 0);
  length = 8;
  call(2606, way[1], (u64)&value, (u64)&length, 0, 0, 0);
  return value;
}

static u64 wait_to_read(void) {
  u64 fds[2], count = 2, length = 8, buffer;
  call(2607, (u64)fds, (u64)&count, 0, 0, 0, 0);
  call(2606, fds[0], (u64)&buffer, (u64)&length, 0, 0, 0);
  return 3;
}

#if defined(CASE_EXEC_FAILS)
/* Code is loaded, an exec fails, and the code is written to. ARG of the script: how it fails. */
static volatile u8 area[PAGE] __attribute__((aligned(PAGE)));
u64 script(void) {
  static volatile u64 exec = 2043;
  print('l', load_code(area, PAGE, 64));
#if HOW == 0
  print('e', call(2043, 99, DEPS, 0, 0, 0, 0));
#elif HOW == 1
  print('e', call(2043, 0, DEPS, 0, (u64)0x7fffffff << 32, 0, 0));
#elif HOW == 2
  print('e', call(2043, 0, 77, 0, 0, 0, 0));
#else
  print('e', call(exec, 99, DEPS, 0, 0, 0, 0));
#endif
  area[100] = 7;
  print('w', area[100]);
  return 0;
}

#elif defined(CASE_ZEROED)
/* Pages that came from the transaction are zeroed, then the VM is put aside: of segments, and where no segment is. */
#define NO_SEGMENT ((volatile u8 *)0x200000)
static u8 data[4 * PAGE] IN_DATA = {1, [PAGE] = 2, [2 * PAGE] = 3, [3 * PAGE] = 4};
static u8 cell[2 * PAGE] IN_DATA = {5};
u64 script(u64 argc) {
  if (argc > 0) return wait_to_read();
  u64 length = sizeof cell;
  call(2092, (u64)cell, (u64)&length, 0, 1, DEPS, 0);
  print('c', sum(cell, sizeof cell));
  call(2092, (u64)NO_SEGMENT, (u64)&length, 0, 1, DEPS, 0);
  print('c', sum(NO_SEGMENT, 2 * PAGE));
  for (u64 at = 0; at < PAGE; at++) NO_SEGMENT[at] = 0;
  for (u64 at = 0; at < 2 * PAGE; at++) ((volatile u8 *)data)[at] = 0;
  for (u64 at = 0; at < PAGE; at++) ((volatile u8 *)cell)[at] = 0;
  print('b', sum(data, sizeof data));
  be_put_aside();
  print('a', sum(data, sizeof data));
  print('a', sum(cell, sizeof cell));
  print('a', sum(NO_SEGMENT, 2 * PAGE));
  return 0;
}

#elif defined(CASE_OVER_A_SEGMENT)
/* The test puts a second segment over half of the page at 0x40000, and one under the arguments. */
#define AT ((volatile u8 *)0x40000)
u64 script(u64 argc, char **argv) {
  if (argc == 1) return wait_to_read();
  if (argc == 0) {
    static const char *arguments[2] = {"first", "second"};
    u64 pid;
    print('s', spawn(2, arguments, &pid, 0));
    return wait(pid);
  }
  print('b', sum(AT, PAGE));
  /* Pointers and frames may be lost too, so the stack is elsewhere. */
  const volatile u8 *first = (u8 *)argv[0];
  print('b', *first);
  be_put_aside();
  print('a', sum(AT, PAGE));
  print('a', *first);
  AT[0] = 9;
  print('z', sum(AT, PAGE));
  return 0;
}

#elif defined(CASE_LOADS)
/* Code on every other page, far more often than any script needs it; then calls into it that fail. */
u64 script(void) {
  u64 result = 0;
  for (u64 page = 0; page < 450; page++) result += load_code((u8 *)0x40000 + page * 2 * PAGE % (900 * PAGE), PAGE, 64);
  for (u64 times = 0; times < 1000; times++) result += load_code((u8 *)0x40000, 0, 0) + load_code((u8 *)0x41000, PAGE, 1 << 30);
  print('r', result);
  *(volatile u8 *)0x41000 = 1;
  print('w', 0);
  *(volatile u8 *)0x42000 = 1;
  return 0;
}

#elif defined(CASE_LOADS_ONLY)
/* The same without the end. */
u64 script(void) {
  u64 result = 0;
  for (u64 page = 0; page < 450; page++) result += load_code((u8 *)0x40000 + page * 2 * PAGE % (900 * PAGE), PAGE, 64);
  for (u64 times = 0; times < 100000; times++) result += load_code((u8 *)0x40000, 0, 0);
  print('r', result);
  return 0;
}

#elif defined(CASE_SPAWNS)
/* A child after the other. */
u64 script(u64 argc) {
  if (argc > 0) return 3;
  static const char *arguments[1] = {"child"};
  u64 result = 0, pid;
  for (int child = 0; child < 2000; child++) {
    result += spawn(1, arguments, &pid, 0);
    result += wait(pid);
  }
  print('r', result);
  return 0;
}

#elif defined(CASE_EXECS)
/* Puts itself in its own place. */
u64 script(u64 argc, char **argv) {
  static char text[8];
  const char *arguments[1];
  u64 left = 5000;
  if (argc > 0)
    for (left = 0; *argv[0]; argv[0]++) left = left * 10 + (*argv[0] - '0');
  if (left-- == 0) {
    print('r', argc);
    return 0;
  }
  char *to = text + 7;
  do *--to = '0' + left % 10;
  while (left /= 10);
  arguments[0] = to;
  return call(2043, 0, DEPS, 0, 0, 1, (u64)arguments);
}

#elif defined(CASE_TURNS)
/* Fifteen children answer in turn: each answer brings one back that was put aside. */
u64 script(u64 argc) {
  u64 fds[3] = {0}, count = 3, length, value = 1;
  if (argc > 0) {
    call(2607, (u64)fds, (u64)&count, 0, 0, 0, 0);
    for (;;) {
      length = 8;
      call(2606, fds[0], (u64)&value, (u64)&length, 0, 0, 0);
      if (length == 0) return 0;
      for (int times = 0; times < 200; times++) value = (value ^ times) * 0x100000001b3;
      length = 8;
      call(2605, fds[1], (u64)&value, (u64)&length, 0, 0, 0);
    }
  }
  u64 ways[15][2];
  start_children(ways);
  for (int turn = 0; turn < 8 * 15; turn++) value = ask(ways[turn % 15], value);
  print('r', value);
  return 0;
}

#elif defined(CASE_KEEPS)
/* The same with children that change pages of a cell, of nothing and of their stacks. Some put themselves in their own place on the way,
   and go on with the same pipes. */
static volatile u8 cell[2 * PAGE] IN_DATA = {5};
static volatile u8 empty[3 * PAGE] __attribute__((aligned(PAGE)));
static __attribute__((noinline)) u64 answer(u64 argc) {
  static const char *arguments[2] = {"child", "again"};
  volatile u8 on_stack[PAGE];
  u64 fds[3] = {0}, count = 3, length = sizeof cell, value;
  for (u64 at = 0; at < sizeof on_stack; at++) on_stack[at] = 0;
  call(2607, (u64)fds, (u64)&count, 0, 0, 0, 0);
  call(2092, (u64)cell, (u64)&length, 0, 1, DEPS, 0);
  for (u64 turn = 1;; turn++) {
    length = 8;
    call(2606, fds[0], (u64)&value, (u64)&length, 0, 0, 0);
    if (length == 0) return 0;
    value = value * 31 + sum(cell, sizeof cell) + sum(empty, sizeof empty) + sum(on_stack, sizeof on_stack);
    cell[value % sizeof cell] ^= turn;
    empty[(value >> 16) % sizeof empty] += 1;
    on_stack[(value >> 32) % sizeof on_stack] += 1;
    print('k', value);
    length = 8;
    call(2605, fds[1], (u64)&value, (u64)&length, 0, 0, 0);
    if (argc == 1 && turn == 3 && (value >> 40) % 3 == 0) call(2043, 0, DEPS, 0, 0, 2, (u64)arguments);
  }
}

u64 script(u64 argc) {
  if (argc > 0) return answer(argc);
  u64 ways[15][2], value = 1;
  start_children(ways);
  for (int turn = 0; turn < 8 * 15; turn++) print('v', value = ask(ways[turn % 15], value));
  return 0;
}

#elif defined(CASE_FAILING_LOADS)
/* Behind loaded code, load after load that fails. */
static volatile u8 area[PAGE] __attribute__((aligned(PAGE)));
u64 script(void) {
  u64 result = load_code(area, PAGE, 64);
  for (u64 times = 0; times < 500000; times++) result += load_code((u8 *)0x200000, PAGE, 1 << 30);
  print('r', result);
  return 0;
}

#elif defined(CASE_FAILING_EXECS)
/* The same with exec. */
static volatile u8 area[PAGE] __attribute__((aligned(PAGE)));
u64 script(void) {
  u64 result = load_code(area, PAGE, 64);
  for (u64 times = 0; times < 500000; times++) result += call(2043, 99, DEPS, 0, 0, 0, 0);
  print('r', result);
  return 0;
}

#elif defined(CASE_TRACE)
/* FUSIONS additions with carry, of 20 bytes each, and PLAIN instructions of 4 before them and at their end a jump. */
u64 script(void) {
  u64 a = 1, b = 2, c = 3;
  __asm__ volatile(".option push\n.option norvc\n.option norelax\nj 1f\n1:\n"
                   ".rept " PLAIN "\naddi t0,t0,1\n.endr\n"
                   ".rept " FUSIONS "\nadd %0,%0,%1\nsltu %1,%0,%1\nadd %0,%0,%2\nsltu %2,%0,%2\nor %1,%1,%2\n.endr\n"
                   "j 2f\n2:\n.option pop\n"
                   : "+r"(a), "+r"(b), "+r"(c) : : "t0");
  print('a', a);
  print('b', b);
  return 0;
}

#elif defined(CASE_BODY)
/* What the test says. */
#define R(...) print('r', call(__VA_ARGS__))
static volatile u64 words[512] IN_DATA = {7};
static volatile u8 area[4 * PAGE] __attribute__((aligned(PAGE)));
u64 script(u64 argc, char **argv) {
  BODY;
  return 0;
}
#endif
