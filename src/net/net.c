#include "net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/check.h"
#include "net/plan/json.h"
#include "net/holder/holder.h"
#include "util/auto.h"
#include "util/thread/lock.h"
#include "util/system/io.h"
#include "util/system/msg.h"
#include "util/system/proc.h"
#include "util/str.h"
#include "util/strv.h"
#include "util/thread/turn.h"

#define OPEN_SECONDS 120
#define ASK_SECONDS  60

struct net {
	struct net_plan *plan;
	struct proc proc;
	int sock;
	int counters;             /* -1: nobody has asked yet */
	struct turn request_turn; /* held by the thread that waits for an answer */
	json_int_t seq;           /* protected by request_turn */
	struct strv captures;     /* paths of captures: removed on close, unless kept */
	struct lock mu;
	char reason[512]; /* protected by mu */
};

const struct net_plan *net_plan(const struct net *net)
{
	return net->plan;
}

int net_end_fd(const struct net *net)
{
	return net->proc.pidfd;
}

void net_keep_captures(struct net *net)
{
	if (net)
		strv_free(&net->captures);
}

void net_close(struct net *net)
{
	if (!net)
		return;
	proc_kill(&net->proc);
	for (size_t i = 0; i < net->captures.n; i++)
		unlink(net->captures.v[i]);
	strv_free(&net->captures);
	if (net->sock >= 0)
		close(net->sock);
	if (net->counters >= 0)
		close(net->counters);
	turn_done(&net->request_turn);
	lock_done(&net->mu);
	net_plan_free(net->plan);
	free(net);
}
DEFINE_AUTO(auto_netp, struct net, net_close)
#define auto_net __attribute__((cleanup(auto_netp)))

/* Reads an event: the holder is ready, or it ends with a reason. */
static int take_event(struct net *net, json_t *msg, struct err *e)
{
	const char *event = json_string_value(json_object_get(msg, "event"));
	const char *kind = json_string_value(json_object_get(msg, "kind"));
	const char *text = json_string_value(json_object_get(msg, "message"));

	if (event && strcmp(event, "ready") == 0)
		return 0;
	err_set(e, kind ? err_kind_from_name(kind) : ERR_INTERNAL, "%s",
		text ? text : "the network's holder made no sense");
	auto_unlock struct lock *held = lock_take(&net->mu);
	snprintf(net->reason, sizeof(net->reason), "%.*s", (int)sizeof(net->reason) - 1, e->msg);
	return -1;
}

/* Reads the events that the holder has sent before it ended, for the reason. */
static void take_last_events(struct net *net)
{
	struct op now = op_for_cleanup(0.01);
	struct err ignored;

	for (;;) {
		auto_json json_t *msg = NULL;
		auto_fd int fd = -1;

		if (msg_recv(&now, net->sock, &msg, &fd, &ignored) < 0)
			return;
		if (json_object_get(msg, "event"))
			take_event(net, msg, &ignored);
	}
}

void net_end_reason(struct net *net, char *out, size_t size)
{
	struct op now = op_for_cleanup(1);
	struct err ignored;

	if (turn_take(&net->request_turn, &now, &ignored) == 0) {
		take_last_events(net);
		turn_give(&net->request_turn);
	}
	auto_unlock struct lock *held = lock_take(&net->mu);
	snprintf(out, size, "%s", net->reason);
}

static int read_answer(struct net *net, const struct op *op, json_int_t seq, json_t **ret,
	int *ret_fd, struct err *e)
{
	for (;;) {
		auto_json json_t *msg = NULL;
		auto_fd int fd = -1;
		const char *kind, *text;
		json_t *result;

		if (msg_recv(op, net->sock, &msg, &fd, e) < 0)
			return -1;
		if (json_object_get(msg, "event")) {
			if (take_event(net, msg, e) < 0)
				return err_wrap(e, "the network has ended");
			continue;
		}
		if (json_integer_value(json_object_get(msg, "seq")) != seq)
			continue; /* the answer to a request that timed out */
		kind = json_string_value(json_object_get(msg, "kind"));
		text = json_string_value(json_object_get(msg, "message"));
		if (kind) {
			err_set(e, err_kind_from_name(kind), "%s", text ? text : kind);
			e->sys = (int)json_integer_value(json_object_get(msg, "errno"));
			return -1;
		}
		result = json_object_get(msg, "result");
		if (ret)
			*ret = json_incref(result);
		if (ret_fd)
			*ret_fd = take_fd(&fd);
		return 0;
	}
}

