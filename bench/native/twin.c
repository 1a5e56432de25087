/* A guest's C, built for this machine: runs it once for each number on standard input and answers with its exit code
 * and the nanoseconds that it took. */
#undef main
#include <stdio.h>
#include <time.h>

int guest_main(int argc, char **argv);

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		char *arguments[] = { line, NULL };
		long long start = now();
		int code = guest_main(1, arguments);
		printf("%d %lld\n", code, now() - start);
		fflush(stdout);
	}
	return 0;
}
