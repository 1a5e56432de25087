/* Schnorr verification (BIP 340) with libsecp256k1 as published in the crate secp256k1-sys; signs two messages, then
 * verifies as often as the argument says. Exits 0 when every signature holds. */
#include <stdint.h>
#include <stdlib.h>
#include <secp256k1.h>
#include <secp256k1_preallocated.h>
#include <secp256k1_schnorrsig.h>
#include "argument.h"

#define COUNT 2

static uint64_t room[256];
static unsigned char messages[COUNT][32], signatures[COUNT][64];
static rustsecp256k1_v0_14_xonly_pubkey keys[COUNT];

void rustsecp256k1_v0_14_default_illegal_callback_fn(const char *text, void *data)
{
	(void)text, (void)data;
	__builtin_trap();
}

void rustsecp256k1_v0_14_default_error_callback_fn(const char *text, void *data)
{
	(void)text, (void)data;
	__builtin_trap();
}

static int sign(rustsecp256k1_v0_14_context *context, int i)
{
	rustsecp256k1_v0_14_keypair pair;
	unsigned char secret[32];
	for (int at = 0; at < 32; at++) {
		secret[at] = (unsigned char)(at * 37 + i * 11 + 1);
		messages[i][at] = (unsigned char)(at * 91 + i * 7 + 5);
	}
	return rustsecp256k1_v0_14_keypair_create(context, &pair, secret) &&
	       rustsecp256k1_v0_14_keypair_xonly_pub(context, &keys[i], NULL, &pair) &&
	       rustsecp256k1_v0_14_schnorrsig_sign32(context, signatures[i], messages[i], &pair, NULL);
}

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	if (rustsecp256k1_v0_14_context_preallocated_size(SECP256K1_CONTEXT_NONE) > sizeof room)
		return 2;
	rustsecp256k1_v0_14_context *context =
		rustsecp256k1_v0_14_context_preallocated_create(room, SECP256K1_CONTEXT_NONE);
	for (int i = 0; i < COUNT; i++)
		if (!sign(context, i))
			return 3;
	for (long i = 0; i < times; i++)
		if (!rustsecp256k1_v0_14_schnorrsig_verify(context, signatures[i % COUNT], messages[i % COUNT],
							   32, &keys[i % COUNT]))
			return 1;
	return 0;
}
