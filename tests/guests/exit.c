/* Exits with its argument. */
#include "argument.h"

int main(int argc, char **argv)
{
	return (int)argument(argc, argv, 0);
}
