/* Calls picolibc's memset, memcpy, memmove and memcmp with every length and alignment; the argument is the number of
 * passes. picolibc's memset jumps into its own unrolled body. */
#include <stdint.h>
#include <string.h>
#include "argument.h"

static uint8_t left[1024], right[1024];

int main(int argc, char **argv)
{
	uint64_t hash = 1;
	long passes = argument(argc, argv, 1);
	for (long pass = 0; pass < passes; pass++) {
		for (unsigned size = 0; size < 200; size++) {
			unsigned at = (unsigned)(hash >> 7) & 31;
			memset(left + at, (int)hash, size);
			memcpy(right + (at ^ 5), left + at, size);
			memmove(right + 3, right + (at ^ 5), size);
			hash = hash * 31 + (uint64_t)(memcmp(left, right, size) > 0) + right[size];
		}
	}
	return (hash ^ (hash >> 32)) & 0x7f;
}
