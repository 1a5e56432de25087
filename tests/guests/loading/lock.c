/* A lock that loads a library at run time, as on-chain locks do: the second cell dep is a shared object, whose segments are put into a
   buffer, with their code made executable by the system call for it; its relocations are applied, and its symbols looked up. ROUNDS says
   how often the library is called. The result is printed. */
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#define PAGE 4096
#define DEPS 3
#define LIBRARY 1
#define ROOM (64 * PAGE)

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\n"
        "call lock\nli a7,93\necall\n.text\n");

static inline __attribute__((always_inline)) u64 call(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
  register u64 a3 __asm__("a3") = d; register u64 a4 __asm__("a4") = e; register u64 a5 __asm__("a5") = f;
  register u64 a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
  return a0;
}

struct head { u8 ident[16]; u16 type, machine; u32 version; u64 entry, segments, sections; u32 flags; u16 size, segment_size, segment_count; };
struct segment { u32 type, flags; u64 offset, address, physical, bytes, memory, align; };
struct entry { u64 tag, value; };
struct relocation { u64 place, info, addend; };
struct symbol { u32 name; u8 info, other; u16 section; u64 value, size; };

static u64 before[8];
static u8 room[ROOM] __attribute__((aligned(PAGE)));
static u8 data[32];

static u64 read(void *to, u64 bytes, u64 offset) {
  u64 length = bytes;
  return call(2092, (u64)to, (u64)&length, offset, LIBRARY, DEPS, 0) == 0 && length >= bytes ? 0 : 1;
}

static int is(const char *one, const char *other) {
  while (*one && *one == *other) one++, other++;
  return *one == *other;
}

static struct symbol *symbols;
static const char *names;
static u64 symbol_count;

static void *find(const char *name) {
  for (u64 i = 0; i < symbol_count; i++)
    if (symbols[i].section && is(names + symbols[i].name, name)) return room + symbols[i].value;
  return 0;
}

static u64 load(void) {
  struct head head;
  struct segment segments[8];
  if (read(&head, sizeof head, 0) || head.segment_count > 8) return 1;
  if (read(segments, head.segment_count * sizeof *segments, head.segments)) return 2;
  struct entry *dynamic = 0;
  for (int i = 0; i < head.segment_count; i++) {
    struct segment *one = &segments[i];
    if (one->type == 2) dynamic = (struct entry *)(room + one->address);
    if (one->type != 1) continue;
    u64 from = one->address & -PAGE, shift = one->address - from;
    u64 memory = (shift + one->memory + PAGE - 1) & -PAGE;
    if (from + memory > ROOM) return 3;
    if (one->flags & 1) {
      if (call(2091, (u64)room + from, memory, one->offset - shift, one->bytes + shift, LIBRARY, DEPS)) return 4;
    } else if (read(room + one->address, one->bytes, one->offset)) return 5;
  }
  if (!dynamic) return 6;
  struct relocation *relocations = 0;
  u64 bytes = 0;
  for (; dynamic->tag; dynamic++) {
    u8 *at = room + dynamic->value;
    if (dynamic->tag == 4) symbol_count = ((u32 *)at)[1];
    if (dynamic->tag == 5) names = (const char *)at;
    if (dynamic->tag == 6) symbols = (struct symbol *)at;
    if (dynamic->tag == 7) relocations = (struct relocation *)at;
    if (dynamic->tag == 8) bytes = dynamic->value;
  }
  for (u64 i = 0; i < bytes / sizeof *relocations; i++) {
    if ((relocations[i].info & 0xffffffff) != 3) return 7;
    *(u64 *)(room + relocations[i].place) = (u64)room + relocations[i].addend;
  }
  return 0;
}

static __attribute__((noinline)) u64 mine(u64 value) { return value * 0x9e3779b97f4a7c15 >> 3; }

static void print(const u8 *bytes, u64 value) {
  char line[64];
  for (int i = 0; i < 16; i++) line[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
  for (int i = 0; i < 16; i++) line[16 + i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  line[32] = 0;
  call(2177, (u64)line, 0, 0, 0, 0, 0);
}

u64 lock(void) {
  u64 failed = load();
  if (failed) return failed;
  void (*digest)(const u8 *, u64, u8 *) = find("digest");
  u64 (*fold)(u64, u64, u64 (*)(u64)) = find("fold");
  if (!digest || !fold) return 8;
  u64 value = 1;
  for (u64 round = 0; round < ROUNDS; round++) {
    digest(data, 32, data);
    value = fold(round, value + *(u64 *)data, mine);
    before[round % 8] = value;
  }
  print(data, value);
  return 0;
}
