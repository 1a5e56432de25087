/* Quicksort of 30,000 numbers, a check, then a walk over a shuffled list; the argument is the number of passes. */
#include <stdint.h>
#include "argument.h"

#define COUNT 30000

static int64_t values[COUNT];

struct node {
	struct node *next;
	int64_t value;
};

static struct node nodes[COUNT];
static uint64_t seed;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void quicksort(int64_t *v, long low, long high)
{
	while (low < high) {
		int64_t pivot = v[(low + high) >> 1];
		long i = low, j = high;
		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j) {
				int64_t swapped = v[i];
				v[i++] = v[j];
				v[j--] = swapped;
			}
		}
		if (j - low < high - i) {
			quicksort(v, low, j);
			low = i;
		} else {
			quicksort(v, i, high);
			high = j;
		}
	}
}

__attribute__((noinline)) static int64_t chase(struct node *node, long steps)
{
	int64_t sum = 0;
	while (steps--) {
		sum = sum * 3 + node->value;
		node = node->next;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t hash = (uint64_t)argc;
	long passes = argument(argc, argv, 1);
	seed = 88172645463325252ULL;
	for (long pass = 0; pass < passes; pass++) {
		for (int i = 0; i < COUNT; i++)
			values[i] = (int64_t)next_random();
		quicksort(values, 0, COUNT - 1);
		for (int i = 1; i < COUNT; i++)
			if (values[i - 1] > values[i])
				return 99;
		for (int i = 0; i < COUNT; i++) {
			nodes[i].value = values[i];
			nodes[i].next = &nodes[(i * 7919u + 13) % COUNT];
		}
		hash = hash * 31 + (uint64_t)chase(nodes, COUNT * 4);
	}
	return (hash ^ (hash >> 32)) & 0x7f;
}