int net_request(struct net *net, const struct op *op, const char *what, json_t *args, json_t **ret,
	int *ret_fd, struct err *e)
{
	auto_json json_t *own = args, *msg = NULL;
	auto_turn struct turn *held = NULL;
	struct op soon = op_within(op, ASK_SECONDS);

	if (!own)
		return err_oom(e);
	if (turn_take(&net->request_turn, &soon, e) < 0)
		return -1;
	held = &net->request_turn;
	net->seq++;
	if (json_make(&msg, e, "{s:s, s:I, s:O}", "op", what, "seq", net->seq, "args", own) < 0)
		return -1;
	/* A holder that stands still reads nothing. */
	if (op_wait_fd(&soon, net->sock, POLLOUT, e) < 0)
		return -1;
	if (msg_send(net->sock, msg, -1, e) < 0) {
		if (e->sys == EAGAIN)
			return err_set(e, ERR_TIMEOUT, "the sandbox's network does not answer");
		take_last_events(net);
		return err_set(e, ERR_UNAVAILABLE, "the sandbox's network has ended");
	}
	return read_answer(net, &soon, net->seq, ret, ret_fd, e);
}

int net_counters_file(struct net *net, const struct op *op, int *ret_fd, struct err *e)
{
	if (net->counters < 0 &&
		net_request(net, op, "counters", json_object(), NULL, &net->counters, e) < 0)
		return -1;
	*ret_fd = net->counters;
	return 0;
}

/* PATH has the directories of programs for administrators, where ip and nft are. */
static int make_environment(struct strv *ret, struct err *e)
{
	const char *path = getenv("PATH");
	const char *home = getenv("MOAT_HOME");

	strv_addf(ret, "PATH=%s:/usr/sbin:/sbin:/usr/local/sbin", path ? path : "/usr/bin:/bin");
	if (home)
		strv_addf(ret, "MOAT_HOME=%s", home);
	strv_add(ret, "LANG=C");
	return strv_check(ret, e);
}

/* The files that the holder inherits; our copies are closed when it has started. */
struct files {
	struct proc_fd fds[2 + SPEC_VNETS_MAX];
	unsigned n;
};

static void files_close(struct files *f)
{
	for (unsigned i = 0; i < f->n; i++)
		close(f->fds[i].fd);
}

/* Replaces "{id}" in "/tmp/{id}.pcap" by the sandbox's id. */
static int capture_path(const char *pattern, const char *sandbox, char **ret, struct err *e)
{
	const char *at = strstr(pattern, "{id}");

	if (!at)
		return str_dup(pattern, ret, e);
	return str_printf(ret, e, "%.*s%s%s", (int)(at - pattern), pattern, sandbox, at + 4);
}

/* The daemon opens the files, as its user. A file that exists is never overwritten. */
static int open_captures(struct net *net, const struct net_req *req, struct files *f, struct err *e)
{
	for (size_t i = 0; i < net->plan->n_vnets; i++) {
		const char *pattern = net->plan->vnets[i].spec->capture;
		auto_free char *path = NULL;
		int fd;

		if (!pattern || net->plan->no_captures)
			continue;
		if (capture_path(pattern, req->sandbox, &path, e) < 0)
			return -1;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0) {
			err_sys(e, errno, "networks.vnets[%zu].capture: %s", i, path);
			return e->sys == EEXIST
				       ? err_set(e, ERR_INVALID,
						 "networks.vnets[%zu].capture: %s is there "
						 "already; "
						 "{id} in the name makes it a new one each time",
						 i, path)
				       : -1;
		}
		f->fds[f->n++] = (struct proc_fd){fd, HOLDER_FD_CAPTURES + (int)i};
		strv_add(&net->captures, path);
	}
	return 0;
}

