#ifdef __cplusplus
extern "C" { typedef long distance;
#else
typedef int distance;
#endif
typedef unsigned long u64; typedef unsigned __int128 u128; typedef unsigned int u32;
typedef unsigned short u16; typedef unsigned char u8; typedef u64 (*function)(u64, u64);
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif
static inline long ask(u64 n, u64 a, u64 b, u64 c, u64 d) {
    register u64 a0 __asm__("a0") = a; register u64 a1 __asm__("a1") = b; register u64 a2 __asm__("a2") = c;
    register u64 a3 __asm__("a3") = d; register u64 a7 __asm__("a7") = n;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a7) : "memory"); return a0;
}
static void say(u64 x) {
    static char line[20]; int at = 18;
    for (line[19] = 0; at >= 3; at--, x >>= 4) line[at] = "0123456789abcdef"[x & 15];
    ask(2177, (u64)(line + 3), 0, 0, 0);
}
static u64 parse(int argc, char **argv) {
    u64 n = 0; for (char *c = argc ? argv[argc - 1] : (char *)""; *c >= '0' && *c <= '9'; c++) n = n * 10 + *c - '0'; return n;
}
