#include "driver/vagrant/ssh/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/msg.h"
#include "util/system/proc.h"

#define CONNECT_SECONDS 15.0
#define LOGIN_SECONDS   60.0

enum { KEY_SIZE_MAX = 16 * 1024 };

struct ssh_process {
	struct proc proc;
	int orders; /* writing to it never waits: the process may be busy or stuck */
	int stream; /* the runner's, until it is started */
};

/* ---- the socket ---- */

static void set_options(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 20}, {IPPROTO_TCP, TCP_KEEPINTVL, 10},
		{IPPROTO_TCP, TCP_KEEPCNT, 6}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 120000}};

	/* A connection without these options works, too. */
	for (unsigned i = 0; i < ARRAY_LEN(options); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			    sizeof(int)) < 0)
			continue;
}

static int connect_to(const struct op *op, const struct addrinfo *to, int *ret_fd, struct err *e)
{
	auto_fd int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct op soon = op_within(op, CONNECT_SECONDS);
	socklen_t len = sizeof(int);
	int error = 0;

	if (fd < 0)
		return err_sys(e, errno, "socket");
	set_options(fd);
	if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return err_sys(e, errno, "connect");
		if (op_wait_fd(&soon, fd, POLLOUT, e) < 0)
			return -1;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
			return err_sys(e, error ? error : errno, "connect");
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int open_socket(const struct op *op, const struct ssh_target *to, int *ret, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
			*list = NULL;
	char port[16];
	int rc, failed = -1;

	snprintf(port, sizeof(port), "%u", to->port);
	rc = getaddrinfo(to->host, port, &hints, &list);
	if (rc)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", to->host, gai_strerror(rc));
	for (struct addrinfo *at = list; at && failed < 0; at = at->ai_next)
		failed = connect_to(op, at, ret, e);
	freeaddrinfo(list);
	if (failed == 0)
		return 0;
	if (op_check(op, e) < 0)
		return -1;
	e->kind = ERR_UNAVAILABLE; /* the guest is to blame for our own deadline, too */
	return err_wrap(e, "SSH to %s port %u", to->host, to->port);
}

/* ---- the process ---- */

void ssh_process_close(struct ssh_process *p)
{
	if (!p)
		return;
	proc_kill(&p->proc);
	if (p->orders >= 0)
		close(p->orders);
	if (p->stream >= 0)
		close(p->stream);
	free(p);
}
DEFINE_AUTO(auto_ssh_processp, struct ssh_process, ssh_process_close)
#define auto_ssh_process __attribute__((cleanup(auto_ssh_processp)))

static int make_pair(int type, int *ret_ours, int *ret_theirs, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

struct open_runners {
	int fds[RUNNERS];
};

static void open_runners_close(struct open_runners *r)
{
	for (unsigned i = 0; i < RUNNERS; i++)
		if (r->fds[i] >= 0)
			close(r->fds[i]);
}

/* One that is not installed is an empty file. */
static int open_runners(const struct runners *from, struct open_runners *ret, struct err *e)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		const char *path = from->path[i] ? from->path[i] : "/dev/null";

		ret->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (ret->fds[i] < 0)
			return err_sys(e, errno, "%s", path);
	}
	return 0;
}

static int start_process(
	struct ssh_process *p, const struct ssh_target *to, int guest, struct err *e)
{
	const char *const argv[] = {to->program, NULL};
	auto_strv struct strv env = {0};
	auto_fd int orders = -1, stream = -1;
	__attribute__((cleanup(open_runners_close))) struct open_runners runners = {{-1, -1}};

	static_assert(RUNNERS == 2, "the initialiser above, and the list below");
	if (open_runners(to->runners, &runners, e) < 0 || proc_small_env(&env, e) < 0 ||
		make_pair(SOCK_SEQPACKET, &p->orders, &orders, e) < 0 ||
		make_pair(SOCK_STREAM, &p->stream, &stream, e) < 0)
		return -1;
	const struct proc_fd fds[] = {{orders, SSH_FD_ORDERS}, {guest, SSH_FD_GUEST},
		{stream, SSH_FD_STREAM}, {runners.fds[0], SSH_FD_RUNNERS},
		{runners.fds[1], SSH_FD_RUNNERS + 1}};
	struct proc_req req = {.argv = argv,
		.env = (const char *const *)env.v,
		.guard = to->guard,
		.fds = fds,
		.n_fds = ARRAY_LEN(fds)};

	return proc_start(&req, &p->proc, e);
}

/* ---- orders ---- */

/* order becomes this function's. */
static int order(struct ssh_process *p, json_t *what, int fd, struct err *e)
{
	auto_json json_t *own = what;

	return own ? msg_send(p->orders, own, fd, e) : err_oom(e);
}

static int told_error(json_t *error, struct err *e)
{
	const char *kind, *message;
	int sys;

	if (json_get(error, "an error", e, "{s:s, s:i, s:s}", "kind", &kind, "sys", &sys, "message",
		    &message) < 0)
		return -1;
	err_set(e, err_kind_from_name(kind), "%s", message);
	e->sys = sys;
	return -1;
}

