/*
 * registry.h - the sandboxes that exist.
 *
 * A sandbox is in the registry from the beginning of its making to the end of its removal. An
 * operation borrows it while it works in it. Once removal has begun, nobody can borrow the sandbox
 * any more; removal cancels those who have borrowed it, and waits for them.
 *
 * Thread contract: any thread. The registry's lock is an outer one: the locks of VMs are taken
 * while it is held, to see which are dead.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/registry/commands.h"
#include "daemon/registry/name.h"
#include "daemon/registry/screens.h"
#include "daemon/registry/touches.h"
#include "driver/driver.h"

enum sandbox_state { SANDBOX_CREATING, SANDBOX_RUNNING, SANDBOX_REMOVING };

/* The sandboxes that one standby request keeps ready; on the stack of its thread. */
struct standby {
	const char *key; /* the spec with all defaults, as text: equal keys mean equal sandboxes */
	int wake_fd;     /* eventfd: rung when a sandbox is taken or removed */
	unsigned taken;  /* how many were taken so far; under the registry's lock */
};

struct sandbox {
	/* fixed when it is made; the spec once it runs */
	char id[16];
	struct driver *driver;
	struct sandbox_spec *spec;
	/* fixed once the sandbox is no longer in standby */
	char name[NAME_SIZE]; /* "": it has none; the label "name" says the same */
	json_t *labels;       /* object of strings */
	int64_t created;      /* unix seconds */
	unsigned ram_mb;      /* the memory that admission has promised it */
	struct commands commands;
	struct touches touches;
	struct screens screens;

	/* under the registry's lock */
	enum sandbox_state state;
	uint64_t lease;          /* the session it belongs to; 0: detached */
	int owner_pid;           /* the client's process, to show to people */
	struct standby *standby; /* what keeps it ready; NULL: a client has it, or it is removed */
	struct driver_sandbox *driven;
	unsigned refs;
	bool seized; /* one borrower has it for itself: it is being restored */
	struct borrower *borrowers;
	struct op *maker; /* the operation that makes it; while CREATING */
	bool unwanted;    /* its maker was cancelled, because somebody removes the sandbox */
	int idle_fd;      /* eventfd: rung when the last borrower has gone */
	struct sandbox *next;
};

/* An operation that has borrowed a sandbox; on the stack of its thread. */
struct borrower {
	struct sandbox *sb;
	struct driver_sandbox *driven;
	struct op *op;
	bool sandbox_gone; /* op was cancelled because the sandbox is being removed */
	bool seized;       /* it has the sandbox for itself */
	bool restored;     /* op was cancelled because the sandbox went back to a snapshot */
	struct borrower *next;
};

struct registry;

/* Rung when a sandbox appears, changes or goes. */
struct bell *registry_changes(struct registry *r);
int registry_new(struct registry **ret, struct err *e);
void registry_free(struct registry *r); /* NULL is fine */

/* The parts that a new sandbox is made of. */
struct sandbox_new {
	struct driver *driver;
	struct sandbox_spec *spec;
	json_t *labels;
	const char *name; /* NULL: none */
	bool copy;        /* the name is that of the original, whose copy gets a number */
	uint64_t lease;
	int owner_pid;
	unsigned ram_mb;         /* the memory that admission has promised */
	struct standby *standby; /* what keeps it ready; NULL: it is for the client who asks */
	struct op *maker;
	struct touches *touches; /* of what it is a copy of; NULL: it is new */
};
/* Takes spec and labels, unless it fails: the name may be in use. The sandbox is CREATING, and has
 * one reference for the caller. */
int registry_add(
	struct registry *r, const struct sandbox_new *req, struct sandbox **ret, struct err *e);
/* While it is CREATING: replaces the spec by what the sandbox turned out to be. Takes spec. */
void registry_set_spec(struct registry *r, struct sandbox *sb, struct sandbox_spec *spec);
/* From CREATING to RUNNING. ERR_CANCELLED: removal has begun meanwhile, and the caller must destroy
 * the driver's sandbox. */
