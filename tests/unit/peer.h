/*
 * peer.h - the other end of a socket, played by a thread of the test: a script that reads and
 * writes, blocking. Include after tap.h.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct peer {
	int ours, theirs; /* ours: for the code under test, which may close it */
	pthread_t thread;
	void (*script)(struct peer *p);
	void *arg;
};

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	p->script(p);
	close(p->theirs);
	return NULL;
}

__attribute__((unused)) static int peer_start(
	struct peer *p, void (*script)(struct peer *), void *arg)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	*p = (struct peer){.ours = fds[0], .theirs = fds[1], .script = script, .arg = arg};
	if (pthread_create(&p->thread, NULL, peer_main, p))
		abort();
	return p->ours;
}

__attribute__((unused)) static void peer_join(struct peer *p)
{
	pthread_join(p->thread, NULL);
}

/* Reads exactly n bytes; false at the end of the connection. */
__attribute__((unused)) static bool peer_get(struct peer *p, void *to, size_t n)
{
	uint8_t *at = to;

	while (n) {
		ssize_t got = read(p->theirs, at, n);

		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

__attribute__((unused)) static bool peer_put(struct peer *p, const void *from, size_t n)
{
	const uint8_t *at = from;

	while (n) {
		ssize_t put = send(p->theirs, at, n, MSG_NOSIGNAL);

		if (put <= 0)
			return false;
		at += put;
		n -= (size_t)put;
	}
	return true;
}

/* Reads until the other side closes. */
__attribute__((unused)) static void peer_drain(struct peer *p)
{
	char buf[4096];

	while (read(p->theirs, buf, sizeof(buf)) > 0)
		;
}
