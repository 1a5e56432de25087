/* Locks with a bug that a fuzzer is to find, one for each case, and with RIGHT the same lock without it.

   LENGTH    copies as many bytes of its witness as that says, into 64
   AMOUNTS   adds up amounts of 128 bits, and forgets that a sum may turn over
   MAC       signs where to, and forgets how much
   TWICE     stores through an offset of its witness in two places */
typedef unsigned long u64;
typedef unsigned __int128 u128;
typedef unsigned char u8;

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "call script\nli a7,93\necall\n.text\n");

enum { OK, UNREADABLE = 5, WRONG = 6, TOO_MUCH = 7, TOO_LONG = 8 };
enum { SCRIPT = 2052, WITNESS = 2074, DATA = 2092 };
enum { INPUT = 1, OUTPUT = 2 };

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a7) : "memory");
  return a0;
}

static u64 number_at(const u8 *bytes, u64 width) {
  u64 number = 0;
  for (u64 at = 0; at < width; at++) number |= (u64)bytes[at] << 8 * at;
  return number;
}

#if defined(CASE_LENGTH)
/* Reads "PAY1", a number of 16 bits, and so many bytes. */
static __attribute__((noinline)) u64 sum_of(const u8 *message, u64 length, u64 left) {
  u8 copy[64];
#ifdef RIGHT
  if (length > sizeof copy) return TOO_LONG;
#endif
  if (length > left) return UNREADABLE;
  volatile u8 *to = copy;
  for (u64 at = 0; at < length; at++) to[at] = message[at];
  u64 sum = 0;
  for (u64 at = 0; at < sizeof copy; at++) sum += to[at];
  return sum % 2 ? WRONG : OK;
}

int script(void) {
  static u8 witness[4096];
  u64 length = sizeof witness;
  if (call(WITNESS, (u64)witness, (u64)&length, 0, 0, INPUT) || length > sizeof witness || length < 6) return UNREADABLE;
  if (number_at(witness, 4) != 0x31594150) return WRONG;
  return sum_of(witness + 6, number_at(witness + 4, 2), length - 6);
}

#elif defined(CASE_AMOUNTS)
static int sum_of(u64 source, u128 *sum) {
  *sum = 0;
  for (u64 index = 0;; index++) {
    u8 data[16];
    u64 length = sizeof data, result = call(DATA, (u64)data, (u64)&length, 0, index, source);
    if (result == 1) return OK;
    if (result || length != sizeof data) return UNREADABLE;
    u128 amount = (u128)number_at(data + 8, 8) << 64 | number_at(data, 8);
#ifdef RIGHT
    if (*sum + amount < amount) return TOO_LONG;
#endif
    *sum += amount;
  }
}

int script(void) {
  u128 in, out;
  int result = sum_of(INPUT, &in);
  if (!result) result = sum_of(OUTPUT, &out);
  if (result) return result;
  return out > in ? TOO_MUCH : OK;
}

#elif defined(CASE_MAC)
static u64 hash(u64 state, const u8 *bytes, u64 length) {
  for (u64 at = 0; at < length; at++) state = (state ^ bytes[at]) * 0x100000001b3;
  return state;
}

/* The witness: 8 bytes of how much, 20 of where to, 8 of what both hash to with a key. */
int script(void) {
  static u8 witness[64];
  u64 length = sizeof witness;
  if (call(WITNESS, (u64)witness, (u64)&length, 0, 0, INPUT) || length != 36) return UNREADABLE;
  u64 state = hash(0xcbf29ce484222325, (const u8 *)"a key of nobody", 15);
#ifdef RIGHT
  state = hash(state, witness, 8);
#endif
  state = hash(state, witness + 8, 20);
  return state == number_at(witness + 28, 8) ? OK : WRONG;
}

#elif defined(CASE_TWICE)
/* The witness: which of two tables, and an offset of 32 bits. */
int script(void) {
  static volatile u8 bytes[8], table[16], other[16];
  u64 length = sizeof bytes;
  if (call(WITNESS, (u64)bytes, (u64)&length, 0, 0, INPUT) || length != 5) return UNREADABLE;
  u64 offset = number_at((const u8 *)bytes + 1, 4);
#ifdef RIGHT
  offset %= sizeof table;
#endif
  if (bytes[0] == 1) table[offset] = 1;
  else if (bytes[0] == 2) other[offset] += 2;
  else return WRONG;
  return OK;
}
#endif
