/*
 * qga.h - the QEMU guest agent: one JSON command at a time, over a stream socket. Not thread-safe:
 * whoever uses it holds the VM's turn.
 *
 * A command that fails half-way (deadline, garbage) leaves an answer on its way; the next command
 * first synchronises again, so nothing is ever taken for the answer to something else.
 */
#pragma once

#include "guest/qga-parse.h"
#include "util/op.h"

struct qga;

/*
 * An agent that is not at the end of a socket, but reached by other means: what the functions below
 * that are more than a call are to do instead. qga_sync, qga_ping and qga_call are not for it.
 */
struct qga_exec;
struct qga_way {
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
int qga_open_way(const struct qga_way *way, void *arg, struct qga **ret, struct err *e);
/* NULL: it is one at a socket. *ret_arg: what qga_open_way got. */
const struct qga_way *qga_way_of(const struct qga *q, void **ret_arg);
/* How much output of a command, each stream, can be had. */
size_t qga_output_max(const struct qga *q);
/* Whether these bytes can be a command's stdin; those that cannot may go by a file. */
bool qga_takes_input(const struct qga *q, struct bytes input);
/* How much qga_file_write takes at once. */
size_t qga_write_max(const struct qga *q);

/* Borrows fd, a connected stream socket. Sends nothing yet. */
int qga_open(int fd, struct qga **ret, struct err *e);
void qga_close(struct qga *q); /* NULL is fine */

/* Waits until the agent answers, for as long as op allows: also the way to wait for a boot. */
int qga_sync(struct qga *q, const struct op *op, struct err *e);
int qga_ping(struct qga *q, const struct op *op, struct err *e);

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
	const char *const *env;  /* NULL: the agent's own; otherwise all there is */
	struct bytes input;      /* stdin, whole */
	size_t output_max;       /* of each stream; more is an error. At most QGA_OUTPUT_MAX */
};
enum { QGA_OUTPUT_MAX = 16 * 1024 * 1024 }; /* the agent keeps no more */

/* Starts a process and returns its number in the guest. */
int qga_exec_start(struct qga *q, const struct op *op, const struct qga_exec *req, int64_t *ret_pid,
	struct err *e);
/*
 * Polls until it has ended. When op ends first the process goes on, and its output is kept by the
 * agent: call again with another op, or never.
 */
int qga_exec_wait(struct qga *q, const struct op *op, int64_t pid, size_t output_max,
	struct qga_exit *ret, struct err *e);
/* Both. */
int qga_exec(struct qga *q, const struct op *op, const struct qga_exec *req, struct qga_exit *ret,
	struct err *e);

/* Whole files, of up to qga_write_max bytes, as the agent's user. Reading begins at byte `from`;
 * more than max bytes (0: any number) are an error. The sink is called with pieces as they come. */
int qga_file_write(
	struct qga *q, const struct op *op, const char *path, struct bytes content, struct err *e);
int qga_file_read(struct qga *q, const struct op *op, const char *path, uint64_t from, uint64_t max,
	int (*sink)(void *arg, struct bytes piece, struct err *e), void *arg, struct err *e);
