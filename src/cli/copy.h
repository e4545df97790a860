/*
 * copy.h - files and directories between here and a sandbox.
 *
 * The guest is hostile: names in its listings are checked, everything below the destination is
 * opened relative to its directory and without following links, and links are made as they are but
 * never followed.
 */
#pragma once

#include "cli/cli.h"

enum {
	COPY_DEPTH_MAX = 128,        /* directories in directories; each holds a file descriptor */
	COPY_WAITING_MAX = 16 << 20, /* bytes of names of directories that have yet to be copied */
};

/* Said of FIFOs, sockets and devices in directories. */
#define COPY_LEFT_OUT "not a file, directory or link: left out"

/* One side of a copy. */
struct place {
	bool remote;
	char *sandbox, *vm; /* vm: NULL for the default */
	char *path;
};
void place_free(struct place *p);
#define auto_place __attribute__((cleanup(place_free)))
/* "SANDBOX:PATH", "SANDBOX/VM:PATH", or a local path, which may be - and may begin with ./ */
int place_parse(const char *text, struct place *ret, struct err *e);

struct copy {
	struct cli *cli;
	const struct place *remote;
	uint64_t files, directories, links, bytes;
	unsigned failures; /* already complained about */
	size_t waiting;    /* of COPY_WAITING_MAX, on the levels above this one */
	/* of the file that is being copied */
	const char *name;
	uint64_t done, total;
};

int copy_get(struct copy *c, const char *to, struct err *e);
int copy_put(struct copy *c, const char *from, struct err *e);

/* Shared by both directions. */
json_t *copy_args(struct copy *c, const char *path, struct err *e); /* NULL with e filled */
int copy_join(const char *dir, const char *name, char **ret, struct err *e);
/* The last part of a path, without trailing slashes; "" if it names no entry of its own ("/", ".",
 * "x/.", ".."). */
int copy_base(const char *path, char **ret, struct err *e);
void copy_moved(struct copy *c, size_t n);
/* One entry of a directory failed: complain and go on (0), unless nothing else can work either. */
int copy_failed(struct copy *c, const char *path, struct err *e);
int copy_interrupted(struct err *e);
