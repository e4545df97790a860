/*
 * dir.h - the directory of a Vagrant sandbox. It has a root for Vagrant in it, with a copy of the
 * Vagrantfile; everything that Vagrant knows of its machines is in there (.vagrant). So the
 * directory is the one entry of the journal, and whoever has it can destroy the machines.
 *
 * Thread contract: made, opened and closed by the sandbox's owner.
 */
#pragma once

#include "driver/caplog.h"
#include "driver/vagrant/parse.h"
#include "driver/vagrant/want.h"
#include "util/strv.h"
#include "util/thread/lock.h"
#include "util/thread/op.h"

struct vagrant_dir {
	char *path; /* DIR */
	char *root; /* DIR/NAME, where Vagrant is at home; NULL before it is made or opened */
	struct strv env;
	struct lock log_mu; /* several runs may write at once; held over one write to a file */
	struct caplog log;
	const char *guard; /* the program moat-helper */
};

/* In the root, with the Vagrantfile and what Vagrant keeps. */
#define VAGRANT_HELPER "Vagrantfile.moat"
/* In DIR: many providers share the root with the guest, some so that it can write there. */
#define VAGRANT_ENV_FILE    "env"
#define VAGRANT_LOG_FILE    "vagrant.log"
#define VAGRANT_NOTES       "making" /* a directory; a file for each machine */
#define VAGRANT_SSH_DIR     "ssh"
#define VAGRANT_KNOWN_HOSTS "known-hosts" /* of the user's ssh */

/*
 * helper.rb: Ruby that our Vagrant processes load instead of the Vagrantfile, and that loads it. It
 * adds to `vagrant up`, and changes no machine: a line of machine-readable output that says how a
 * machine is reached, as soon as that is known, and again when Vagrant itself has reached it; a
 * lock around the moment when a box is taken into the hypervisor's storage, where a second process
 * could meet half an image; and, with libvirt, a note of the name that a machine will have
 * (VAGRANT_NOTES). `vagrant destroy` looks for that name if Vagrant was killed before it wrote down
 * the machine itself.
 */
extern const char vagrant_helper[];

/* Initialises it. Close it even if it was never made or opened. */
void vagrant_dir_init(struct vagrant_dir *d, const char *guard);
void vagrant_dir_close(struct vagrant_dir *d);
/* Makes DIR as wanted, for the sandbox with this id. lock_dir: for locks that sandboxes share. */
int vagrant_dir_make(const struct op *op, const struct vagrant_want *want, const json_t *access,
	const char *id, const char *lock_dir, struct vagrant_dir *d, struct err *e);
/* Opens that of a sandbox that an earlier daemon made; it may be gone. access: of the client who
 * wants that, for secrets that were not to be written down. */
int vagrant_dir_open(const char *path, const json_t *access, struct vagrant_dir *d, struct err *e);
/* Whether Vagrant knows of a machine made in here, or was making one. */
bool vagrant_dir_has_machines(const struct vagrant_dir *d);
/* A machine that Vagrant knows, or was making. */
struct vagrant_left {
	char name[VAGRANT_NAME_MAX], provider[64];
	/* What the provider calls it; a guest may have written it. "": Vagrant does not know that,
	 * but there is a note. */
	char id[128];
	char domain[256]; /* its name in libvirt, noted where no guest can write; "": not known */
	char uri[256];    /* of libvirt; "": not known */
};
/* Lists them, at most VAGRANT_MACHINES_MAX. */
unsigned vagrant_dir_left(const struct vagrant_dir *d, struct vagrant_left *ret);
/* Makes Vagrant forget a machine that is gone. */
int vagrant_dir_forget(
	const struct vagrant_dir *d, const struct vagrant_left *machine, struct err *e);
/* The name of the directory of a sandbox, and of the root in it; also what its machines' names end
 * in, after a "-". */
int vagrant_dir_name(const char *id, char **ret, struct err *e);
/* The id of the sandbox with this root. */
const char *vagrant_dir_id(const char *root);
