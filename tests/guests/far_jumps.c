/* Errors that are caught: picolibc's setjmp and longjmp over calls that work, nested, in a loop; the argument is the number of
 * rounds. Exits with a sum of what was caught. */
#include <setjmp.h>
#include <stdint.h>
#include "argument.h"

struct handler {
	jmp_buf buffer;
	struct handler *before;
	volatile int status;
};

static struct handler *innermost;
static uint64_t work[64];

static __attribute__((noinline)) void throw(int status)
{
	innermost->status = status;
	longjmp(innermost->buffer, 1);
}

/* Works, calls itself, and fails at the end of one in three ways down. */
static __attribute__((noinline)) uint64_t descend(uint64_t seed, int depth)
{
	uint64_t sum = seed;
	for (int i = 0; i < 64; i++) {
		work[i] = work[i] * 6364136223846793005u + sum;
		sum += work[i] >> 33;
	}
	if (depth == 0) {
		if (seed % 3 == 0)
			throw((int)(sum & 63) + 1);
		return sum;
	}
	return descend(seed, depth - 1) + sum * 3;
}

static __attribute__((noinline)) int caught(uint64_t (*call)(uint64_t, int), uint64_t seed, int depth, uint64_t *result)
{
	struct handler handler = { .before = innermost, .status = 0 };
	innermost = &handler;
	if (setjmp(handler.buffer) == 0)
		*result += call(seed, depth);
	innermost = handler.before;
	return handler.status;
}

/* A call that catches, in one that fails itself. */
static __attribute__((noinline)) uint64_t nested(uint64_t seed, int depth)
{
	uint64_t sum = 0;
	int status = caught(descend, seed, depth, &sum);
	if (status & 1)
		throw(status + 1);
	return sum + (uint64_t)status;
}

int main(int argc, char **argv)
{
	uint64_t rounds = (uint64_t)argument(argc, argv, 1), sum = 0;
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t result = 0;
		int first = caught(descend, round, (int)(round % 7), &result);
		int second = caught(nested, round, (int)(round % 5), &result);
		sum = sum * 31 + result + (uint64_t)(first * 64 + second);
	}
	return (int)(sum >> 7 & 127);
}
