/* Montgomery multiplication modulo a 254-bit prime, four limbs, in loops; the argument is the number of pairs. */
#include <stdint.h>
#include "argument.h"

typedef unsigned __int128 wide;

static uint64_t modulus[4] = { 0x3c208c16d87cfd47ULL, 0x97816a916871ca8dULL, 0xb85045b68181585dULL,
			       0x30644e72e131a029ULL };
#define NEGATIVE_INVERSE 0x87d20782e4866389ULL

__attribute__((noinline)) static void multiply(uint64_t *out, const uint64_t *a, const uint64_t *b)
{
	uint64_t t[6] = { 0 };
	for (int i = 0; i < 4; i++) {
		wide carry = 0;
		for (int j = 0; j < 4; j++) {
			carry += (wide)a[j] * b[i] + t[j];
			t[j] = (uint64_t)carry;
			carry >>= 64;
		}
		carry += t[4];
		t[4] = (uint64_t)carry;
		t[5] = (uint64_t)(carry >> 64);
		uint64_t m = t[0] * NEGATIVE_INVERSE;
		carry = ((wide)m * modulus[0] + t[0]) >> 64;
		for (int j = 1; j < 4; j++) {
			carry += (wide)m * modulus[j] + t[j];
			t[j - 1] = (uint64_t)carry;
			carry >>= 64;
		}
		carry += t[4];
		t[3] = (uint64_t)carry;
		t[4] = t[5] + (uint64_t)(carry >> 64);
	}
	uint64_t reduced[4];
	wide borrow = 0;
	for (int j = 0; j < 4; j++) {
		wide difference = (wide)t[j] - modulus[j] - (uint64_t)borrow;
		reduced[j] = (uint64_t)difference;
		borrow = (difference >> 64) & 1;
	}
	int greater = t[4] || !borrow;
	for (int j = 0; j < 4; j++)
		out[j] = greater ? reduced[j] : t[j];
}

int main(int argc, char **argv)
{
	uint64_t x[4] = { 1, 2, 3, (uint64_t)argc }, y[4] = { 0x1234567, 0x9abcdef, 77, 0x1111 };
	long pairs = argument(argc, argv, 1000);
	for (long i = 0; i < pairs; i++) {
		multiply(x, x, y);
		multiply(y, y, x);
	}
	return (x[0] ^ y[1] ^ x[2] ^ y[3]) & 0x7f;
}
