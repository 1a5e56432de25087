/* A guest's C, built for this machine: runs it once for each number on standard input and answers with its exit code
 * and the nanoseconds of processor time that it took. Each run is a process of its own, because a guest starts with its
 * data as the file has it. With an argument it runs once, with that number, and exits with the program's code. */
#undef main
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int guest_main(int argc, char **argv);

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	char line[64];
	if (argc == 2)
		return guest_main(1, argv + 1);
	while (fgets(line, sizeof line, stdin)) {
		char *arguments[] = { line, NULL };
		pid_t child = fork();
		if (child == 0) {
			long long start = now();
			int code = guest_main(1, arguments);
			printf("%d %lld\n", code, now() - start);
			fflush(stdout);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			return 1;
	}
	return 0;
}
