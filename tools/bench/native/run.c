/* What other engines call: runs a guest's main with the argument as text. For PolkaVM it is exported in the form that its
 * linker reads. */
#undef main
#include <stdint.h>

int guest_main(int argc, char **argv);

int run(int repetitions)
{
	char text[12], *at = text + sizeof text - 1, *arguments[2];
	*at = 0;
	do
		*--at = (char)('0' + repetitions % 10);
	while (repetitions /= 10);
	arguments[0] = at;
	arguments[1] = 0;
	return guest_main(1, arguments);
}

int strcmp(const char *left, const char *right)
{
	for (; *left && *left == *right; left++, right++)
		__asm__("");
	return (unsigned char)*left - (unsigned char)*right;
}

#if defined(__wasm__) && !defined(__wasm_wide_arithmetic__)
/* Products of 128 bits, which are a call where there is no instruction for them. */
__int128 __multi3(__int128 left, __int128 right)
{
	uint64_t a = (uint64_t)left, b = (uint64_t)right;
	uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
	uint64_t low = a_low * b_low, one = a_high * b_low + (low >> 32), two = a_low * b_high + (uint32_t)one;
	uint64_t high = a_high * b_high + (one >> 32) + (two >> 32);
	high += a * (uint64_t)(right >> 64) + (uint64_t)(left >> 64) * b;
	return (__int128)((unsigned __int128)high << 64 | (two << 32 | (uint32_t)low));
}
#endif

#ifdef __riscv
__asm__(".section .rodata.run_name, \"a\"\n"
	"run_name: .ascii \"run\"\n"
	".section .polkavm_metadata, \"aw\"\n"
	"run_metadata:\n"
	".byte 1\n.4byte 0\n.4byte 3\n.8byte run_name\n.byte 1\n.byte 1\n"
	".section .polkavm_exports, \"aw\"\n"
	".byte 1\n.8byte run_metadata\n.8byte run\n"
	".text\n");
#endif
