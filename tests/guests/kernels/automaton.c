/* A state machine of 64 states, as generators write them: a switch, each state with its own work on arrays of words;
 * the argument is the number of walks over the input. */
#include <stdint.h>
#include "argument.h"

static uint32_t input[1024];
static uint32_t words[64];
static uint32_t counts[64];

#define STATE(n) \
	case n: \
		words[n] += word ^ words[((n) * 7 + 3) & 63]; \
		counts[((n) * 5 + 1) & 63]++; \
		if (words[n] & (1u << ((n) % 31))) \
			words[((n) + 17) & 63] ^= counts[n] + word; \
		else \
			words[((n) + 29) & 63] -= word >> ((n) % 7); \
		state = ((word ^ words[n]) >> ((n) % 13)) & 63; \
		break;
#define STATES(n) \
	STATE(n) STATE((n) + 1) STATE((n) + 2) STATE((n) + 3) STATE((n) + 4) STATE((n) + 5) STATE((n) + 6) STATE((n) + 7)

__attribute__((noinline)) static uint32_t walk(uint32_t state)
{
	for (int at = 0; at < 1024; at++) {
		uint32_t word = input[at];
		switch (state) {
		STATES(0) STATES(8) STATES(16) STATES(24) STATES(32) STATES(40) STATES(48) STATES(56)
		}
	}
	return state;
}

int main(int argc, char **argv)
{
	uint32_t seed = 12345, state = 0;
	for (int i = 0; i < 1024; i++)
		input[i] = seed = seed * 1664525 + 1013904223;
	long walks = argument(argc, argv, 10);
	for (long i = 0; i < walks; i++)
		state = walk(state);
	return (state ^ words[7] ^ counts[9]) & 0x7f;
}
