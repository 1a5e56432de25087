/* ML-DSA-44 verification by PQClean's portable C as published in the crate pqcrypto-mldsa; makes a key, signs, and
 * verifies as often as the argument says. Exits with a byte of the signature when it
 * holds. */
#include <stddef.h>
#include <stdint.h>
#include <api.h>
#include "argument.h"
#include "pqclean.h"

static uint8_t public_key[PQCLEAN_MLDSA44_CLEAN_CRYPTO_PUBLICKEYBYTES];
static uint8_t secret_key[PQCLEAN_MLDSA44_CLEAN_CRYPTO_SECRETKEYBYTES];
static uint8_t signature[PQCLEAN_MLDSA44_CLEAN_CRYPTO_BYTES];
static const uint8_t message[] = "Antares verifies signatures.";

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	size_t length = 0;
	if (PQCLEAN_MLDSA44_CLEAN_crypto_sign_keypair(public_key, secret_key) ||
	    PQCLEAN_MLDSA44_CLEAN_crypto_sign_signature(signature, &length, message, sizeof message, secret_key))
		return 2;
	for (long i = 0; i < times; i++)
		if (PQCLEAN_MLDSA44_CLEAN_crypto_sign_verify(signature, length, message, sizeof message, public_key))
			return 1;
	return signature[7] & 0x7f;
}
