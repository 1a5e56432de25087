/* The memory functions for programs that lean on them: by words where both addresses allow it. The twins are linked with
 * them as well, so that both sides run the same C. The empty asm keeps gcc from calling them from themselves. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) word;

void *memset(void *to, int value, size_t size)
{
	unsigned char *p = to;
	word filled = (unsigned char)value * 0x0101010101010101ULL;
	for (; size && ((uintptr_t)p & 7); size--, p++) {
		*p = (unsigned char)value;
		__asm__("");
	}
	for (; size >= 32; size -= 32, p += 32) {
		word *w = (word *)p;
		w[0] = filled, w[1] = filled, w[2] = filled, w[3] = filled;
		__asm__("");
	}
	for (; size; size--, p++) {
		*p = (unsigned char)value;
		__asm__("");
	}
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	unsigned char *p = to;
	const unsigned char *q = from;
	if (!(((uintptr_t)p ^ (uintptr_t)q) & 7)) {
		for (; size && ((uintptr_t)p & 7); size--) {
			*p++ = *q++;
			__asm__("");
		}
		for (; size >= 32; size -= 32, p += 32, q += 32) {
			const word *v = (const word *)q;
			word a = v[0], b = v[1], c = v[2], d = v[3], *w = (word *)p;
			w[0] = a, w[1] = b, w[2] = c, w[3] = d;
			__asm__("");
		}
	}
	while (size--) {
		*p++ = *q++;
		__asm__("");
	}
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	unsigned char *p = to;
	const unsigned char *q = from;
	if ((uintptr_t)p - (uintptr_t)q >= size)
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
