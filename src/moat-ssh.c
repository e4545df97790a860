/* ssh.c - moat-ssh: SSH with one guest, in a process of its own; see ssh/ssh.h. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "ssh/ssh.h"

int main(void)
{
	if (fcntl(SSH_FD_ORDERS, F_GETFD) < 0) {
		fprintf(stderr, "moat-ssh is internal to moat\n");
		return 2;
	}
	_exit(ssh_main()); /* at once: the end closes everything, and nothing was written */
}
