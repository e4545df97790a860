/* proc.h - child processes: argv vector, no shell, bounded output, killed with their op. The daemon
 * starts every process through these functions. A struct proc belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "util/buf.h"
#include "util/thread/op.h"
#include "util/strv.h"

struct proc_fd {
	int fd; /* stays the caller's */
	int as; /* its number in the child, 3 or more */
};

struct proc_req {
	const char *const *argv; /* argv[0] is looked up in PATH; NULL at the end */
	const char *program;     /* without a guard: run this file, which is called argv[0] */
	const char *const *env;  /* NULL: ours */
	const char *cwd;         /* NULL: ours */
	struct bytes input;      /* proc_run: given on stdin */
	size_t out_max;          /* proc_run: limit for stdout and for stderr each; 0 is refused */
	int in_fd;               /* proc_start: > 0: used as stdin; 0: /dev/null */
	int out_fd, err_fd;      /* proc_start: > 0: used as stdout, stderr; 0: /dev/null */
	const struct proc_fd *fds;
	unsigned n_fds;
	/*
	 * Path of moat-helper. When set, the child runs below a guard: the child and all that it
	 * started are killed as soon as this process closes the lifeline or dies, even by SIGKILL.
	 */
	const char *guard;
	const char *confine; /* with a guard: the child is confined like this, see confine.h */
	/* The guard kills the command's process group only, and nothing when the command ends by
	 * itself: processes that it has left running (a hypervisor) stay. */
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

/* Those few variables of our environment that a process needs, for processes that a guest might
 * take over: no keys, no tokens. */
int proc_small_env(struct strv *ret, struct err *e);

int proc_start(const struct proc_req *req, struct proc *ret, struct err *e);
/* Waits for the end; *ret_code as in proc_result. */
int proc_wait(const struct op *op, struct proc *p, int *ret_code, struct err *e);
/* The exit code that a status of waitpid(2) stands for, as in proc_result. */
int proc_code_of(int status);
/* With guard_gentle: sends SIGINT to the command's process group, as Ctrl-C in a terminal does. */
void proc_interrupt(const struct proc *p);
/* Has the process and all below it killed, and does not wait: the pidfd becomes readable when they
 * are gone. */
void proc_end(struct proc *p);
/* Kills the process and all below it, waits and reaps it. Does nothing on PROC_NONE and after
 * proc_wait. */
void proc_kill(struct proc *p);
#define auto_proc __attribute__((cleanup(proc_kill)))

/* Runs a program to its end. A non-zero exit status is no error here; too much output and a missing
 * program are. */
int proc_run(
	const struct op *op, const struct proc_req *req, struct proc_result *ret, struct err *e);
/* Like proc_run, but a non-zero exit status is ERR_BACKEND with the last line of the program's
 * stderr. */
int proc_run_ok(const struct op *op, const struct proc_req *req, struct err *e);
