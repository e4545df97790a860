/* err.h - the one error type: a struct on the caller's stack, which allocates nothing. Any
 * thread. */
#pragma once

#include <stdbool.h>

#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

enum err_kind {
	ERR_NONE,
	ERR_INVALID,     /* the request is wrong, retrying cannot help */
	ERR_NOT_FOUND,   /* no such file, sandbox, image */
	ERR_PERMISSION,  /* not allowed */
	ERR_IS_DIR,      /* a directory where a file was wanted */
	ERR_LIMIT,       /* larger than the limit that was given */
	ERR_TIMEOUT,     /* this operation's deadline passed */
	ERR_CANCELLED,   /* the client has gone or has cancelled: for the log only */
	ERR_UNAVAILABLE, /* machine or agent not reachable */
	ERR_BUSY,        /* out of capacity */
	ERR_UNSUPPORTED, /* the driver lacks the capability */
	ERR_BACKEND,     /* QEMU, Proxmox or Vagrant refused or failed */
	ERR_INTERNAL,    /* a bug of ours, or a failure of this host */
	ERR_KIND_COUNT
};

struct err {
	enum err_kind kind;
	int sys;          /* errno or a child's exit status; 0 if none */
	const char *file; /* where it was raised; for the log, never for the user */
	int line;
	char msg[1024]; /* never a secret; one line, with a backend's own message at the end */
};

/* Always -1. Inline, so that the compiler sees that the caller fails and sets no outputs. */
static inline int err_fail(int minus_one)
{
	(void)minus_one;
	return -1;
}

/* Each returns -1, so that a failure path is one line. errno is an argument: no call changes it
 * unnoticed. */
#define err_set(e, kind, ...) err_fail(err_set_at(e, kind, __FILE__, __LINE__, __VA_ARGS__))
#define err_sys(e, eno, ...)  err_fail(err_sys_at(e, eno, __FILE__, __LINE__, __VA_ARGS__))
#define err_oom(e)            err_fail(err_oom_at(e, __FILE__, __LINE__))
PRINTF_LIKE(5, 6)
int err_set_at(struct err *e, enum err_kind kind, const char *file, int line, const char *fmt, ...);
/* Appends ": strerror(eno)" and derives the kind from eno (ENOENT: ERR_NOT_FOUND, EACCES:
 * ERR_PERMISSION...). */
PRINTF_LIKE(5, 6)
int err_sys_at(struct err *e, int eno, const char *file, int line, const char *fmt, ...);
int err_oom_at(struct err *e, const char *file, int line);
/* Puts "text: " in front of the message, unless the message begins with that already. If both do
 * not fit, text is cut, never the cause. */
PRINTF_LIKE(2, 3) int err_wrap(struct err *e, const char *fmt, ...);

/* The kind's name in the protocol ("not_found"), and back (ERR_INTERNAL for an unknown name). */
const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_from_name(const char *name);
enum err_kind err_kind_from_errno(int eno);
/* Whether this host ran short of memory, files, threads or disk space for the moment. Such an error
 * says nothing about what was being worked on. */
bool err_is_shortage(const struct err *e);
