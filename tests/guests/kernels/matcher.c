/* A matcher of patterns that tries and goes back: letters, dots, classes, stars and groups by recursion; the argument is
 * the number of times that the texts are searched. */
#include <stdint.h>
#include "argument.h"

static char text[2048];
static const char *patterns[] = { "a*b*c*d", ".*ab.*cd", "[abc]*d[ef]*a", "a.b.c", "e*e*e*f", "[a-c]*[d-f]*g" };

static int is_in(const char *set, char letter)
{
	for (; *set && *set != ']'; set++) {
		if (set[1] == '-' && set[2] != ']') {
			if (letter >= set[0] && letter <= set[2])
				return 1;
			set += 2;
		} else if (*set == letter) {
			return 1;
		}
	}
	return 0;
}

static const char *behind(const char *pattern)
{
	if (*pattern == '[')
		while (*pattern != ']')
			pattern++;
	return pattern + 1;
}

static int fits(const char *pattern, char letter)
{
	if (!letter)
		return 0;
	if (*pattern == '.')
		return 1;
	return *pattern == '[' ? is_in(pattern + 1, letter) : *pattern == letter;
}

__attribute__((noinline)) static const char *match(const char *pattern, const char *at)
{
	if (!*pattern)
		return at;
	const char *rest = behind(pattern);
	if (*rest == '*') {
		const char *end = at;
		while (end < at + 12 && fits(pattern, *end))
			end++;
		for (; end >= at; end--) {
			const char *found = match(rest + 1, end);
			if (found)
				return found;
		}
		return 0;
	}
	return fits(pattern, *at) ? match(rest, at + 1) : 0;
}

int main(int argc, char **argv)
{
	uint32_t seed = 7, sum = 0;
	for (unsigned i = 0; i < sizeof text - 1; i++)
		text[i] = (char)('a' + ((seed = seed * 1664525 + 1013904223) >> 29));
	long times = argument(argc, argv, 1);
	for (long i = 0; i < times; i++)
		for (unsigned which = 0; which < sizeof patterns / sizeof *patterns; which++)
			for (const char *at = text; *at; at++) {
				const char *found = match(patterns[which], at);
				if (found)
					sum = sum * 31 + (uint32_t)(found - at);
			}
	return (sum ^ (sum >> 16)) & 0x7f;
}
