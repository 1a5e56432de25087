/* Divisions of 32-bit numbers by numbers that are not known before: greatest common divisors, digits in many bases,
 * trial division; the argument is the number of rounds. */
#include <stdint.h>
#include "argument.h"

__attribute__((noinline)) static int32_t common(int32_t a, int32_t b)
{
	while (b) {
		int32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a < 0 ? -a : a;
}

__attribute__((noinline)) static uint32_t digits(uint32_t number, uint32_t base)
{
	uint32_t sum = 0;
	for (; number; number /= base)
		sum += number % base;
	return sum;
}

__attribute__((noinline)) static uint32_t factors(uint32_t number)
{
	uint32_t found = 0;
	for (uint32_t by = 2; by * by <= number; by++)
		while (number % by == 0) {
			number /= by;
			found += by;
		}
	return found + number;
}

int main(int argc, char **argv)
{
	uint32_t sum = 0, seed = 99;
	long rounds = argument(argc, argv, 100);
	for (long i = 0; i < rounds; i++) {
		seed = seed * 1664525 + 1013904223;
		sum += (uint32_t)common((int32_t)seed, (int32_t)(seed * 31 + 7));
		sum += digits(seed, 2 + (seed >> 28));
		sum += factors(seed >> 14);
	}
	return (sum ^ (sum >> 16)) & 0x7f;
}
