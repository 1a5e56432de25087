/* Copies and fills of changing length and alignment by Duff's device: jumps into an unrolled loop; the argument is the
 * number of passes. */
#include <stdint.h>
#include "argument.h"

__attribute__((noinline)) static void copy(uint64_t *to, const uint64_t *from, long words)
{
	long rounds = (words + 7) / 8;
	switch (words & 7) {
	case 0: do { *to++ = *from++; /* fall through */
	case 7:      *to++ = *from++; /* fall through */
	case 6:      *to++ = *from++; /* fall through */
	case 5:      *to++ = *from++; /* fall through */
	case 4:      *to++ = *from++; /* fall through */
	case 3:      *to++ = *from++; /* fall through */
	case 2:      *to++ = *from++; /* fall through */
	case 1:      *to++ = *from++;
		} while (--rounds > 0);
	}
}

__attribute__((noinline)) static void fill(uint8_t *to, uint8_t value, long bytes)
{
	long rounds = (bytes + 7) / 8;
	switch (bytes & 7) {
	case 0: do { *to++ = value; /* fall through */
	case 7:      *to++ = value; /* fall through */
	case 6:      *to++ = value; /* fall through */
	case 5:      *to++ = value; /* fall through */
	case 4:      *to++ = value; /* fall through */
	case 3:      *to++ = value; /* fall through */
	case 2:      *to++ = value; /* fall through */
	case 1:      *to++ = value; __asm__("");
		} while (--rounds > 0);
	}
}

static uint64_t left[512], right[512];

int main(int argc, char **argv)
{
	uint64_t hash = (uint64_t)argc;
	long passes = argument(argc, argv, 100);
	for (int i = 0; i < 512; i++)
		left[i] = right[i] = (uint64_t)i * 0x9e3779b97f4a7c15ULL;
	for (long pass = 0; pass < passes; pass++) {
		long words = 1 + (long)((hash ^ (uint64_t)pass) & 255), at = (long)((hash >> 8) & 127);
		copy(right + at, left, words);
		fill((uint8_t *)left + (pass & 7), (uint8_t)hash, 1 + (long)(hash >> 16 & 511));
		copy(left + (pass & 63), right + at, words);
		hash = hash * 31 + right[(hash >> 3) & 511] + left[(hash >> 5) & 511];
	}
	return (hash ^ (hash >> 32)) & 0x7f;
}
