/* Scripts that refuse, one for each case. The lines with HERE decide: the condition, and that of a helper if it may be inlined. */
typedef unsigned long u64;
typedef unsigned char u8;
typedef signed char i8;

#define NOINLINE __attribute__((noinline))

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "ld a0,0(sp)\naddi a1,sp,8\ncall script\nli a7,93\necall\n.text\n");

static inline u64 call(u64 number, u64 a) {
  register u64 a0 __asm__("a0") = a; register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
  return a0;
}
static void say(const char *text) { call(2177, (u64)text); }
static void quit(int code) { call(93, code); __builtin_unreachable(); }

struct text { const volatile u8 *bytes; u64 length; };
static volatile u64 numbers[4] = {1, 2, 3, 4};
static volatile u8 left[8] = {1, 2, 3, 4, 5, 6, 7, 8}, right[8] = {1, 2, 3, 4, 5, 6, 9, 8};
static volatile u64 released;

#if defined(CASE_MERGED)
__attribute__((used)) int script(void) {
  struct text args = {left, numbers[3] * 2}, shown = {right, numbers[3] * 2};
  if (numbers[0] > 1) return 1;
  if (numbers[1] > 2) return 2;
  if (args.length != shown.length) return 2;
  for (u64 at = 0; at < args.length; at++)
    if (args.bytes[at] != shown.bytes[at]) return 2; /* HERE */
  say("opened");
  return 0;
}
#elif defined(CASE_MERGED_EARLY)
__attribute__((used)) int script(void) {
  if (numbers[0] > 1) return 3;
  if (numbers[1] == 2) /* HERE */
    return 3;
  if (numbers[2] > 7) return 3;
  say("opened");
  return numbers[3] > 9 ? 3 : 0;
}
#elif defined(CASE_HELPER)
static int is_valid(const volatile u8 *bytes, u64 length) {
  if (length < 4) return 0;
  if (bytes[0] != length) return 0; /* HERE */
  return bytes[1] == 2;
}
__attribute__((used)) int script(void) {
  if (!is_valid(left, numbers[0] + 3 + numbers[0])) return 1; /* HERE */
  if (!is_valid(right, numbers[2])) return 1;
  return 0;
}
#elif defined(CASE_PASSED_UP)
static int check_amount(u64 at) {
  if (numbers[at] > 2) /* HERE */
    return 7;
  return 0;
}
static int check_all(void) {
  for (u64 at = 0; at < 4; at++) {
    int result = check_amount(at);
    if (result) return result;
  }
  return 0;
}
__attribute__((used)) int script(void) { int result = check_all(); released = result; return result; }
#elif defined(CASE_SELECT)
__attribute__((used)) int script(void) {
  if (numbers[0] == 9) return 4;
  u64 sum = numbers[0] + numbers[1];
  return sum == numbers[3] ? 0 : 6; /* HERE */
}
#elif defined(CASE_OUT)
__attribute__((used)) int script(void) {
  int result = 4;
  if (numbers[0] != 1) goto out;
  result = 5;
  if (numbers[1] != 2) goto out;
  if (numbers[2] != 4) goto out; /* HERE */
  result = 0;
out:
  for (u64 at = 0; at < numbers[3]; at++) if (numbers[at]) released += 1;
  if (released > 99) say("many");
  return result;
}
#elif defined(CASE_FAIL)
static NOINLINE void fail(const char *why, int code) { say(why); quit(code); }
__attribute__((used)) int script(void) {
  if (numbers[0] > 1) fail("first", 11);
  if (numbers[1] < 4) fail("second", 12); /* HERE */
  if (numbers[2] > 1) fail("third", 12);
  return 0;
}
#elif defined(CASE_SWITCH)
static int act(u64 what) {
  switch (what) { /* HERE */
  case 1: return released ? 8 : 0;
  case 2: released = 3; return 0;
  case 3: return 9; /* HERE */
  case 4: released = 5; return 9;
  case 5: return released > 3 ? 0 : 8;
  default: return 10;
  }
}
__attribute__((used)) int script(void) { return act(numbers[2]); }
#elif defined(CASE_CHECK)
#define CHECK(what) do { int code = (what); if (code) return code; } while (0)
static NOINLINE int short_enough(u64 length, u64 most) { return length > most ? -22 : 0; } /* HERE */
__attribute__((used)) int script(void) {
  CHECK(short_enough(numbers[0], 2));
  CHECK(short_enough(numbers[3], 3)); /* HERE */
  CHECK(short_enough(numbers[1], 9));
  return 0;
}
#elif defined(CASE_SEARCH)
__attribute__((used)) int script(void) {
  for (u64 at = 0; at < 4; at++) /* HERE */
    if (numbers[at] == 77) return 0; /* HERE */
  return 8; /* HERE */
}
#elif defined(CASE_LINES)
__attribute__((used)) int script(void) {
  if (numbers[0] == 1
      && numbers[1] == 2
      && (numbers[2] == 4
          || numbers[3] == 4)) /* HERE */
    return 13;
  return 0;
}
#elif defined(CASE_COMPARE)
static NOINLINE int compare(const volatile u8 *a, const volatile u8 *b, u64 length) {
  for (; length; a++, b++, length--)
    if (*a != *b) return 1; /* HERE */
  return 0;
}
__attribute__((used)) int script(void) {
  if (compare(left, left, 8)) return 21;
  if (compare(left, right, 8)) return 22; /* HERE */
  if (compare(right, right, 8)) return 22;
  return 0;
}
#elif defined(CASE_REFUSED)
__attribute__((used)) int script(void) {
  u64 answer = call(2177, (u64)"asks");
  if (answer < numbers[0]) return -6;
  if (call(2177, (u64)"again") > numbers[3]) return -5; /* HERE */
  return answer == 1 ? -5 : 0;
}
#elif defined(CASE_STATE)
static struct { i8 code; u64 rest; } state;
static NOINLINE void refuse(u64 limit) {
  if (numbers[3] >= limit) /* HERE */
    state.code = 21;
}
__attribute__((used)) int script(void) { refuse(9); refuse(4); numbers[1] = 0; return -state.code; }
#elif defined(CASE_RETURNS_MEMCMP)
NOINLINE int memcmp(const volatile u8 *a, const volatile u8 *b, u64 length) {
  for (; length; a++, b++, length--)
    if (*a != *b) return *a < *b ? -1 : 1;
  return 0;
}
__attribute__((used)) int script(void) {
  if (numbers[0] > 1) return 1;
  int result = memcmp(left, right, 8); /* HERE */
  released = 1;
  return result;
}
#elif defined(CASE_TABLE)
static const i8 codes[8] = {0, 0, 31, 32, 33, 34, 35, 36};
__attribute__((used)) int script(void) {
  if (released) return 1;
  int code = codes[numbers[2] & 7]; /* HERE */
  if (code) return code; /* HERE */
  return numbers[3] > 9;
}
#elif defined(CASE_BRANCHLESS)
static NOINLINE int check_length(u64 length, u64 wanted) {
  if (length != wanted) return -3; /* HERE */
  return 0;
}
__attribute__((used)) int script(void) {
  int result = check_length(numbers[0], 1);
  if (result) goto out;
  result = check_length(numbers[1], 3);
  if (result != 0) goto out; /* HERE */
  result = check_length(numbers[2], 3);
out:
  say("done");
  return result;
}
#elif defined(CASE_LADDER)
__attribute__((used)) int script(void) {
  u64 kind = numbers[3], amount = numbers[0];
  if (kind == 1) { if (amount != 1) return 81; }
  else if (kind == 4) { if (amount != 2) return 81; } /* HERE */
  else if (kind == 5) { if (amount != 3) return 81; }
  else return 82;
  return 0;
}
#elif defined(CASE_TAIL_OF_LIBRARY)
int code_of(u64 kind);
__attribute__((used)) int script(void) {
  u64 kind = numbers[2];
  if (kind != 7) /* HERE */
    return code_of(kind); /* HERE */
  return 0;
}
#line 1 "/ckb-c-stdlib/codes.c"
NOINLINE int code_of(u64 kind) { return 40 + kind * 3; }
#endif
