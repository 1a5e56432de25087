/* Scripts that somebody debugs, one for each case. Tests name lines by the marks at their ends. */
typedef unsigned long u64;
typedef unsigned char u8;
typedef signed char i8;

#define NOINLINE __attribute__((noinline, noclone))
#define DEPS 3

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "ld a0,0(sp)\naddi a1,sp,8\ncall script\nli a7,93\necall\n.text\n");

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a5 __asm__("a5") = f;
  register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
  return a0;
}

static NOINLINE void say(const char *text) { call(2177, (u64)text, 0, 0, 0, 0, 0); }

/* Something beside an array: what is stored behind its end. */
struct { u64 slots[4]; u64 balance; } kept = {{0}, 100};

static NOINLINE void store(u64 at, u64 value) {
  kept.slots[at] = value; /* spoils */
}

static NOINLINE void fill(u64 count) {
  for (u64 at = 0; at < count; at++) store(at, at * 3);
}

static NOINLINE int check(void) {
  return kept.balance == 100 ? 0 : 5; /* checks */
}

volatile u64 spun;
static NOINLINE u64 spin(u64 rounds) {
  u64 sum = 0;
  for (u64 round = 0; round < rounds; round++) sum += round ^ (sum >> 3);
  spun = sum;
  return sum;
}

#if defined(CASE_SPOILED)
int script(int argc, char **argv) {
  say("begins");
  if (argc > 1 && argv[1][0] == 's') say(argv[1]);
  fill(5);
  say("filled");
  return check();
}

#elif defined(CASE_SPINS)
/* Each round takes five instructions or so. */
int script(int argc, char **argv) {
  u64 rounds = 0;
  for (const char *digit = argc > 0 ? argv[0] : "1000"; *digit; digit++) rounds = rounds * 10 + *digit - '0';
  kept.slots[0] = 1; /* before */
  u64 sum = spin(rounds); /* calls */
  kept.slots[1] = sum; /* behind */
  say("spun");
  return check(); /* ends */
}

#elif defined(CASE_WRITTEN)
/* A system call writes into memory. */
u8 buffer[64];
u64 length = 64;
int script(void) {
  fill(2);
  u64 result = call(2052, (u64)buffer, (u64)&length, 0, 0, 0, 0); /* loads */
  return result ? 1 : check(); /* loaded */
}

#elif defined(CASE_SPAWNS)
/* A VM begins another one of the same program, which spoils its own memory, and sends a word back. */
struct spawn { u64 argc; const char **argv; u64 *pid; u64 *fds; };
static NOINLINE int child(u64 fd) {
  fill(5);
  u64 length = 8;
  u64 result = call(2605, fd, (u64)&kept.balance, (u64)&length, 0, 0, 0); /* writes */
  return result ? 9 : check();
}
u64 word;
int script(int argc, const char **argv) {
  u64 fds[3] = {0}, pid = 0;
  i8 code = 0;
  if (argc > 0) {
    u64 count = 2;
    call(2607, (u64)fds, (u64)&count, 0, 0, 0, 0);
    return child(fds[0]);
  }
  if (call(2604, (u64)fds, 0, 0, 0, 0, 0)) return 2;
  u64 from = fds[0], given[2] = {fds[1], 0};
  const char *words[1] = {"child"};
  struct spawn request = {1, words, &pid, given};
  if (call(2601, 0, DEPS, 0, 0, (u64)&request, 0)) return 3; /* spawns */
  u64 length = 8;
  if (call(2606, from, (u64)&word, (u64)&length, 0, 0, 0)) return 4; /* reads */
  if (call(2602, pid, (u64)&code, 0, 0, 0, 0)) return 6;
  return word == 12 ? code : 7; /* ends */
}

#elif defined(CASE_REPLACED)
/* A VM whose program another one takes the place of: the same, with a word. */
int script(int argc, const char **argv) {
  if (argc > 0) {
    fill(5);
    return check();
  }
  fill(2);
  const char *words[1] = {"again"};
  call(2043, 0, DEPS, 0, 0, 1, (u64)words); /* replaces */
  return 8;
}
#endif
