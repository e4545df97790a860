/*
 * vagrant.h - the parts of the Vagrant driver: what a client wants, the directory of a sandbox,
 * runs of the vagrant command, the machines. For vagrant*.c only.
 *
 * Each sandbox has a directory with a root for Vagrant in it, which has a copy of the Vagrantfile;
 * everything that Vagrant knows of its machines is in there (.vagrant). So the directory is the one
 * thing to journal, and whoever has it can destroy the machines.
 */
#pragma once

#include <pthread.h>

#include "driver/caplog.h"
#include "driver/driver.h"
#include "driver/vagrant-parse.h"
#include "driver/ways.h"
#include "util/slots.h"
#include "util/strv.h"
#include "util/turn.h"

/* ---- what a client wants: vagrant-want.c ---- */

struct vagrant_want {
	char *vagrantfile; /* absolute */
	char *dir;         /* its contents are copied too; NULL: nothing */
	char *primary;     /* the default machine; NULL: the first */
	bool any_primary;  /* if there is none of that name, the first will do */
	char *provider;    /* NULL: Vagrant's choice */
	char *cache_dir;   /* where sandboxes' directories are made */
	json_t *env;       /* for the Vagrantfile: object of strings */
	unsigned max_startups;
};

void vagrant_want_free(struct vagrant_want *w);
#define auto_want __attribute__((cleanup(vagrant_want_free)))
/* access may be NULL: then this process' own environment counts. */
int vagrant_want_read(const struct sandbox_spec *spec, const json_t *access,
	struct vagrant_want *ret, struct err *e);
/* What can be told of a spec without a client. */
int vagrant_want_check(const struct sandbox_spec *spec, struct err *e);
/* The environment that the client sent, or ours: "NAME=value". */
int vagrant_client_env(const json_t *access, struct strv *ret, struct err *e);
/* NULL: not set. name ends with its string or at a "=". */
const char *env_find(const struct strv *env, const char *name);
/* Replaces or adds; fails later, in strv_check. */
void env_set(struct strv *env, const char *name, const char *value);

/* ---- a sandbox's directory: vagrant-dir.c ---- */

struct vagrant_dir {
	char *path; /* DIR */
	char *root; /* DIR/NAME, where Vagrant is at home; NULL before it is made or opened */
	struct strv env;
	struct caplog log;
	pthread_mutex_t log_mu; /* several runs may write at once; held over one write to a file */
	const char *guard;      /* our binary */
};

/* In the root, with the Vagrantfile and what Vagrant keeps. */
#define VAGRANT_HELPER "Vagrantfile.moat"
/* In DIR: many providers share the root with the guest, some so that it can write there. */
#define VAGRANT_ENV_FILE    "env"
#define VAGRANT_LOG_FILE    "vagrant.log"
#define VAGRANT_NOTES       "making" /* a directory; a file for each machine */
#define VAGRANT_SSH_DIR     "ssh"
#define VAGRANT_KNOWN_HOSTS "known-hosts" /* ssh's, of whoever uses those files */

/* Makes DIR as wanted, for the sandbox with this id. lock_dir: for locks that sandboxes share. */
int vagrant_dir_make(const struct op *op, const struct vagrant_want *want, const json_t *access,
	const char *id, const char *lock_dir, struct vagrant_dir *d, struct err *e);
/* Of a sandbox that an earlier daemon made. access: of whoever wants that, for what was not to be
 * written down. 1: opened; 0: there is nothing. */
int vagrant_dir_open(const char *path, const json_t *access, struct vagrant_dir *d, struct err *e);
void vagrant_dir_close(struct vagrant_dir *d);
/* Whether Vagrant knows of a machine made in here. */
bool vagrant_dir_has_machines(const struct vagrant_dir *d);
/* The name of the directory of a sandbox, and of the root in it; also what its machines' names end
 * in, after a "-". */
int vagrant_dir_name(const char *id, char **ret, struct err *e);
extern const char vagrant_helper[]; /* vagrant-helper.c */

/* ---- runs of vagrant: vagrant-run.c ---- */

struct vagrant_run {
	const char *const *argv; /* after "vagrant --machine-readable"... NULL at the end */
	const char *what;        /* for messages: "vagrant up" */
	double interrupt_grace;  /* > 0: interrupted first when the op ends, killed after so long */
	/* Called after each line that said something; may be NULL. */
	void (*news)(void *arg, struct vagrant_report *r);
	void *arg;
};

/* Runs to the end. A failure of Vagrant is ERR_BACKEND or what fits it better, with its own words;
 * report is valid in either case. */
int vagrant_run(struct vagrant_dir *d, const struct op *op, const struct vagrant_run *run,
	struct vagrant_report *report, struct err *e);
/* Destroys all machines of the directory, trying again where that helps. Fine when there are none.
 */
int vagrant_destroy_all(struct vagrant_dir *d, const struct op *op, struct err *e);

/* ---- configuration for ssh: vagrant-ssh.c ---- */

struct vagrant_vm;

/* What the user's ssh calls a machine: a name that no other sandbox's machine has. */
int vagrant_ssh_alias(const struct vagrant_dir *d, const char *name, char **ret, struct err *e);
int vagrant_ssh_config(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, char **ret, struct err *e);
/* DIR/ssh/ALIAS, as things stand. A failure is logged: commands need it not. */
void vagrant_ssh_keep(struct vagrant_vm *vm, const struct op *op);

/* ---- machines: vagrant-guest.c ---- */

struct vagrant_vm {
	struct vagrant_dir *dir;
	const char *runner_path, *ssh_path;
	char *machine; /* as Vagrant knows it */
	char *name;    /* as users know it: without the suffix */
	char *alias;   /* for ssh */
	char provider[64];
	char user[64];     /* who runs commands; "": whoever we log in as */
	bool for_commands; /* false: it only runs */
	double boot_timeout;
	struct ways ways;

	pthread_mutex_t mu; /* guards all below */
	enum box_vm_state state;
	struct err death;
	bool being_made; /* `vagrant up` has not ended */
	struct vagrant_ssh ssh;
	char host_key[128]; /* as it was at the first connection; "" before */
};

int vagrant_vm_init(
	struct vagrant_vm *vm, const struct vagrant_machine *m, const char *name, struct err *e);
void vagrant_vm_free(struct vagrant_vm *vm);
/* While it is being made: what Vagrant says of how it is reached; and when it has been made. */
void vagrant_vm_told(struct vagrant_vm *vm, const struct vagrant_ssh *ssh);
void vagrant_vm_made(struct vagrant_vm *vm);
/* Found off before, it has been started since: it is tried again. */
void vagrant_vm_revive(struct vagrant_vm *vm);
extern const struct ways_ops vagrant_ways; /* a struct sshlink is below a guest */
/* Puts the guest's clock right: after a restore it is behind. */
int vagrant_guest_set_clock(struct vagrant_vm *vm, const struct op *op, struct err *e);

int vagrant_doctor(const struct driver_env *env, const struct op *op, const json_t *access,
	void (*say)(void *arg, const struct check *c), void *arg, struct err *e);
