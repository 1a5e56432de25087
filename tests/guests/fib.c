/* Fibonacci by double recursion; exits with the low seven bits of fib(argument). */
#include "argument.h"

static long fib(long n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
	return fib(argument(argc, argv, 10)) & 0x7f;
}
