/* Pointer chasing: walks a ring of 32,768 nodes in a shuffled order (512 KiB, more than a first-level cache), a quarter
 * round for each pass; the argument is the number of passes. */
#include <stdint.h>
#include "argument.h"

#define NODES (1 << 15)

static struct node {
	struct node *next;
	uint64_t value;
} nodes[NODES];

int main(int argc, char **argv)
{
	static uint32_t order[NODES];
	uint64_t seed = 1, sum = 0;
	long passes = argument(argc, argv, 1);
	for (uint32_t i = 0; i < NODES; i++)
		order[i] = i;
	for (uint32_t i = NODES - 1; i > 0; i--) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		uint32_t at = (uint32_t)(seed >> 33) % (i + 1), kept = order[i];
		order[i] = order[at], order[at] = kept;
	}
	for (uint32_t i = 0; i < NODES; i++) {
		nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
		nodes[order[i]].value = i;
	}
	struct node *node = nodes;
	for (long pass = 0; pass < passes; pass++) {
		for (int i = 0; i < NODES / 4; i++, node = node->next)
			sum = sum * 3 + node->value++;
	}
	return (sum ^ (sum >> 32)) & 0x7f;
}
