/* A library as locks load them at run time: position independent, with relocations, a table of functions, a switch, and calls of what
   its caller hands in. Hashes by SHA-256 (FIPS 180-4). */
typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned char u8;

#define EXPORT __attribute__((visibility("default")))

static const u32 ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static u32 turn(u32 x, int n) { return x >> n | x << (32 - n); }

static __attribute__((noinline)) void compress(u32 *state, const u8 *block) {
  u32 w[64], s[8];
  for (int t = 0; t < 16; t++)
    w[t] = (u32)block[4 * t] << 24 | (u32)block[4 * t + 1] << 16 | (u32)block[4 * t + 2] << 8 | block[4 * t + 3];
  for (int t = 16; t < 64; t++) {
    u32 a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
  }
  for (int i = 0; i < 8; i++) s[i] = state[i];
  for (int t = 0; t < 64; t++) {
    u32 e = s[4], a = s[0];
    u32 one = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + ROUND[t] + w[t];
    u32 two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    for (int i = 7; i > 0; i--) s[i] = s[i - 1];
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

/* The digest of up to 55 bytes. */
EXPORT void digest(const u8 *data, u64 bytes, u8 *out) {
  u32 state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  u8 block[64];
  for (u64 i = 0; i < 64; i++) block[i] = i < bytes ? data[i] : i == bytes ? 0x80 : 0;
  block[62] = (u8)(bytes >> 5);
  block[63] = (u8)(bytes << 3);
  compress(state, block);
  for (int i = 0; i < 32; i++) out[i] = (u8)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static u64 twice(u64 x) { return 2 * x; }
static u64 odd(u64 x) { return x | 1; }
static u64 swapped(u64 x) { return x >> 32 | x << 32; }
static u64 (*const STEPS[3])(u64) = {twice, odd, swapped};
static u64 counted;

/* Calls one of a table, and the caller's function; what it counts is in its own data. */
EXPORT u64 fold(u64 kind, u64 value, u64 (*other)(u64)) {
  counted++;
  value = STEPS[kind % 3](value);
  switch (value % 11) {
    case 0: return value + 1;
    case 1: return value ^ 0x5555;
    case 2: return value * 3;
    case 3: return value >> 1;
    case 4: return other(value);
    case 5: return value - counted;
    case 6: return value << 3;
    case 7: return ~value;
    case 8: return value / 7;
    case 9: return other(value) + counted;
    default: return value;
  }
}
