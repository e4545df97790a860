/*
 * qga.h - the client of the QEMU guest agent: one JSON command at a time, over a stream socket or
 * an agent transport. Not thread-safe: a caller holds the VM's turn.
 *
 * A command that fails half-way (deadline, garbage) leaves its answer on the socket. The next
 * command synchronises first, so that this answer is never taken for another one.
 */
#pragma once

#include "guestlink/agent/qga-parse.h"
#include "util/thread/op.h"

struct qga;

/* An agent that is reached by other means than a socket. These functions then replace those below;
 * qga_sync and qga_call do not work with it. */
struct qga_exec;
struct qga_transport {
	size_t output_max; /* of each stream of a command */
	size_t input_max;  /* of stdin, without NUL in it */
	size_t write_max;  /* bytes of a file in one call of file_write */
	int (*exec_start)(void *arg, const struct op *op, const struct qga_exec *req,
		int64_t *ret_pid, struct err *e);
	int (*exec_wait)(void *arg, const struct op *op, int64_t pid, size_t output_max,
		struct qga_exit *ret, struct err *e);
	int (*file_write)(void *arg, const struct op *op, const char *path, struct bytes content,
		struct err *e);
	int (*file_read)(void *arg, const struct op *op, const char *path, uint64_t from,
		uint64_t max, int (*sink)(void *arg, struct bytes piece, struct err *e),
		void *sink_arg, struct err *e);
};
int qga_open_transport(
	const struct qga_transport *transport, void *arg, struct qga **ret, struct err *e);
/* NULL: the agent is at a socket. *ret_arg: the arg of qga_open_transport. */
const struct qga_transport *qga_transport_of(const struct qga *q, void **ret_arg);
/* The largest output of a command, for each stream. */
size_t qga_output_max(const struct qga *q);
/* Whether these bytes can be a command's stdin. Other input may go through a file. */
bool qga_takes_input(const struct qga *q, struct bytes input);
/* The most that qga_file_write takes in one call. */
size_t qga_write_max(const struct qga *q);

/* Borrows fd, a connected stream socket; sends nothing yet. */
int qga_open(int fd, struct qga **ret, struct err *e);
void qga_close(struct qga *q); /* NULL is fine */
/*
 * A command fails with ERR_UNAVAILABLE when nothing has come from the agent for so many seconds; 0:
 * it waits as long as its op. An answer on its way may take longer, and so may qga_sync. Not for a
 * transport, which has limits of its own.
 */
void qga_set_patience(struct qga *q, double seconds);
/* Whether the VM stands still, so that silence is no fault. Any thread. */
void qga_stand_still(struct qga *q, bool still);

/* Waits until the agent answers, as long as op allows. This is also how to wait for a boot. */
int qga_sync(struct qga *q, const struct op *op, struct err *e);

struct qga_call {
	const char *command;
	json_t *args;     /* borrowed; NULL: none */
	size_t reply_max; /* bytes; 0: QGA_REPLY_MAX */
};
enum { QGA_REPLY_MAX = 1024 * 1024 };
int qga_call(struct qga *q, const struct op *op, const struct qga_call *call, json_t **ret,
	struct err *e);

struct qga_exec {
	const char *const *argv; /* argv[0]: a path, or looked up in the agent's PATH */
	const char *const *env;  /* NULL: the agent's own; otherwise the whole environment */
	struct bytes input;      /* all of stdin */
	size_t output_max;       /* of each stream; more is an error. At most QGA_OUTPUT_MAX */
};
enum { QGA_OUTPUT_MAX = 16 * 1024 * 1024 }; /* the agent keeps no more */

/* Starts a process and returns its number in the guest. */
int qga_exec_start(struct qga *q, const struct op *op, const struct qga_exec *req, int64_t *ret_pid,
	struct err *e);
/* Polls until the process has ended. If op ends first, the process runs on and the agent keeps its
 * output: this may be called again with another op. */
int qga_exec_wait(struct qga *q, const struct op *op, int64_t pid, size_t output_max,
	struct qga_exit *ret, struct err *e);
/* qga_exec_start and qga_exec_wait. */
int qga_exec(struct qga *q, const struct op *op, const struct qga_exec *req, struct qga_exit *ret,
	struct err *e);

/*
 * Write and read files as the agent's user. Writing takes up to qga_write_max bytes. Reading begins
 * at byte `from`; more than max bytes (0: no limit) are an error. The sink gets the bytes in
 * pieces.
 */
int qga_file_write(
	struct qga *q, const struct op *op, const char *path, struct bytes content, struct err *e);
int qga_file_read(struct qga *q, const struct op *op, const char *path, uint64_t from, uint64_t max,
	int (*sink)(void *arg, struct bytes piece, struct err *e), void *arg, struct err *e);
