/* A hash of 32-bit words with rotations and a schedule of 80 words in memory (SHA-1); the argument is the number of
 * times that 1 KiB is hashed. */
#include <stdint.h>
#include "argument.h"

static uint32_t state[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
static uint32_t schedule[80];
static uint8_t data[1024];

static inline uint32_t rotate(uint32_t word, int by) { return word << by | word >> (32 - by); }

__attribute__((noinline)) static void block(const uint8_t *from)
{
	for (int i = 0; i < 16; i++, from += 4)
		schedule[i] = (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
	for (int i = 16; i < 80; i++)
		schedule[i] = rotate(schedule[i - 3] ^ schedule[i - 8] ^ schedule[i - 14] ^ schedule[i - 16], 1);
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
	for (int i = 0; i < 80; i++) {
		uint32_t f, k;
		if (i < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (i < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (i < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		uint32_t sum = rotate(a, 5) + f + e + k + schedule[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = sum;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 1024; i++)
		data[i] = (uint8_t)(i * 7);
	long times = argument(argc, argv, 10);
	for (long i = 0; i < times; i++)
		for (int at = 0; at < 1024; at += 64)
			block(data + at);
	return (state[0] ^ state[3]) & 0x7f;
}
