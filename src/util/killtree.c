#include "util/killtree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* One pass over our direct children. A killed child's own children become ours for the next pass.
 */
static void kill_children(void)
{
	char path[64];
	FILE *f;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (!f)
		return;
	while (fscanf(f, "%d", &pid) == 1)
		kill((pid_t)pid, SIGKILL);
	fclose(f);
}

void killtree_below_self(void)
{
	for (;;) {
		kill_children();
		if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
			return;
	}
}
