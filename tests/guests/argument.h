/* The last argument as a number: how often a guest repeats its work, or what it computes. Version 0 refuses to load the
 * last byte of memory, which ends the first argument: there, give one more in front. */
#ifndef ARGUMENT_H
#define ARGUMENT_H

static long argument(int argc, char **argv, long otherwise)
{
	if (argc < 1)
		return otherwise;
	const char *text = argv[argc - 1];
	int negative = *text == '-';
	long number = 0;
	for (text += negative; *text >= '0' && *text <= '9'; text++)
		number = number * 10 + (*text - '0');
	return negative ? -number : number;
}

#endif
