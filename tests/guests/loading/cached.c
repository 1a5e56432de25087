/* Locks that load the same cell to the same place, and use the memory there before or afterwards. CASE says which one. A
   checksum is printed. */
typedef unsigned long u64;
typedef unsigned char u8;

#define DEPS 3
#define CELL 1
#define OTHER 2
#define BYTES (96 * 1024 + 100)
/* Above the program, and not at a page's start. */
#define PLACE ((volatile u8 *)0x100064)
#define CODE 0x200000
#define CODE_STEP 0x20000
#define CODES 10

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "call lock\nli a7,93\necall\n.text\n");

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a5 __asm__("a5") = f;
  register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
  return a0;
}

static u64 sum;

static void add(u64 value) { sum = (sum ^ value) * 0x100000001b3 + 1; }

static void look(void) {
  for (u64 i = 0; i < BYTES + 8192; i += 61) add(PLACE[i - 4096]);
}

static void load(u64 cell, u64 shift, u64 offset, u64 bytes) {
  u64 length = bytes;
  add(call(2092, (u64)PLACE + shift, (u64)&length, offset, cell, DEPS, 0));
  add(length);
}

static void load_code(u64 place, u64 offset) {
  add(call(2091, place, 64 * 1024, offset, 60 * 1024 + 10, CELL, DEPS));
  for (u64 i = 0; i < 64 * 1024; i += 61) add(*(volatile u8 *)(place + i));
}

static void load_codes(void) {
  for (u64 i = 0; i < CODES; i++) load_code(CODE + i * CODE_STEP, i * 1024);
}

static void write_codes(void) {
  for (u64 i = 0; i < CODES; i++) *(volatile u8 *)(CODE + i * CODE_STEP + 5000) += 9;
}

u64 lock(void) {
  switch (CASE) {
  case 0: load(CELL, 0, 0, BYTES); break;
  case 1: look(); load(CELL, 0, 0, BYTES); break;
  case 2: load(CELL, 0, 0, BYTES); PLACE[50000] += 1; break;
  case 3: load(CELL, 0, 0, BYTES); PLACE[50000] += 1; look(); load(CELL, 0, 0, BYTES); break;
  case 4: load(CELL, 0, 7, BYTES); break;
  case 5: load(OTHER, 0, 0, BYTES); break;
  case 6: load(CELL, 4096, 0, BYTES - 4096); break;
  case 7: load(CELL, 0, 0, BYTES); load(OTHER, 40000, 0, 40000); break;
  case 8: PLACE[50000] = 1; load(CELL, 0, 0, 40000); break;
  case 9: break;
  case 10: load_code(CODE, 0); load_code(CODE + 0x20000, 4096); break;
  case 11: add(*(volatile u8 *)(CODE + 5000)); load_code(CODE, 0); break;
  case 12: *(volatile u8 *)(CODE + 5000) = 9; load_code(CODE, 0); break;
  /* Errors: writing to code, and loading over it. */
  case 13: load_code(CODE, 0); *(volatile u8 *)(CODE + 5000) = 9; break;
  case 14: load_code(CODE, 0); load_code(CODE, 0); break;
  case 15: load(CELL, 0, 0, BYTES); load_code(0x108000, 0); break;
  case 16: load_code(0x108000, 0); load(CELL, 0, 0, BYTES); break;
  case 17: load(CELL, 0, 0, BYTES); load(CELL, 0x400000 - 0x100064 - 5000, 0, BYTES); break;
  /* More code than is cached. */
  case 18: load_codes(); break;
  case 19: load_codes(); *(volatile u8 *)(CODE + CODES * CODE_STEP - CODE_STEP + 5000) = 9; break;
  case 20: write_codes(); break;
  case 21: write_codes(); load_codes(); break;
  }
  look();
  char line[17];
  for (int i = 0; i < 16; i++) line[i] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
  line[16] = 0;
  call(2177, (u64)line, 0, 0, 0, 0, 0);
  return 0;
}
