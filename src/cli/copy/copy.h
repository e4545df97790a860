/*
 * copy.h - copies files and directories between this host and a sandbox.
 *
 * The guest is hostile: names in its listings are checked, and everything below the destination is
 * opened relative to its directory without following links. Links are copied as links and never
 * followed.
 */
#pragma once

#include "cli/cli.h"

enum {
	COPY_DEPTH_MAX = 128, /* nesting of directories; each level holds a file descriptor */
	COPY_WAITING_MAX =
		16 << 20, /* bytes of names of directories that were listed and not copied yet */
};

/* The message for FIFOs, sockets and devices in directories. */
#define COPY_SKIPPED "not a file, directory or link: left out"

/* One side of a copy. */
struct copy_side {
	bool remote;
	char *sandbox, *vm; /* vm: NULL for the default */
	char *path;
};
void copy_side_free(struct copy_side *p);
#define auto_copy_side __attribute__((cleanup(copy_side_free)))
/* Parses "SANDBOX:PATH", "SANDBOX/VM:PATH" or a local path, which may be - and may begin with ./ */
int copy_side_parse(const char *text, struct copy_side *ret, struct err *e);

struct copy {
	struct cli *cli;
	const struct copy_side *remote;
	uint64_t files, directories, links, bytes;
	unsigned failures; /* number of errors that were printed already */
	size_t waiting;    /* of COPY_WAITING_MAX, used by the levels above this one */
	/* about the file that is being copied: */
	const char *name;
	uint64_t done, total;
};

int copy_get(struct copy *c, const char *to, struct err *e);
int copy_put(struct copy *c, const char *from, struct err *e);

/* For both directions: */
json_t *copy_args(struct copy *c, const char *path, struct err *e); /* NULL, and e, on failure */
int copy_join(const char *dir, const char *name, char **ret, struct err *e);
/* The last part of a path, without trailing slashes; "" if it names no entry of its own ("/", ".",
 * "x/.", ".."). */
int copy_base(const char *path, char **ret, struct err *e);
void copy_moved(struct copy *c, size_t n);
/* For an entry of a directory that failed: prints the error and returns 0, or -1 if the other
 * entries would fail too. */
int copy_failed(struct copy *c, const char *path, struct err *e);
int copy_interrupted(struct err *e);
