/*
 * Whoever has the turn `applying` makes the apply, for all that have asked for one by then. Starts
 * of VMs take the turn only for the moment of getting a slot, so that they wait for an apply that
 * runs or is about to run, and an apply waits for them; nobody overtakes.
 */
#include "driver/proxmox/network/apply.h"

#include <limits.h>

#include "driver/proxmox/api/task.h"

#define GATHER_SECONDS 1.0 /* for changes that are being made */
#define LATER_SECONDS  2.0 /* for an apply of others */
#define STARTS_SECONDS                                                                             \
	10.0 /* for VMs that are starting; one that takes longer is started again                  \
	      */

static unsigned changing(struct pve_site *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return s->sdn_changing;
}

void pve_change_begin(struct pve_change *c, struct pve_site *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	c->site = s;
	s->sdn_changing++;
}

void pve_change_end(struct pve_change *c)
{
	if (!c->site)
		return;
	{
		auto_unlock struct lock *held = lock_take(&c->site->mu);
		c->site->sdn_changing--;
	}
	bell_ring(&c->site->sdn_bell);
	c->site = NULL;
}

uint64_t pve_apply_want(struct pve_site *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return ++s->sdn_wanted;
}

static bool is_applied(struct pve_site *s, uint64_t number, uint64_t *ret_all)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	*ret_all = s->sdn_wanted;
	return s->sdn_applied >= number;
}

static bool is_calm(struct pve_site *s, uint64_t number)
{
	(void)number;
	return changing(s) == 0;
}

/* Waits until the condition is met, or as long as that pays; -1 only if op has ended. */
static int wait_for(struct pve_site *s, const struct op *op, double seconds,
	bool (*met)(struct pve_site *s, uint64_t number), uint64_t number, struct err *e)
{
	struct op part = op_within(op, seconds);
	struct bell_listener ear;
	int rc = 0;

	if (bell_listen(&s->sdn_bell, &ear, e) < 0)
		return -1;
	while (rc == 0 && !met(s, number)) {
		rc = op_wait_fd(&part, ear.fd, POLLIN, e);
		bell_heard(&ear);
	}
	bell_leave(&s->sdn_bell, &ear);
	return rc < 0 ? op_check(op, e) : 0;
}

/* No VM is starting any more when this returns, if they are quick enough. */
static int wait_for_starts(struct pve_site *s, const struct op *op, bool *ret_held, struct err *e)
{
	struct op part = op_within(op, STARTS_SECONDS);

	*ret_held = slots_take(&s->starting, &part, 1, e) == 0;
	return *ret_held ? 0 : op_check(op, e);
}

static int apply_all(struct pve_site *s, const struct op *op, struct err *e)
{
	uint64_t all;

	is_applied(s, 0, &all);
	if (pve_run(pve_site_api(s), op, "PUT", NULL, PVE_STUBBORN | PVE_PATIENT, e,
		    "/cluster/sdn") < 0)
		return err_wrap(e, "applying the network changes");
	{
		auto_unlock struct lock *mu = lock_take(&s->mu);
		if (s->sdn_applied < all)
			s->sdn_applied = all;
	}
	bell_ring(&s->sdn_bell);
	return 0;
}

int pve_apply_in_turn(struct pve_site *s, const struct op *op, uint64_t number, struct err *e)
{
	uint64_t all;
	bool alone;
	int rc;

	/* Another thread, which had the turn before, may have applied our changes too. */
	if (is_applied(s, number, &all))
		return 0;
	if (wait_for(s, op, GATHER_SECONDS, is_calm, 0, e) < 0 ||
		wait_for_starts(s, op, &alone, e) < 0)
		return -1;
	rc = apply_all(s, op, e);
	if (alone)
		slots_give(&s->starting);
	return rc;
}

int pve_apply(struct pve_site *s, const struct op *op, uint64_t number, struct err *e)
{
	auto_turn struct turn *held = NULL;

	if (turn_take_saying(&s->applying, op, "networks to be applied", e) < 0)
		return -1;
	held = &s->applying;
	return pve_apply_in_turn(s, op, number, e);
}

/* Others have applied our changes, or there is nobody left who could. */
static bool is_settled(struct pve_site *s, uint64_t number)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return s->sdn_applied >= number || s->sandboxes == 0;
}

int pve_apply_later(struct pve_site *s, const struct op *op, uint64_t number, struct err *e)
{
	if (wait_for(s, op, LATER_SECONDS, is_settled, number, e) < 0)
		return -1;
	return pve_apply(s, op, number, e);
}

/* ---- starts ---- */

int pve_start_enter(struct pve_site *s, const struct op *op, struct err *e)
{
	auto_turn struct turn *held = NULL;

	if (turn_take_saying(&s->applying, op, "networks to be applied", e) < 0)
		return -1;
	held = &s->applying;
	return slots_take(&s->starting, op, UINT_MAX, e);
}

void pve_start_leave(struct pve_site *s)
{
	slots_give(&s->starting);
}
