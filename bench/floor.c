/* floor RUNS: in a guest, runs /bin/true so many times with nothing but fork, exec and wait, and
 * prints the milliseconds of each. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	for (int left = argc > 1 ? atoi(argv[1]) : 0; left > 0; left--) {
		double began = now_ms();
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			execl("/bin/true", "/bin/true", (char *)NULL);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
		printf("%.4f\n", now_ms() - began);
	}
	return 0;
}
