/* Powers modulo a 64-bit number, each product of 128 bits divided bit by bit; the argument is the number of powers. */
#include <stdint.h>
#include "argument.h"

typedef unsigned __int128 wide;

__attribute__((noinline)) static uint64_t product(uint64_t a, uint64_t b, uint64_t modulus)
{
	wide whole = (wide)a * b;
	uint64_t rest = 0;
	for (int bit = 127; bit >= 0; bit--) {
		uint64_t top = rest >> 63;
		rest = rest << 1 | ((uint64_t)(whole >> bit) & 1);
		if (top || rest >= modulus)
			rest -= modulus;
	}
	return rest;
}

__attribute__((noinline)) static uint64_t power(uint64_t base, uint64_t exponent, uint64_t modulus)
{
	uint64_t result = 1;
	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			result = product(result, base, modulus);
		base = product(base, base, modulus);
	}
	return result;
}

int main(int argc, char **argv)
{
	uint64_t sum = 3;
	long powers = argument(argc, argv, 10);
	for (long i = 0; i < powers; i++)
		sum ^= power(sum | 2, 0x123456789abcdefULL + (uint64_t)i, 0xffffffffffffffc5ULL);
	return (sum ^ (sum >> 32)) & 0x7f;
}
