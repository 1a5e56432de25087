/* LZ4 as published in the crate lz4-sys: compresses 64 KiB of text and decompresses it, as often as the argument says.
 * Exits with a checksum. */
#include <stdint.h>
#include <lz4.h>
#include "argument.h"

#define SIZE (64 << 10)

static char text[SIZE], packed[LZ4_COMPRESSBOUND(SIZE)], unpacked[SIZE];

/* Words from a small vocabulary, in an order that a generator chooses. */
static void fill(uint64_t seed)
{
	static const char *const words[] = { "cell ",	"script ", "witness ", "capacity ", "the ", "of ",
					     "lock_hash=", "0x",   "type, ",   "header\n",  "and ", "7f" };
	for (int at = 0; at < SIZE;) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		for (const char *word = words[(seed >> 33) % 12]; *word && at < SIZE; word++)
			text[at++] = *word;
		if (!(seed >> 60) && at < SIZE)
			text[at++] = (char)(seed >> 40);
	}
}

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	uint64_t hash = 1;
	fill(1);
	for (long i = 0; i < times; i++) {
		int size = LZ4_compress_default(text, packed, SIZE, sizeof packed);
		if (size <= 0 || LZ4_decompress_safe(packed, unpacked, size, SIZE) != SIZE)
			return 1;
		hash = hash * 31 + (uint64_t)size + (unsigned char)unpacked[hash % SIZE];
		text[hash % SIZE] ^= (char)hash;
	}
	return (hash ^ (hash >> 32)) & 0x7f;
}