/* Waits for the next answer, and passes progress on. */
static int answer(struct ssh_process *p, const struct op *op, json_t **ret, struct err *e)
{
	for (;;) {
		auto_json json_t *msg = NULL;
		auto_fd int unused = -1;
		const char *news;

		if (msg_recv(op, p->orders, &msg, &unused, e) < 0)
			return err_wrap(e, "SSH");
		if (json_object_get(msg, "error"))
			return told_error(json_object_get(msg, "error"), e);
		news = json_string_value(json_object_get(msg, "progress"));
		if (!news) {
			*ret = take_ptr(&msg);
			return 0;
		}
		op_progress(op, 0, 0, "%s", news);
	}
}

/* Sends the private keys that can be read; the SSH server will tell which of them it takes. */
static int read_keys(const struct ssh_target *to, json_t **ret, struct err *e)
{
	auto_json json_t *keys = json_array();

	for (unsigned i = 0; i < to->n_keys; i++) {
		auto_free char *text = NULL;
		size_t len;
		struct err ignored;
		json_t *key;

		if (file_read(to->keys[i], KEY_SIZE_MAX, &text, &len, &ignored) < 0)
			continue;
		if (json_make(&key, e, "{s:o, s:o}", "name", json_text(to->keys[i]), "text",
			    json_text(text)) < 0)
			return -1;
		if (json_array_append_new(keys, key) < 0)
			return err_oom(e);
	}
	*ret = take_ptr(&keys);
	return 0;
}

static int log_in(struct ssh_process *p, const struct op *op, const struct ssh_target *to,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e)
{
	auto_json json_t *keys = NULL, *in = NULL;
	const char *key;

	if (read_keys(to, &keys, e) < 0 ||
		order(p,
			json_pack("{s:{s:s, s:i, s:s, s:s, s:O}}", "log_in", "host", to->host,
				"port", (int)to->port, "user", to->user, "host_key", to->host_key,
				"keys", keys),
			-1, e) < 0 ||
		answer(p, op, &in, e) < 0 || json_get(in, "SSH", e, "{s:s}", "host_key", &key) < 0)
		return -1;
	snprintf(ret_host_key, SSH_HOST_KEY_MAX, "%s", key);
	return 0;
}

int ssh_process_open(const struct op *op, const struct ssh_target *to, struct ssh_process **ret,
	char ret_host_key[static SSH_HOST_KEY_MAX], struct err *e)
{
	auto_ssh_process struct ssh_process *p = calloc(1, sizeof(*p));
	auto_fd int guest = -1;
	struct op login;

	if (!p)
		return err_oom(e);
	p->proc = PROC_NONE;
	p->orders = p->stream = -1;
	if (open_socket(op, to, &guest, e) < 0 || start_process(p, to, guest, e) < 0)
		return -1;
	login = op_within(op, LOGIN_SECONDS);
	if (log_in(p, &login, to, ret_host_key, e) < 0) {
		if (e->kind == ERR_TIMEOUT && now_ns() < op->deadline_ns)
			e->kind = ERR_UNAVAILABLE; /* the guest was too slow, not the operation */
		return -1;
	}
	*ret = take_ptr(&p);
	return 0;
}

int ssh_process_start_runner(
	const struct op *op, struct ssh_process *p, bool *ret_as_root, int *ret_fd, struct err *e)
{
	auto_json json_t *started = NULL;
	int as_root;

	if (order(p, json_pack("{s:b}", "start", 1), -1, e) < 0 || answer(p, op, &started, e) < 0 ||
		json_get(started, "SSH", e, "{s:b}", "as_root", &as_root) < 0)
		return -1;
	*ret_as_root = as_root;
	*ret_fd = take_fd(&p->stream);
	return 0;
}

/* ---- dialling ---- */

static int hear_answer(const struct op *op, int fd, unsigned port, struct err *e)
{
	uint8_t word;

	if (io_read_exact(op, fd, &word, 1, e) < 0)
		return err_wrap(e, "port %u of the guest", port);
	switch (word) {
	case SSH_IS_OPEN:
		return 0;
	case SSH_PROHIBITED:
		return err_set(e, ERR_UNSUPPORTED,
			"the guest's SSH server does not allow forwarding (AllowTcpForwarding)");
	case SSH_TOO_MANY:
		return err_set(e, ERR_LIMIT, "the SSH connection carries %d others already",
			SSH_DIALS_MAX);
	default:
		err_set(e, ERR_UNAVAILABLE, "nobody listens at port %u of the guest", port);
		e->sys = ECONNREFUSED;
		return -1;
	}
}

int ssh_process_dial(struct ssh_process *p, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e)
{
	auto_fd int ours = -1, theirs = -1;

	if (make_pair(SOCK_STREAM, &ours, &theirs, e) < 0)
		return -1;
	if (order(p, json_pack("{s:{s:s, s:i}}", "dial", "host", host, "port", (int)port), theirs,
		    e) < 0) {
		e->kind = ERR_UNAVAILABLE;
		return err_wrap(e, "SSH");
	}
	close(take_fd(&theirs)); /* so that we see when the process closes its copy */
	if (hear_answer(op, ours, port, e) < 0)
		return -1;
	*ret_fd = take_fd(&ours);
	return 0;
}
