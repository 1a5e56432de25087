/* What the RSA guest has of Mbed TLS: RSA with PKCS #1 v1.5 and SHA-256, memory from a buffer, limbs of 32 bits (the
 * library's default on RISC-V, and so on both sides) or, with RSA_LIMBS_64, of 64 bits; no hand-written assembly. */
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_BIGNUM_C
#ifdef RSA_LIMBS_64
#define MBEDTLS_HAVE_INT64
#define MBEDTLS_HAVE_UDBL
#define MBEDTLS_NO_UDBL_DIVISION
typedef unsigned __int128 mbedtls_t_udbl;
#else
#define MBEDTLS_HAVE_INT32
#endif
#define MBEDTLS_MD_C
#define MBEDTLS_MEMORY_BUFFER_ALLOC_C
#define MBEDTLS_NO_PLATFORM_ENTROPY
#define MBEDTLS_OID_C
#define MBEDTLS_PKCS1_V15
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_EXIT_MACRO(status) __builtin_trap()
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_NO_STD_FUNCTIONS
#define MBEDTLS_PLATFORM_SNPRINTF_MACRO(...) (-1)
#define MBEDTLS_RSA_C
#define MBEDTLS_SHA256_C
#include <mbedtls/check_config.h>
