/* SHA3-256 of a changing 1 KiB buffer by PQClean's Keccak as published in the crate pqcrypto-internals; the argument is
 * the number of hashes. */
#include <stdint.h>
#include <fips202.h>
#include "argument.h"

static uint8_t buffer[1024], digest[32];

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	for (int i = 0; i < 1024; i++)
		buffer[i] = (uint8_t)(i * 7);
	for (long i = 0; i < times; i++) {
		sha3_256(digest, buffer, sizeof buffer);
		buffer[i & 1023] ^= digest[i & 31];
	}
	return (digest[0] ^ digest[13] ^ digest[31]) & 0x7f;
}
