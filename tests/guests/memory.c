/* The memory functions that gcc calls on its own, byte by byte; the empty asm keeps gcc from calling them from themselves. */
#include <stddef.h>

void *memset(void *to, int value, size_t size)
{
	char *p = to;
	while (size--) {
		*p++ = (char)value;
		__asm__("");
	}
	return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
	char *p = to;
	const char *q = from;
	while (size--) {
		*p++ = *q++;
		__asm__("");
	}
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	char *p = to;
	const char *q = from;
	if (p <= q)
		return memcpy(to, from, size);
	while (size--) {
		p[size] = q[size];
		__asm__("");
	}
	return to;
}

int memcmp(const void *left, const void *right, size_t size)
{
	const unsigned char *p = left, *q = right;
	for (; size; size--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

size_t strlen(const char *text)
{
	size_t length = 0;
	while (text[length]) {
		length++;
		__asm__("");
	}
	return length;
}
