#include "net/holder/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/holder/dns.h"
#include "net/holder/egress.h"
#include "net/holder/netns.h"
#include "net/holder/requests.h"
#include "net/holder/setup.h"
#include "spec/spec.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/msg.h"
#include "util/str.h"

#define PLAN_MAX  (64u << 20)
#define FILES_MAX 4096

static const struct op forever = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1, .id = "holder"};

static int read_plan(struct holder *h, struct err *e)
{
	auto_buf struct buf text = {0};

	if (file_read_all(HOLDER_FD_PLAN, PLAN_MAX, &text, e) < 0)
		return -1;
	close(HOLDER_FD_PLAN);
	return json_parse_object(buf_bytes(&text), &h->plan, e);
}

static int send_event(const char *what, const struct err *why, struct err *e)
{
	auto_json json_t *msg = NULL;

	if (why ? json_make(&msg, e, "{s:s, s:s, s:o}", "event", what, "kind",
			  err_kind_name(why->kind), "message", json_text(why->msg)) < 0
		: json_make(&msg, e, "{s:s}", "event", what) < 0)
		return -1;
	return msg_send(HOLDER_FD_REQUESTS, msg, -1, e);
}

/* Keeps the end of the children's output, for the message if one of them ends. */
static void read_children_output(struct holder *h)
{
	char text[HOLDER_OUTPUT_MAX];
	ssize_t n;

	while ((n = read(h->log[0], text, sizeof(text))) > 0) {
		while (n && text[n - 1] == '\n')
			n--;
		if (n)
			str_escape(text, (size_t)n, h->last_output, sizeof(h->last_output));
	}
}

/* Fails only if the daemon has ended or has closed the socket. */
static int serve_request(struct holder *h, struct err *e)
{
	auto_json json_t *msg = NULL, *result = NULL, *answer = NULL;
	auto_fd int got = -1, fd = -1;
	const char *op;
	json_t *args;
	json_int_t seq;
	struct err failure;

	if (msg_recv(&forever, HOLDER_FD_REQUESTS, &msg, &got, e) < 0 ||
		json_get(msg, "request", e, "{s:s, s:I, s:o}", "op", &op, "seq", &seq, "args",
			&args) < 0)
		return -1;
	if (holder_answer(h, op, args, &result, &fd, &failure) < 0) {
		if (json_make(&answer, e, "{s:I, s:s, s:o, s:i}", "seq", seq, "kind",
			    err_kind_name(failure.kind), "message", json_text(failure.msg), "errno",
			    failure.sys) < 0)
			return -1;
	} else if (json_make(&answer, e, "{s:I, s:O*}", "seq", seq, "result", result) < 0) {
		return -1;
	}
	return msg_send(HOLDER_FD_REQUESTS, answer, fd, e);
}

static int follow_child(struct holder *h, unsigned i, struct err *e)
{
	if (child_restart(&h->children[i], h->last_output, e) < 0)
		return -1;
	return (int)i == h->pasta ? egress_set_up_interface(h, e) : 0;
}

enum { AT_REQUESTS, AT_LOG, AT_HOSTS, AT_DNS, AT_CHILDREN };

static int serve_once(struct holder *h, struct pollfd *fds, struct err *e)
{
	unsigned n = AT_CHILDREN;

	fds[AT_REQUESTS] = (struct pollfd){.fd = HOLDER_FD_REQUESTS, .events = POLLIN};
	fds[AT_LOG] = (struct pollfd){.fd = h->log[0], .events = POLLIN};
	fds[AT_HOSTS] = (struct pollfd){.fd = h->hosts.fd, .events = POLLIN};
	fds[AT_DNS] = (struct pollfd){.fd = h->dns.fd, .events = POLLIN};
	for (unsigned i = 0; i < h->n_children; i++)
		fds[n++] = (struct pollfd){.fd = h->children[i].proc.pidfd, .events = POLLIN};
	if (poll(fds, n, -1) < 0)
		return errno == EINTR ? 0 : err_sys(e, errno, "poll");
	if (fds[AT_LOG].revents)
		read_children_output(h);
	/* Before anything is answered or opened: it must not be judged by the host's old
	 * addresses. */
	if (fds[AT_HOSTS].revents && egress_update_host(h, e) < 0)
		return -1;
	for (unsigned i = 0; i < h->n_children; i++)
		if (fds[AT_CHILDREN + i].revents && follow_child(h, i, e) < 0)
			return -1;
	if (fds[AT_DNS].revents)
		dns_serve(h);
	return fds[AT_REQUESTS].revents ? serve_request(h, e) : 0;
}

/*
 * The limit is enough for us, and pasta inherits it. pasta has a socket of the host for every
 * connection and every UDP port of a guest: without a limit, a guest could use up the host's ports.
 */
static int limit_files(struct err *e)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, errno, "open files");
	if (files.rlim_max > FILES_MAX)
		files.rlim_max = FILES_MAX;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? err_sys(e, errno, "open files") : 0;
}

static int run(struct holder *h, struct err *e)
{
	auto_free struct pollfd *fds = NULL;

	if (limit_files(e) < 0)
		return -1;
	if (pipe2(h->log, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "pipe");
	if (netns_leave_host(&h->outside, e) < 0 || read_plan(h, e) < 0)
		return -1;
	for (int fd = HOLDER_FD_REQUESTS; fd < HOLDER_FD_CAPTURES + SPEC_VNETS_MAX; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* fails for those that are not open */
	if (holder_setup(h, e) < 0) {
		read_children_output(h);
		return *h->last_output ? err_wrap(e, "%s", h->last_output) : -1;
	}
	if (send_event("ready", NULL, e) < 0)
		return -1;
	fds = calloc(AT_CHILDREN + HOLDER_CHILDREN_MAX, sizeof(*fds));
	if (!fds)
		return err_oom(e);
	if (forwards_new(holder_connect, h, &h->forwards, e) < 0)
		return -1;
	while (serve_once(h, fds, e) == 0)
		;
	return -1;
}

int holder_main(int argc, char **argv)
{
	struct holder *h = calloc(1, sizeof(*h));
	struct err e = {0}, ignored;

	if (argc != 3 || fcntl(HOLDER_FD_REQUESTS, F_GETFD) < 0 || !h) {
		fprintf(stderr, "moat-helper net-holder is internal to moat\n");
		return 2;
	}
	prctl(PR_SET_NAME, "net-holder");
	h->stamp = argv[2];
	h->netns = h->pasta = h->hosts.fd = h->nftables = h->dns.fd = -1;
	run(h, &e);
	if (send_event("failed", &e, &ignored) < 0)
		_exit(2); /* the daemon has gone */
	/* No exit handlers: the end of process 1 kills everything that is left. */
	_exit(1);
}
