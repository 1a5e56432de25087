/* Words made of table entries by each of their bytes, in ten rounds of four words (as ciphers with tables are); the
 * argument is the number of KiB. */
#include <stdint.h>
#include "argument.h"

static uint32_t table[4][256];
static uint32_t keys[44];

__attribute__((noinline)) static void encrypt(uint32_t *block)
{
	uint32_t a = block[0] ^ keys[0], b = block[1] ^ keys[1], c = block[2] ^ keys[2], d = block[3] ^ keys[3];
	for (int round = 1; round <= 10; round++) {
		const uint32_t *key = keys + 4 * round;
		uint32_t w = table[0][a >> 24] ^ table[1][b >> 16 & 255] ^ table[2][c >> 8 & 255] ^ table[3][d & 255] ^ key[0];
		uint32_t x = table[0][b >> 24] ^ table[1][c >> 16 & 255] ^ table[2][d >> 8 & 255] ^ table[3][a & 255] ^ key[1];
		uint32_t y = table[0][c >> 24] ^ table[1][d >> 16 & 255] ^ table[2][a >> 8 & 255] ^ table[3][b & 255] ^ key[2];
		uint32_t z = table[0][d >> 24] ^ table[1][a >> 16 & 255] ^ table[2][b >> 8 & 255] ^ table[3][c & 255] ^ key[3];
		a = w;
		b = x;
		c = y;
		d = z;
	}
	block[0] = a;
	block[1] = b;
	block[2] = c;
	block[3] = d;
}

int main(int argc, char **argv)
{
	uint32_t seed = 1, block[4] = { 1, 2, 3, 4 };
	for (int i = 0; i < 1024; i++)
		table[i >> 8][i & 255] = seed = seed * 1664525 + 1013904223;
	for (int i = 0; i < 44; i++)
		keys[i] = seed = seed * 1664525 + 1013904223;
	long kib = argument(argc, argv, 10);
	for (long i = 0; i < kib * 64; i++)
		encrypt(block);
	return (block[0] ^ block[1] ^ block[2] ^ block[3]) & 0x7f;
}