static int start_holder(
	struct net *net, const struct net_req *req, int sock, int plan, struct err *e)
{
	__attribute__((cleanup(files_close))) struct files files = {0};
	char stamp[80];
	const char *argv[] = {req->helper_path, "net-holder", "-name", stamp, NULL};
	auto_strv struct strv env = {0};
	struct proc_req pr = {.argv = argv, .fds = files.fds, .guard = req->helper_path};

	snprintf(stamp, sizeof(stamp), "moat-%s/net", req->sandbox);
	files.fds[files.n++] = (struct proc_fd){sock, HOLDER_FD_REQUESTS};
	files.fds[files.n++] = (struct proc_fd){plan, HOLDER_FD_PLAN};
	if (make_environment(&env, e) < 0 || open_captures(net, req, &files, e) < 0)
		return -1;
	pr.env = (const char *const *)env.v;
	pr.n_fds = files.n;
	return proc_start(&pr, &net->proc, e);
}

static int wait_ready(struct net *net, const struct op *op, struct err *e)
{
	auto_json json_t *msg = NULL;
	auto_fd int fd = -1;

	if (msg_recv(op, net->sock, &msg, &fd, e) < 0)
		return -1;
	return take_event(net, msg, e);
}

static int open_with(struct net *net, const struct net_req *req, struct err *e)
{
	int theirs, plan;
	auto_free char *text = NULL;
	int pair[2];

	if (net_plan_make(req->spec, req->random, &net->plan, e) < 0)
		return -1;
	net->plan->no_captures = req->no_captures;
	if (net_plan_to_json(net->plan, &text, e) < 0 ||
		file_in_memory("plan", text, strlen(text), &plan, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		close(plan);
		return err_sys(e, errno, "socketpair");
	}
	net->sock = pair[0];
	theirs = pair[1];
	/* A holder that somebody has stopped takes no messages: never wait for that. */
	if (fd_set_nonblock(net->sock, e) < 0) {
		close(theirs);
		close(plan);
		return -1;
	}
	return start_holder(net, req, theirs, plan, e); /* which closes theirs and plan */
}

int net_open(const struct op *op, const struct net_req *req, struct net **ret, struct err *e)
{
	auto_net struct net *net = calloc(1, sizeof(*net));
	struct op soon = op_within(op, OPEN_SECONDS);

	if (!net)
		return err_oom(e);
	net->sock = net->counters = -1;
	net->proc = PROC_NONE;
	lock_init(&net->mu, "net.mu", LOCK_LEAF);
	turn_init(&net->request_turn);
	if (open_with(net, req, e) < 0)
		return -1;
	if (wait_ready(net, &soon, e) < 0) {
		if (op_check(op, &(struct err){0}) == 0)
			net_check_explain(op, net->plan, e);
		return err_wrap(e, "network");
	}
	*ret = take_ptr(&net);
	return 0;
}

int net_tap(struct net *net, const struct op *op, size_t vm, size_t nic, int *ret_fd, struct err *e)
{
	const struct net_nic *n = net_plan_nic(net->plan, vm, nic);
	auto_fd int fd = -1;

	if (!n)
		return err_set(e, ERR_INTERNAL, "VM %zu has no NIC %zu", vm, nic);
	if (net_request(net, op, "tap", json_pack("{s:s}", "name", n->tap), NULL, &fd, e) < 0)
		return -1;
	if (fd < 0)
		return err_set(e, ERR_INTERNAL, "the network's holder sent no tap");
	*ret_fd = take_fd(&fd);
	return 0;
}
