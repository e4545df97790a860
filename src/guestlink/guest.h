/*
 * guest.h - running commands and moving files inside one VM. The link may be a line to the runner
 * (guestlink/line/line.h), or calls of the plain guest agent (guestlink/agent/agent.h) where the
 * runner cannot run.
 *
 * Thread contract: any number of threads may use one guest at once. guest_free waits for nobody, so
 * the owner calls it after the last operation.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>

#include "guestlink/hostkey.h"
#include "util/buf.h"
#include "util/thread/inbox.h"
#include "util/thread/op.h"

struct guest;

struct guest_exec {
	const char *const *argv; /* NULL at the end */
	const char *const *env;  /* "NAME=value", NULL at the end; may be NULL */
	const char *user, *cwd;  /* NULL: root; the user's home */
	double timeout;          /* seconds; 0: none. Then the guest kills the process tree */
	/* Above 0: the guest keeps this much of the tail of each stream and sends it at the end. */
	uint64_t capture_max;
	bool input;          /* messages of io->in are stdin */
	uint64_t input_size; /* how much input will come, as a hint; 0: unknown */
	bool tty;
	uint16_t rows, cols;
};

/* The types of messages in io->in. */
enum guest_input {
	GUEST_INPUT_DATA = 1, /* data */
	GUEST_INPUT_EOF,
	GUEST_INPUT_SIGNAL, /* a: signal */
	GUEST_INPUT_RESIZE, /* a: rows, b: cols */
};

/* How an operation meets its client. Calls are made on the operation's own thread. */
struct guest_io {
	struct inbox *in; /* input, signals, resizes; NULL: none */
	/* Takes output (enum wire_stream) and may wait for the client to read; -1 ends the
	 * operation. NULL (exec only): the output is thrown away. */
	int (*output)(void *arg, int stream, struct bytes data, struct err *e);
	/* Hears how many bytes of input have been consumed; may be NULL. */
	void (*consumed)(void *arg, size_t n);
	void *arg;
};

enum guest_stage { GUEST_RAN, GUEST_NO_USER, GUEST_NO_CWD, GUEST_NO_EXEC };

struct guest_exit {
	enum guest_stage stage;
	/* GUEST_RAN: the exit status, 128 + n for signal n, 124 for a timeout; else 126 or 127. */
	int code;
	int signal; /* the signal that ended it, or 0 */
	int sys;    /* the errno for which it did not run */
	bool timed_out;
	uint64_t stdout_bytes, stderr_bytes; /* all that the command wrote, also what was dropped */
	char message[256];                   /* escaped; why it did not run */
};

struct guest_path {
	const char *user, *cwd, *path; /* user, cwd as in guest_exec */
};

struct guest_stat {
	uint64_t size;
	uint32_t mode;
};

struct guest_entry { /* unescaped: names are bytes from the guest */
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
 * Runs a command; one that ran and failed is success here. -1: the VM or the runner is gone
 * (ERR_UNAVAILABLE); op ended (ERR_TIMEOUT, ERR_CANCELLED), and the process tree in the guest has
 * been killed or its channel closed; or io->output failed.
 */
int guest_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e);
/* Reads a file; its bytes go to io->output as WIRE_BODY. max 0: no limit. A larger file is
 * ERR_LIMIT, before anything is sent where its size can be known. */
int guest_read(struct guest *g, const struct op *op, const struct guest_path *at, uint64_t max,
	const struct guest_io *io, struct guest_stat *ret, struct err *e);
/* Writes a file from the messages DATA..., EOF of io->in. Errors have the guest's errno in e->sys,
 * and the kind that follows from it. */
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

struct guest_nic {
	const char *old, *mac; /* MAC addresses as text: the one it has, the one it gets */
};

/* What makes a copied VM its own, and no longer the one it was copied from. */
struct guest_identity {
	unsigned flags;                    /* of enum wire_identity_flag */
	const char *hostname, *machine_id; /* NULL: not set */
	const struct guest_nic *nics;
	size_t n_nics;
	/* For the kinds of SSH host keys that the VM has; it makes those that are missing here. */
	const struct hostkey *keys;
	size_t n_keys;
};
/* Sets the VM's identity and checks it. The VM gets the host's clock and fresh randomness, too.
 * ERR_UNSUPPORTED without the runner. */
int guest_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e);

/* What a link into a guest must do; the functions above check arguments and call these. */
struct guest_ops {
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
		struct err *); /* NULL: not supported */
	void (*free)(struct guest *);
	bool (*has_runner)(const struct guest *); /* NULL: never */
	/* All but free are NULL for a link without a connection that could end before the VM
	 * does. */
	void (*cut_off)(struct guest *, const char *why);
	bool (*is_cut_off)(const struct guest *);
	/* The VM stands still from now on, or does no more; NULL: that makes no difference. */
	void (*stand_still)(struct guest *, bool still);
	void (*let_go)(struct guest *, struct buf *rest); /* as guest_let_go */
};
struct guest {
	const struct guest_ops *ops;
};
/* Whether operations go through our runner; otherwise they go through the plain guest agent. */
bool guest_has_runner(const struct guest *g);
const char *guest_link_name(const struct guest *g); /* "runner" or "agent" */
/* Whether the link is a connection, which can be cut off and then is of no use any more. */
bool guest_can_be_cut_off(const struct guest *g);
bool guest_is_cut_off(const struct guest *g);
/* Every operation over it, now and later, fails with ERR_UNAVAILABLE and these words. */
void guest_cut_off(struct guest *g, const char *why);
/* Told by a driver that stops a VM and lets it go on: a silent guest is no fault meanwhile. */
void guest_stand_still(struct guest *g, bool still);
/* For the owner of a link that was cut off. When it returns, the link neither reads from its
 * connection nor writes to it. Another link can be opened there, once the bytes that were added to
 * rest have been sent: the runner still waits for them. */
void guest_let_go(struct guest *g, struct buf *rest);
void guest_free(struct guest *g); /* NULL is fine */

/* ERR_LIMIT for something too large to go into the guest. With E2BIG in e->sys, which a file too
 * large to come out has not. */
#define guest_too_large(e, ...) (err_set(e, ERR_LIMIT, __VA_ARGS__), (e)->sys = E2BIG, -1)

/*
 * For links: an error that the guest reported. what: the file it is about; text: the guest's own
 * words, escaped, or empty. Returns -1 with e->sys set.
 */
int guest_fail(struct err *e, uint32_t eno, const char *what, const char *text);
/* For links: takes input until it ends or there are max bytes of it. 1: it has ended. */
int guest_collect(
	const struct op *op, const struct guest_io *io, size_t max, struct buf *ret, struct err *e);
/* For links: the result of a command that could not be started. */
void guest_not_run(
	struct guest_exit *ret, enum guest_stage stage, uint32_t eno, const char *escaped);