int registry_running(struct registry *r, struct sandbox *sb, struct driver_sandbox *driven,
	bool detach, struct err *e);

/* Fails, and says which sandbox has it, if a name is in use. */
int registry_check_name(struct registry *r, const char *name, struct err *e);

/* Borrows a sandbox by its id, its name or a unique prefix of the id, of at least 4 characters.
 * Fails, and says why, unless it is running. Waits while another borrower has seized it. */
int registry_borrow(
	struct registry *r, const char *id, struct op *op, struct borrower *ret, struct err *e);
void registry_return(struct registry *r, struct borrower *b);
/* Cancels all other borrowers, waits for their end, and keeps new ones waiting until the return. */
int registry_seize(struct registry *r, struct borrower *b, struct err *e);
/* For a borrower's failure: if it was cancelled because the sandbox was removed or restored, lets e
 * say so. Returns -1. */
int registry_explain(struct registry *r, const struct borrower *b, struct err *e);
/* For a maker's failure: if it was cancelled because the sandbox was removed, lets e say so. */
int registry_explain_making(struct registry *r, const struct sandbox *sb, struct err *e);

int registry_detach(struct registry *r, const char *id, struct err *e);

/* A client that wants a sandbox, for which one in standby may do. */
struct sandbox_taker {
	const char *key;  /* of the spec that is wanted */
	json_t *labels;   /* the caller's; kept by reference */
	const char *name; /* NULL: none */
	uint64_t lease;
	int owner_pid;
	struct op *op;
};
/* Hands over a sandbox that is ready, borrowed; those that the client's own session keeps go first.
 * 1: taken; 0: there is none; -1: the name is in use. */
int registry_take_standby(
	struct registry *r, const struct sandbox_taker *by, struct borrower *ret, struct err *e);
struct standby_figures {
	unsigned ready, making, taken;
	unsigned dead; /* were ready, and have a VM that has ended since */
};
struct standby_figures registry_standby(struct registry *r, const struct standby *st);

/* Whether a VM of the sandbox is dead. */
bool sandbox_is_dead_locked(const struct sandbox *sb);
/* Whether a sandbox is to be removed. It is called with the registry's lock held: it may look at
 * the sandbox, not change it. */
typedef bool (*sandbox_filter)(const struct sandbox *sb, void *arg);
/*
 * Marks the first sandbox that fits as REMOVING and cancels its borrowers. Returns it with a
 * reference, and the driver's sandbox, which the registry no longer has; NULL when none is left.
 * The caller waits for the borrowers (registry_wait_idle), destroys the driver's sandbox and calls
 * registry_forget.
 */
struct sandbox *registry_start_removal(
	struct registry *r, sandbox_filter fits, void *arg, struct driver_sandbox **ret_sandbox);
/* Cancels the making of the sandboxes that fit, and returns their number. Their makers undo what
 * they have made. */
unsigned registry_cancel_making(struct registry *r, sandbox_filter fits, void *arg);
/* The number of sandboxes that fit and are being removed. */
unsigned registry_count_removing(struct registry *r, sandbox_filter fits, void *arg);
/* Waits until nobody has borrowed the sandbox. */
int registry_wait_idle(struct registry *r, struct sandbox *sb, const struct op *op, struct err *e);
/* Takes the sandbox out of the registry and drops the caller's reference. */
void registry_forget(struct registry *r, struct sandbox *sb);
/* Drops the reference that registry_add gave. */
void registry_unref(struct registry *r, struct sandbox *sb);

/* The memory that the VMs together may take from this host, in MB. */
unsigned spec_total_ram(const struct sandbox_spec *spec, const struct driver *driver);

/* The id of the sandbox that an id, a name or a prefix means. */
int registry_resolve(struct registry *r, const char *which, char ret_id[16], struct err *e);
bool registry_has(struct registry *r, const char *id);
unsigned registry_count(struct registry *r);
/* SANDBOX objects of the protocol: of one sandbox, or of all (id NULL). */
int registry_to_json(struct registry *r, const char *id, json_t **ret, struct err *e);
