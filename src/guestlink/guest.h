/*
 * guest.h - running commands and moving files inside one VM, whatever the way in: the runner on its
 * own port (guest/line.h), or the plain guest agent (guest/agent.h) where the runner cannot run.
 *
 * Thread contract: any number of threads may use one guest at once; guest_free waits for nobody, so
 * the owner calls it after the last operation.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

#include "guest/hostkey.h"
#include "util/buf.h"
#include "util/inbox.h"
#include "util/op.h"

struct guest;

struct guest_exec {
	const char *const *argv; /* NULL at the end */
	const char *const *env;  /* "NAME=value", NULL at the end; may be NULL */
	const char *user, *cwd;  /* NULL: root; the user's home */
	double timeout;          /* seconds; 0: none. In the guest, kills the whole tree */
	uint64_t capture_max; /* > 0: keep this much of the tail of each stream, deliver at the end
			       */
	bool input;           /* letters of io->in are stdin */
	uint64_t input_size;  /* what it will be, if that is known; else 0. Only a hint */
	bool tty;
	uint16_t rows, cols;
};

/* Letters that a client's thread puts into io->in. */
enum guest_letter {
	GUEST_LETTER_DATA = 1, /* data */
	GUEST_LETTER_EOF,
	GUEST_LETTER_SIGNAL, /* a: signal */
	GUEST_LETTER_RESIZE, /* a: rows, b: cols */
};

/* How an operation meets its client. Calls are made on the operation's own thread. */
struct guest_io {
	struct inbox *in; /* input, signals, resizes; NULL: none */
	/* Takes output (enum wire_stream), waiting for the client to read if need be; -1 ends the
	 * operation. NULL (exec only): nobody wants it. */
	int (*output)(void *arg, int stream, struct bytes data, struct err *e);
	/* So many bytes of input have been consumed; may be NULL. */
	void (*consumed)(void *arg, size_t n);
	void *arg;
};

enum guest_stage { GUEST_RAN, GUEST_NO_USER, GUEST_NO_CWD, GUEST_NO_EXEC };

struct guest_exit {
	enum guest_stage stage;
	int code; /* GUEST_RAN: exit status, 128 + n for signal n, 124 when timed out; otherwise 126
		     or 127 */
	int signal; /* the signal that ended it, or 0 */
	int sys;    /* errno if it did not run */
	bool timed_out;
	uint64_t stdout_bytes, stderr_bytes; /* written by the command, sent or not */
	char message[256];                   /* escaped; why it did not run */
};

struct guest_path {
	const char *user, *cwd, *path; /* user, cwd as in guest_exec */
};

struct guest_stat {
	uint64_t size;
	uint32_t mode;
};

struct guest_entry { /* escaped nowhere: names are bytes from the guest */
	const char *name, *target;
	uint32_t mode;
	uint64_t size;
	int64_t mtime;
};

struct guest_write {
	struct guest_path at;
	uint32_t mode; /* 0: 0644 for a new file */
	bool append, parents;
};

/*
 * A command that ran and failed is success here. -1: ERR_UNAVAILABLE (VM or runner gone),
 * ERR_TIMEOUT or ERR_CANCELLED of op (the tree in the guest has been killed, or its channel
 * closed), or what io->output said.
 */
int guest_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e);
/* The file goes to io->output as WIRE_BODY. max 0: no limit; a larger file is ERR_LIMIT before
 * anything is sent, if that can be known. */
int guest_read(struct guest *g, const struct op *op, const struct guest_path *at, uint64_t max,
	const struct guest_io *io, struct guest_stat *ret, struct err *e);
/* Content from letters DATA..., EOF. Errors carry the guest's errno in e->sys, with the kind that
 * follows from it. */
int guest_write(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e);
/*
 * Calls each() for every entry of a directory; for anything else once, with the name "". At most
 * GUEST_ENTRIES_MAX entries. Names that could lead out of a directory ("..", "a/b") never reach
 * each(): a guest that sends one fails the operation.
 */
enum { GUEST_ENTRIES_MAX = 1000000 };
int guest_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e);
int guest_mkdir(struct guest *g, const struct op *op, const struct guest_path *at, uint32_t mode,
	struct err *e);
int guest_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e);

struct guest_card {
	const char *old, *mac; /* as text: what it has, what it gets */
};

/* What makes a copied system one of its own; flags are those of enum wire_identity_flag. */
struct guest_identity {
	unsigned flags;
	const char *hostname, *machine_id; /* NULL: not set */
	const struct guest_card *cards;
	size_t n_cards;
	const struct hostkey
		*keys; /* for the kinds that the VM has; without one it makes its own */
	size_t n_keys;
};
/* Sets it and checks that it is so. The clock is the host's, the randomness fresh. ERR_UNSUPPORTED
 * without the runner. */
int guest_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e);

/* What a way in must do; the functions above check arguments and call these. */
struct guest_ops {
	const char *name; /* "runner", "agent" */
	int (*exec)(struct guest *, const struct op *, const struct guest_exec *,
		const struct guest_io *, struct guest_exit *, struct err *);
	int (*read)(struct guest *, const struct op *, const struct guest_path *, uint64_t,
		const struct guest_io *, struct guest_stat *, struct err *);
	int (*write)(struct guest *, const struct op *, const struct guest_write *,
		const struct guest_io *, struct guest_stat *, struct err *);
	int (*list)(struct guest *, const struct op *, const struct guest_path *,
		int (*)(void *, const struct guest_entry *, struct err *), void *, struct err *);
	int (*mkdir)(struct guest *, const struct op *, const struct guest_path *, uint32_t,
		struct err *);
	int (*symlink)(struct guest *, const struct op *, const struct guest_path *, const char *,
		struct err *);
	int (*identify)(struct guest *, const struct op *, const struct guest_identity *,
		struct err *); /* NULL: it cannot */
	void (*free)(struct guest *);
	const char *(*way)(const struct guest *); /* NULL: it is always the one of that name */
};
struct guest {
	const struct guest_ops *ops;
};
const char *guest_way(const struct guest *g); /* "runner" or "agent" */
void guest_free(struct guest *g);             /* NULL is fine */

/* ERR_LIMIT about what was to go into the guest: E2BIG tells it from what would have come out. */
#define guest_too_large(e, ...) (err_set(e, ERR_LIMIT, __VA_ARGS__), (e)->sys = E2BIG, -1)

/*
 * For the ways in: an errno that the guest reported for a file. what: whose it is; text: the
 * guest's own words, escaped, or empty. Returns -1 with e->sys set.
 */
int guest_fail(struct err *e, uint32_t eno, const char *what, const char *text);
/* For the ways in: takes input until it ends or there are max bytes of it. 1: it has ended. */
int guest_collect(
	const struct op *op, const struct guest_io *io, size_t max, struct buf *ret, struct err *e);
/* For the ways in: sets *ret from a command that could not be started. */
void guest_not_run(
	struct guest_exit *ret, enum guest_stage stage, uint32_t eno, const char *escaped);
