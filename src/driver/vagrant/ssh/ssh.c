#include "driver/vagrant/ssh/ssh.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "driver/vagrant/ssh/bridge.h"
#include "driver/vagrant/ssh/start.h"
#include "util/auto.h"
#include "util/system/confine.h"
#include "util/system/msg.h"

/* No deadline: the daemon that has started us ends us when it has waited long enough. */
static const struct op forever = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1, .id = "ssh"};

enum {
	MEMORY_MAX = 512 * 1024 * 1024, /* bytes. libssh keeps what the guest does not take */
};

/*
 * All that we need is open. Without what cannot be had (namespaces, on some systems) there is one
 * barrier less, which is no reason to give up. But what speaks with a guest is never root.
 */
static int confine(struct err *e)
{
	pid_t guard = getppid();
	uid_t id;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	confine_namespaces(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS);
	id = confine_id();
	confine_empty_root();
	if (confine_rights(id, CONFINE_NO_GROUP) < 0)
		return err_sys(e, errno, "cannot become an ordinary user");
	/* The change of user has cleared this. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != guard)
		return err_set(e, ERR_CANCELLED, "the guard has ended");
	confine_limits(MEMORY_MAX, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* there will be private keys in our memory */
	return confine_calls(false) < 0 ? err_sys(e, errno, "giving up system calls") : 0;
}

static int tell(json_t *answer, struct err *e)
{
	auto_json json_t *own = answer;

	return own ? msg_send(SSH_FD_ORDERS, own, -1, e) : err_oom(e);
}

static void tell_progress(void *arg, const char *text, uint64_t done, uint64_t total)
{
	struct err ignored;

	(void)arg, (void)done, (void)total;
	tell(json_pack("{s:s}", "progress", text), &ignored);
}

static int next_order(json_t **ret, struct err *e)
{
	auto_fd int unused = -1;

	return msg_recv(&forever, SSH_FD_ORDERS, ret, &unused, e);
}

static int log_in(struct ssh_conn *conn, struct err *e)
{
	auto_json json_t *order = NULL;
	struct ssh_login to = {0};
	char host_key[SSH_HOST_KEY_MAX];
	json_t *keys;

	if (next_order(&order, e) < 0 ||
		json_get(order, "an order", e, "{s:{s:s, s:i, s:s, s:s, s:o}}", "log_in", "host",
			&to.host, "port", &to.port, "user", &to.user, "host_key", &to.host_key,
			"keys", &keys) < 0)
		return -1;
	to.keys = keys;
	if (ssh_conn_open(conn, &forever, SSH_FD_GUEST, &to, host_key, e) < 0)
		return -1;
	return tell(json_pack("{s:s}", "host_key", host_key), e);
}

static int start(struct ssh_conn *conn, struct err *e)
{
	auto_json json_t *order = NULL;
	struct op op = forever;
	bool as_root;
	int yes;

	op.on_progress = tell_progress;
	if (next_order(&order, e) < 0 || json_get(order, "an order", e, "{s:b}", "start", &yes) < 0)
		return -1;
	if (ssh_conn_start_runner(conn, &op, SSH_FD_RUNNERS, &as_root, e) < 0)
		return -1;
	return tell(json_pack("{s:b}", "as_root", as_root), e);
}

int ssh_main(void)
{
	struct ssh_conn conn = {0};
	struct err e, ignored;

	signal(SIGPIPE, SIG_IGN);
	if (confine(&e) < 0 || log_in(&conn, &e) < 0 || start(&conn, &e) < 0) {
		tell(json_pack("{s:{s:s, s:i, s:o}}", "error", "kind", err_kind_name(e.kind), "sys",
			     e.sys, "message", json_text(e.msg)),
			&ignored);
		return 1;
	}
	bridge_run(&conn, &forever, SSH_FD_STREAM, SSH_FD_ORDERS);
	return 0; /* the end of the process closes everything */
}
