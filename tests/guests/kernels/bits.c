/* A decoder that reads bits one call at a time, its state in globals, and copies what it has read before; the argument
 * is the number of times that the stream is decoded. */
#include <stdint.h>
#include "argument.h"

static uint8_t stream[4096];
static const uint8_t *next_byte;
static uint32_t buffer;
static int filled;
static uint8_t window[8192];
static uint32_t written;

__attribute__((noinline)) static uint32_t read_bits(int bits)
{
	while (filled < bits) {
		buffer |= (uint32_t)*next_byte++ << filled;
		filled += 8;
	}
	uint32_t value = buffer & ((1u << bits) - 1);
	buffer >>= bits;
	filled -= bits;
	return value;
}

__attribute__((noinline)) static uint32_t read_code(void)
{
	uint32_t code = 0;
	int length = 0;
	do {
		code = code << 1 | read_bits(1);
		length++;
	} while (length < 9 && (code & 3) != 3);
	return code + (uint32_t)length;
}

__attribute__((noinline)) static void put(uint8_t byte) { window[written++ & 8191] = byte; }

__attribute__((noinline)) static void decode(void)
{
	next_byte = stream;
	buffer = 0;
	filled = 0;
	while (next_byte < stream + sizeof stream - 16) {
		if (read_bits(1)) {
			put((uint8_t)read_code());
			continue;
		}
		uint32_t length = 2 + read_bits(3), distance = 1 + read_bits(7);
		while (length--)
			put(window[(written - distance) & 8191]);
	}
}

int main(int argc, char **argv)
{
	uint32_t seed = 4711, sum = 0;
	for (unsigned i = 0; i < sizeof stream; i++)
		stream[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
	long times = argument(argc, argv, 10);
	for (long i = 0; i < times; i++)
		decode();
	for (int i = 0; i < 8192; i++)
		sum = sum * 31 + window[i];
	return (sum ^ (sum >> 16)) & 0x7f;
}
