/* BLAKE2b-256 of a changing 1 KiB buffer by its reference implementation as published in the crate blake2b-rs; the
 * argument is the number of hashes. */
#include <stdint.h>
#include <blake2.h>
#include "argument.h"

static uint8_t buffer[1024], digest[32];

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	for (int i = 0; i < 1024; i++)
		buffer[i] = (uint8_t)(i * 7);
	for (long i = 0; i < times; i++) {
		blake2b_state state;
		blake2b_init(&state, sizeof digest);
		blake2b_update(&state, buffer, sizeof buffer);
		blake2b_final(&state, digest, sizeof digest);
		buffer[i & 1023] ^= digest[i & 31];
	}
	return (digest[0] ^ digest[13] ^ digest[31]) & 0x7f;
}
