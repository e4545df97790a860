/* moat-ssh.c - the program moat-ssh: SSH with one guest. See driver/vagrant/ssh/ssh.h. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "driver/vagrant/ssh/ssh.h"

int main(void)
{
	if (fcntl(SSH_FD_ORDERS, F_GETFD) < 0) {
		fprintf(stderr, "moat-ssh is internal to moat\n");
		return 2;
	}
	_exit(ssh_main()); /* no exit handlers: the kernel closes everything, and no output is
			      buffered */
}
