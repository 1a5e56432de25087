/* What PQClean's code asks of its surroundings: random bytes, here always the same. */
#ifndef PQCLEAN_H
#define PQCLEAN_H

#include <stddef.h>
#include <stdint.h>

int PQCRYPTO_RUST_randombytes(uint8_t *bytes, size_t size);

int PQCRYPTO_RUST_randombytes(uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i * 73 + 11);
	return 0;
}

#endif
