/*
 * proc.h - child processes: argv vector, no shell, bounded output, ended with their op. The only
 * way in which the daemon starts anything. A struct proc belongs to one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/buf.h"
#include "util/op.h"
#include "util/strv.h"

struct proc_fd {
	int fd; /* ours; stays ours */
	int as; /* its number in the child, 3 or more */
};

struct proc_req {
	const char *const *argv; /* argv[0] is looked up in PATH; NULL at the end */
	const char *const *env;  /* NULL: ours */
	const char *cwd;         /* NULL: ours */
	struct bytes input;      /* proc_run: given on stdin. Otherwise stdin is /dev/null */
	size_t out_max;          /* proc_run: limit for stdout and for stderr each; 0 is refused */
	int out_fd, err_fd;      /* proc_start: > 0: used as stdout, stderr; 0: /dev/null */
	const struct proc_fd *fds;
	unsigned n_fds;
	/*
	 * Path of moat-helper. When set, the child runs below its `guard`: it and all it
	 * started are killed as soon as this process closes its lifeline or dies, SIGKILL included.
	 */
	const char *guard;
	bool guard_isolate; /* the guard makes new pid and network namespaces (and a user namespace
			       when not root) */
	/*
	 * The guard kills no more than the command's process group, and nothing at all when the
	 * command ends by itself: what that has left running (a hypervisor) stays.
	 */
	bool guard_gentle;
};

struct proc {
	pid_t pid;    /* of the guard, if there is one */
	int pidfd;    /* readable when it has ended */
	int lifeline; /* -1 without a guard, or after proc_end */
	bool guarded, gentle;
};
#define PROC_NONE ((struct proc){.pid = -1, .pidfd = -1, .lifeline = -1})

struct proc_result {
	int exit_code; /* 128 + n for signal n */
	struct buf out, err;
};
void proc_result_free(struct proc_result *r);
#define auto_proc_result __attribute__((cleanup(proc_result_free)))

/* The little of our environment that a process needs which a guest may get to: no keys, no tokens.
 */
int proc_small_env(struct strv *ret, struct err *e);

int proc_start(const struct proc_req *req, struct proc *ret, struct err *e);
/* Waits for the end; *ret_code as in proc_result. */
int proc_wait(const struct op *op, struct proc *p, int *ret_code, struct err *e);
/* With guard_gentle: what Ctrl-C in a terminal does, SIGINT for the command's process group. */
void proc_interrupt(const struct proc *p);
/* Has it ended, with all below it, and does not wait: its pidfd tells when all of that is gone. */
void proc_end(struct proc *p);
/* Ends it and all below it and reaps it. Fine on PROC_NONE and after proc_wait. */
void proc_kill(struct proc *p);
#define auto_proc __attribute__((cleanup(proc_kill)))

/* Runs to the end. A non-zero exit is not an error here; too much output, no such program are. */
int proc_run(
	const struct op *op, const struct proc_req *req, struct proc_result *ret, struct err *e);
/* The same, and a non-zero exit is ERR_BACKEND with the last line of its stderr. */
int proc_run_ok(const struct op *op, const struct proc_req *req, struct err *e);
