/* What a program of csmith needs beside its headers: it prints its checksum, and that alone. */
#include <stdarg.h>

static void print(const char *text)
{
	register const char *a0 __asm__("a0") = text;
	register long a7 __asm__("a7") = 2177;
	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

int printf(const char *format, ...)
{
	char digits[9] = "00000000";
	va_list list;
	va_start(list, format);
	unsigned number = va_arg(list, unsigned);
	va_end(list);
	for (int at = 7; at >= 0; at--, number >>= 4)
		digits[at] = "0123456789ABCDEF"[number & 15];
	print(digits);
	return 0;
}

/* Asked about an argument that there never is. */
int strcmp(const char *left, const char *right)
{
	for (; *left == *right; left++, right++)
		if (!*left)
			return 0;
	return *left - *right;
}
