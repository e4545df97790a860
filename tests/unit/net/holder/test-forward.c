#include "net/holder/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "util/auto.h"
#include "util/system/io.h"

/* The VM: it sends back all that it gets, the end of file too. Nothing listens at port 9. */
struct inside {
	atomic_uint connections;
};

static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char bytes[4096];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	close(fd);
	return NULL;
}

static int connect_inside(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e)
{
	struct inside *in = arg;
	pthread_t thread;
	int pair[2];

	if (f->port == 9)
		return err_set(e, ERR_UNAVAILABLE, "refused");
	if (f->port == 10) /* a guest that does not answer */
		return op_pause(op, 3600, e);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	in->connections++;
	if (f->port == 11) { /* a guest that closes at once */
		close(pair[1]);
		*ret_fd = pair[0];
		return fd_set_nonblock(pair[0], e);
	}
	if (pthread_create(&thread, NULL, echo, (void *)(intptr_t)pair[1]))
		abort();
	pthread_detach(thread);
	*ret_fd = pair[0];
	return fd_set_nonblock(pair[0], e);
}

static int call(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool echoes(int fd)
{
	char back[6] = "";

	return send(fd, "hello", 5, MSG_NOSIGNAL) == 5 && recv(fd, back, 5, MSG_WAITALL) == 5 &&
	       strcmp(back, "hello") == 0;
}

static void test_life(void)
{
	struct inside in = {0};
	struct forward list[FORWARDS_MAX];
	struct forwards *all;
	unsigned first, second, again;
	auto_fd int one = -1, two = -1;
	struct err e;
	char byte;

	OK(forwards_new(connect_inside, &in, &all, &e) == 0);
	OK(forwards_add(all, &(struct forward){.vm = 1, .port = 80}, &first, &e) == 0);
	OK(forwards_add(all, &(struct forward){.vm = 2, .port = 9}, &second, &e) == 0);
	OK(first != second && forwards_list(all, list) == 2);
	OK(list[0].vm == 1 && list[0].port == 80 && list[0].host_port == first);
	OK(forwards_add(all, &(struct forward){.port = 80, .host_port = first}, &again, &e) < 0);
	OK(e.sys == EADDRINUSE);
	one = call(first);
	OK(one >= 0 && echoes(one));
	two = call(second);
	OK(two >= 0 && recv(two, &byte, 1, 0) <= 0); /* closed, since nothing listens there */
	OK(forwards_remove(all, first, &e) == 0);
	OK(forwards_remove(all, first, &e) < 0 && e.kind == ERR_NOT_FOUND);
	OK(call(first) < 0);
	OK(echoes(one)); /* it was open before the removal */
	OK(shutdown(one, SHUT_WR) == 0 && recv(one, &byte, 1, 0) == 0);
	OK(forwards_list(all, list) == 1 && list[0].host_port == second);
	forwards_free(all);
	OK(call(second) < 0);
}

static void test_the_end_ends_connections(void)
{
	struct inside in = {0};
	struct forwards *all;
	unsigned port, silent;
	auto_fd int one = -1, two = -1;
	struct err e;
	char byte;

	OK(forwards_new(connect_inside, &in, &all, &e) == 0);
	OK(forwards_add(all, &(struct forward){.port = 80}, &port, &e) == 0);
	OK(forwards_add(all, &(struct forward){.port = 10}, &silent, &e) == 0);
	one = call(port);
	two = call(silent);
	OK(echoes(one) && two >= 0);
	forwards_free(all);
	OK(recv(one, &byte, 1, 0) <= 0 && recv(two, &byte, 1, 0) <= 0);
}

static void test_limits(void)
{
	enum { MANY = 300 };
	static int fds[MANY];
	struct inside in = {0};
	struct forwards *all;
	unsigned port, served = 0, refused = 0;
	struct rlimit files;
	struct err e;

	/* As the daemon does: both ends of all connections are here. */
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	OK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	OK(forwards_new(connect_inside, &in, &all, &e) == 0);
	for (unsigned i = 0; i < FORWARDS_MAX; i++)
		if (forwards_add(all, &(struct forward){.port = 80}, &port, &e) < 0)
			OK(false);
	OK(forwards_add(all, &(struct forward){.port = 80}, &port, &e) < 0 && e.kind == ERR_LIMIT);
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = call(port);
		if (fds[i] >= 0 && echoes(fds[i]))
			served++;
		else
			refused++;
	}
	OK(served == 256 && refused == MANY - 256);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	/* There is room again as soon as the ends of those connections were noticed. */
	for (unsigned i = 0; i < 1000; i++) {
		struct op op = op_for_cleanup(60);
		auto_fd int fd = call(port);

		if (fd >= 0 && echoes(fd)) {
			OK(true);
			forwards_free(all);
			return;
		}
		op_pause(&op, 0.02, &e);
	}
	OK(false);
}

/* A connection that the guest has closed takes no place, though the client keeps it open. */
static void test_guests_that_hang_up(void)
{
	enum { MANY = 300 };
	static int fds[MANY];
	struct inside in = {0};
	struct forwards *all;
	unsigned port, other, ended = 0;
	auto_fd int one = -1;
	struct err e;
	char byte;

	OK(forwards_new(connect_inside, &in, &all, &e) == 0);
	OK(forwards_add(all, &(struct forward){.port = 11}, &port, &e) == 0);
	OK(forwards_add(all, &(struct forward){.port = 80}, &other, &e) == 0);
	for (unsigned i = 0; i < MANY; i++) {
		fds[i] = call(port);
		ended += fds[i] >= 0 && recv(fds[i], &byte, 1, 0) == 0;
	}
	OK(ended == MANY);
	one = call(other);
	OK(one >= 0 && echoes(one));
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	forwards_free(all);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_life();
	test_the_end_ends_connections();
	test_limits();
	test_guests_that_hang_up();
	return tap_done();
}
