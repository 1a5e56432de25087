/* RSA verification (PKCS #1 v1.5, SHA-256) with Mbed TLS as published in the crate mbedtls-sys-auto: reads the key,
 * hashes the message and verifies, as often as the argument says. RSA_BITS is 1024 or 2048. Exits 0 when every signature
 * holds. */
#include <string.h>
#include <mbedtls/memory_buffer_alloc.h>
#include <mbedtls/rsa.h>
#include <mbedtls/sha256.h>
#include "argument.h"

static const char message[] = "Antares verifies signatures.";

#if RSA_BITS == 1024
static const char modulus[] =
	"bdd5ab2256c23c1379ee3c13216d2fe270e34bd1614316c7031a0528cb83bcdd816d4935e4d4b8f08e83e49f581ef753"
	"987d73fe539a44b6ab30fd4f6700fb249b44b4488f8649ded65de8c2d667d15f39a3284a504e50259f9b431c268d96a6"
	"24544824888ab097c5b980c0af4a917bf06528e14c81e4057d91e8489431869f";
static const char signature_text[] =
	"777df2867be66eef8127d2b175ab112022e946f79eddcbb2750caa3ccec945c2f6389ef2ffd66e2437af325ffdde8ffc"
	"f8e8b4bd7433499860ada7bcc47a4548ba24da1098217317d49a39f997b83dea61f99edb08fc4441906d2405b97f37d8"
	"52a9dde9bd91774ce42b8b44997d0fddb3e95a02765749eb5dc90f161d9b5df2";
#else
static const char modulus[] =
	"ebb04b40855567625096d1d64d13a60432fcc7593a3505d2fbefb9eb9bf1983fe187ef114a0f30aa8ba1c61d0cb0bb2d"
	"7f3245af7500681f7b717ba44326c7b545fbf041e4c1c6221161d3f59f768267c18b30e6d6f5b121a7940ad9aed1d321"
	"d65d783e6f2f32aacf3351acb46be3db6f7680256108e949a1c0ca0db7f37b9c8d985b4400d99f53898039c8661f76d4"
	"8eac54f03a56fc89fb7cf619845d6760914c5a39ef141c1b646f32e41e08fa0a4d3403cbe4e3c559f8aa72dbc3446b98"
	"d475850686d2668d026aa49a7dff13c886e124357eaf8f0c14e369e668ea656eaf1ac4c5fb999e8369b30c9e092b9172"
	"d7ba6009948a1672aa92ecd9565134ed";
static const char signature_text[] =
	"69357ec5a7888d956c45a694d7b62469cfbab59be013bccb59a232d1a4b18d9b3c071c413a1c6e6f3fde2e0e3ac19261"
	"86e5f759018f47bc7b49fd722cedde522320097339a761b3c32d2f12de0198d49bcd43cb739b12c4f2efdca91ec75379"
	"0ae91377f4ccc2dcf88c49ca1283f8be5fbb359d9422bf03932720492e220d4f3b1b3366d534a346047b4f6ff6ca39e4"
	"e903a328aa870f6d89872c1be5db656bb5e55be2aa3ac733b9eba25898ce561b87a4750db2b143a26bd9051ef9fbc0c1"
	"b1a6a5a82a49d6f961391d212ba4c302dcd6a9cfe219a2bfb61a2fb02915e3dd1ea428397095e3ba1b57d5da041aeb76"
	"6dfd685bb1d96ad1b408cfc1e9c75bdd";
#endif

static unsigned char room[64 << 10], signature[RSA_BITS / 8];

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static int verify(const unsigned char *given)
{
	mbedtls_rsa_context rsa;
	unsigned char hash[32];
	mbedtls_rsa_init(&rsa, MBEDTLS_RSA_PKCS_V15, 0);
	int failed = mbedtls_mpi_read_string(&rsa.N, 16, modulus) || mbedtls_mpi_read_string(&rsa.E, 16, "10001");
	rsa.len = (mbedtls_mpi_bitlen(&rsa.N) + 7) >> 3;
	failed = failed || mbedtls_sha256_ret((const unsigned char *)message, sizeof message - 1, hash, 0) ||
		 mbedtls_rsa_pkcs1_verify(&rsa, NULL, NULL, MBEDTLS_RSA_PUBLIC, MBEDTLS_MD_SHA256, 32, hash,
					  given);
	mbedtls_rsa_free(&rsa);
	return !failed;
}

int main(int argc, char **argv)
{
	long times = argument(argc, argv, 1);
	mbedtls_memory_buffer_alloc_init(room, sizeof room);
	for (unsigned i = 0; i < sizeof signature; i++)
		signature[i] = (unsigned char)(digit(signature_text[2 * i]) << 4 | digit(signature_text[2 * i + 1]));
	for (long i = 0; i < times; i++)
		if (!verify(signature))
			return 1;
	return 0;
}
