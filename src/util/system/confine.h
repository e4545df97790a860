/*
 * confine.h - a process gives up its rights before a guest can reach it. All processes of the host
 * that handle a guest's bytes are confined here. Call it before starting a thread.
 *
 * Each part that a kernel or a container refuses is left out, which costs a barrier and not the
 * sandbox; `moat doctor` says so. The exception is root: whoever is confined never stays root, or
 * sees no file of the host.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A confined process of root has a user and group id of its own: this number plus its process
 * number, which no other process has while it lives. So no two may signal or trace each other. No
 * distribution gives these ids to anybody (systemd's table of ids has them as unused). In a
 * container with fewer ids it is nobody.
 */
enum { CONFINE_IDS = 0x70000000, CONFINE_NOBODY = 65534 };

/* A process gets this of its own, besides a user, a root directory and fewer system calls. */
struct confinement {
	const char *name;   /* on the guard's command line */
	int namespaces;     /* CLONE_NEW..., made by its guard */
	bool whole_proc;    /* all of /proc, not only the processes of its pid namespace */
	uint64_t memory;    /* most that it may map, and no core file; 0: no limit */
	const char *device; /* a device that it may open, if the host has it; NULL: none */
	/* With these capabilities alone it stays root, of which it sees no file; none: it becomes
	 * another user. */
	const int *kept;
	unsigned n_kept;
};

/* NULL: there is none of that name. "vm": a QEMU; "image": a program that reads foreign
 * images; "layers": moat-disk with layers of container images; "files": one that makes or reads
 * files of all users, in a directory that it has open; "network": a holder, which confines itself.
 */
const struct confinement *confine_find(const char *name);

/* Enters new namespaces (CLONE_NEW...), in a new user namespace if we are not root. -1: not
 * possible here. */
int confine_namespaces(int flags);
/* In a mount namespace of our own: leaves the host's files (confine-root.c). file: the program that
 * will be run, which stays visible wherever it is; NULL: none. owner: the id that the device
 * belongs to. -1: not possible here, and the host's files stay. */
int confine_root(const struct confinement *c, const char *file, uid_t owner);
/* From now on the kernel refuses system calls by which a process gets at others, at the kernel
 * itself and, unless they are allowed, at mounts and namespaces; and sockets that do not care about
 * the network that it is in. -1 and errno. */
int confine_calls(bool namespaces);

#define CONFINE_NO_GROUP ((gid_t)-1)
/* The id for confine_rights; our own if we are not root. */
uid_t confine_id(void);
/* Changes root to that id, with no other group but this one, and drops all capabilities. -1 and
 * errno. */
int confine_rights(uid_t id, gid_t group);

/* Keeps those capabilities, also when it runs a program, and can get no others. -1 and errno. */
int confine_keep(const int *capabilities, unsigned n);
/* Leaves all files: the root is empty and read-only. -1: not possible here. */
int confine_empty_root(void);
/* No core file, no further process or thread, and at most so many bytes of memory, which do not
 * count in builds with a sanitizer, and in a file. */
void confine_limits(uint64_t memory, uint64_t file);

/* The sockets of a process that opens no others: it uses those that it has or is given. */
struct confine_sockets {
	int first, end; /* those from first on, before end: may send to any address */
	int kept;       /* those before this one cannot be closed, so that none takes their place */
};

/* From now on the kernel refuses all system calls but those few that such a process needs: to wait,
 * read, write, accept, close and have memory. -1 and errno. */
int confine_sockets(const struct confine_sockets *s);

/* All of this but the namespaces that a guard makes. file: as for confine_root. -1 and errno: it
 * would stay root. */
int confine_self(const struct confinement *c, const char *file);
