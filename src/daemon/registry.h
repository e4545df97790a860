/*
 * registry.h - the sandboxes that exist. One lock, held over memory only.
 *
 * A sandbox leaves the registry when it has been removed. Operations borrow it in between:
 * registry_borrow fails once removal has begun, and removal first cancels those who have it
 * borrowed and waits for them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

enum sandbox_state { SANDBOX_CREATING, SANDBOX_RUNNING, SANDBOX_REMOVING };

/* Sandboxes that one operation keeps ready for others; on its stack. */
struct standby {
	const char *key; /* the spec in its one form: equal keys mean equal sandboxes */
	int wake_fd;     /* eventfd: rung when one is taken or leaves */
	unsigned taken;  /* so many so far; under the registry's lock */
};

struct sandbox {
	/* fixed at its making; spec: once it runs */
	char id[16];
	struct driver *driver;
	struct sandbox_spec *spec;
	json_t *labels;  /* object of strings; fixed once it is not in standby any more */
	int64_t created; /* unix seconds */
	unsigned ram_mb; /* promised */

	/* under the registry's lock */
	enum sandbox_state state;
	uint64_t lease;          /* the session it belongs to; 0: detached */
	int owner_pid;           /* the client's process, for people */
	struct standby *standby; /* kept ready; NULL: somebody's, or leaving */
	struct box *box;
	unsigned refs;
	bool seized; /* one borrower has it for itself */
	struct borrower *borrowers;
	struct op *maker; /* the operation that makes it, while CREATING */
	bool unwanted;    /* the maker was cancelled because somebody removes the sandbox */
	int idle_fd;      /* eventfd: rung when the last borrower has gone */
	struct sandbox *next;
};

/* On the borrowing operation's stack. */
struct borrower {
	struct sandbox *sb;
	struct box *box;
	struct op *op;
	bool sandbox_gone; /* op was cancelled because the sandbox is being removed */
	bool seized;       /* the sandbox is for this one alone */
	bool restored;     /* op was cancelled because the sandbox went back to a snapshot */
	struct borrower *next;
};

struct registry;

int registry_new(struct registry **ret, struct err *e);
void registry_free(struct registry *r); /* NULL is fine */

/* Takes spec and labels. The sandbox is CREATING and holds one reference for the caller. */
struct sandbox_new {
	struct driver *driver;
	struct sandbox_spec *spec;
	json_t *labels;
	uint64_t lease;
	int owner_pid;
	unsigned ram_mb;         /* promised by admission */
	struct standby *standby; /* NULL: for the one who asks */
	struct op *maker;
};
int registry_add(
	struct registry *r, const struct sandbox_new *req, struct sandbox **ret, struct err *e);
/* While it is CREATING: what it turned out to be. Takes spec. */
void registry_set_spec(struct registry *r, struct sandbox *sb, struct sandbox_spec *spec);
/* CREATING to RUNNING. If removal has begun meanwhile, the box is the caller's to destroy
 * (ERR_CANCELLED). */
int registry_running(
	struct registry *r, struct sandbox *sb, struct box *box, bool detach, struct err *e);

/* By id or unique prefix (at least 4 characters). Only while it runs; otherwise an error that says
 * what it does. Waits while somebody has seized it. */
int registry_borrow(
	struct registry *r, const char *id, struct op *op, struct borrower *ret, struct err *e);
void registry_return(struct registry *r, struct borrower *b);
/* Cancels all other borrowers, waits for their end, and keeps new ones waiting until the return. */
int registry_seize(struct registry *r, struct borrower *b, struct err *e);
/* What an operation that failed should say: that its sandbox was removed, if that is why it was
 * cancelled. Returns -1. */
int registry_explain(struct registry *r, const struct borrower *b, struct err *e);
/* The same for the operation that was to make it. */
int registry_explain_making(struct registry *r, const struct sandbox *sb, struct err *e);

int registry_detach(struct registry *r, const char *id, struct err *e);

/* Whom a sandbox in standby is handed over to. */
struct sandbox_taker {
	const char *key; /* of the spec that is wanted */
	json_t *labels;  /* the caller's; kept by reference */
	uint64_t lease;
	int owner_pid;
	struct op *op;
};
/* Hands over one that is ready, borrowed: first of those that the taker's own session keeps. False:
 * there is none. */
bool registry_take_standby(
	struct registry *r, const struct sandbox_taker *by, struct borrower *ret);
struct standby_figures {
	unsigned ready, making, taken;
	unsigned dead; /* those that were ready */
};
struct standby_figures registry_standby(struct registry *r, const struct standby *st);

/* A VM of it is dead. That VM's own lock is taken for a moment, as in registry_to_json. */
bool sandbox_is_dead_locked(const struct sandbox *sb);
/* Chooses sandboxes to remove; true takes it. Called under the lock: look, do not touch. */
typedef bool (*sandbox_filter)(const struct sandbox *sb, void *arg);
/*
 * Marks the first sandbox that fits as REMOVING, cancels its borrowers, and returns it with a
 * reference and its box taken out; NULL when none is left. The caller waits for the borrowers
 * (registry_wait_idle), destroys the box and calls registry_forget.
 */
struct sandbox *registry_start_removal(
	struct registry *r, sandbox_filter fits, void *arg, struct box **ret_box);
/* Cancels the making of those that fit; their makers remove them. How many there are. */
unsigned registry_cancel_making(struct registry *r, sandbox_filter fits, void *arg);
/* How many of those that fit somebody is removing. */
unsigned registry_count_removing(struct registry *r, sandbox_filter fits, void *arg);
int registry_wait_idle(struct registry *r, struct sandbox *sb, const struct op *op, struct err *e);
/* Takes it off the list and drops the caller's reference. */
void registry_forget(struct registry *r, struct sandbox *sb);
/* Drops the reference that registry_add gave. */
void registry_unref(struct registry *r, struct sandbox *sb);

/* The memory that the VMs together may take from this host, in MB. */
unsigned spec_total_ram(const struct sandbox_spec *spec, const struct driver *driver);

/* The id that a prefix stands for. */
int registry_resolve(struct registry *r, const char *prefix, char ret_id[16], struct err *e);
bool registry_has(struct registry *r, const char *id);
unsigned registry_count(struct registry *r);
/* SANDBOX objects of the protocol; of one (id) or all (NULL). */
int registry_to_json(struct registry *r, const char *id, json_t **ret, struct err *e);
/* VM objects of one sandbox. */
json_t *sandbox_vms_to_json(struct sandbox *sb, struct box *box);
