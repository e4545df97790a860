/* What a process can still do that has given up all system calls but those on its sockets. */
#include "util/system/confine.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "util/auto.h"

enum { FIRST = 10, END = 11, KEPT = 12 }; /* 10 may send to any address; 11 is another that stays */

static struct sockaddr_in peer;

static bool refused(long rc)
{
	return rc < 0 && errno == EPERM;
}

static bool sends(int fd, int flags, const void *to)
{
	return sendto(fd, "x", 1, flags, to, to ? sizeof(peer) : 0) == 1;
}

static bool send_refused(int fd, int flags, const void *to)
{
	return refused(sendto(fd, "x", 1, flags, to, to ? sizeof(peer) : 0));
}

/* Each bit of the result is one thing that is not as it should be. */
static unsigned look(void)
{
	const void *high = (const void *)(UINT64_C(1) << 40); /* its lower half is zero */
	const bool as_expected[] = {
		refused(open("/dev/null", O_RDONLY)),
		refused(socket(AF_INET, SOCK_DGRAM, 0)),
		refused(connect(KEPT, (void *)&peer, sizeof(peer))),
		refused(syscall(SYS_dup3, KEPT, FIRST, 0)),
		refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)),
		refused(syscall(SYS_execve, "/bin/true", NULL, NULL)),
		refused(syscall(SYS_kill, getppid(), 0)),
		refused(syscall(SYS_close, FIRST)),
		refused(syscall(SYS_close, KEPT - 1)),
		refused(syscall(SYS_write, FIRST, "x", 1)),
		send_refused(KEPT, 0, &peer),
		send_refused(KEPT - 1, 0, &peer),
		send_refused(FIRST - 1, 0, &peer),
		send_refused(KEPT, 0, high),
		send_refused(FIRST, MSG_OOB, &peer),
		refused((long)mmap(
			NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
		sends(FIRST, 0, &peer),
		sends(KEPT, MSG_NOSIGNAL | MSG_DONTWAIT, NULL),
		syscall(SYS_close, KEPT) == 0,
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
			MAP_FAILED,
	};
	unsigned wrong = 0;

	static_assert(ARRAY_LEN(as_expected) < 32, "a bit each");
	for (unsigned i = 0; i < ARRAY_LEN(as_expected); i++)
		wrong |= (unsigned)!as_expected[i] << i;
	return wrong;
}

/* The child says what it found through memory: it has no other way left. */
static unsigned in_child(void)
{
	struct confine_sockets sockets = {.first = FIRST, .end = END, .kept = KEPT};
	unsigned *said = mmap(
		NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	socklen_t len = sizeof(peer);
	int status, fd;
	pid_t pid;

	*said = ~0u;
	pid = fork();
	if (pid == 0) {
		for (int i = FIRST - 1; i <= KEPT; i++) {
			fd = socket(AF_INET, SOCK_DGRAM, 0);
			peer = (struct sockaddr_in){
				.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
			bind(fd, (void *)&peer, sizeof(peer));
			getsockname(fd, (void *)&peer, &len);
			dup2(fd, i);
		}
		connect(KEPT, (void *)&peer, sizeof(peer));
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (confine_sockets(&sockets) == 0)
			*said = look();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return *said;
}

int main(void)
{
	unsigned wrong = in_child();

	tap_ok(wrong == 0, "a process with its sockets alone (%x)", wrong);
	return tap_done();
}
