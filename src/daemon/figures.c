#include "daemon/figures.h"

#include <string.h>

#include "util/auto.h"
#include "util/json.h"

/* Younger figures do for another who asks. */
#define FRESH_NS (800LL * 1000 * 1000)
/* How long a sandbox may keep us waiting: one that is being restored is left out, and so are the
 * figures that a stuck process does not tell. */
#define BORROW_SECONDS 0.05
#define LOOK_SECONDS   1.0

void figures_init(struct figures *f)
{
	*f = (struct figures){0};
	turn_init(&f->turn);
}

void figures_done(struct figures *f)
{
	json_decref(f->last);
	turn_done(&f->turn);
}

static json_t *number_or_null(int64_t n)
{
	return n < 0 ? json_null() : json_integer(n);
}

static int add_vm(struct borrower *b, unsigned vm, const struct op *op, json_t *list, struct err *e)
{
	const struct driver_ops *ops = b->sb->driver->ops;
	struct vm_figures f = {.cpu_us = -1, .memory = -1, .sent = -1, .received = -1};
	struct last_command command;
	json_t *one = NULL;

	if (ops->figures)
		ops->figures(b->driven, op, vm, &f);
	commands_last(&b->sb->commands, vm, &command);
	if (json_make(&one, e, "{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:i}", "sandbox",
		    b->sb->id, "vm", b->sb->spec->vms[vm].name, "at_us",
		    (json_int_t)(now_ns() / 1000), "cpu_us", number_or_null(f.cpu_us), "memory",
		    number_or_null(f.memory), "sent", number_or_null(f.sent), "received",
		    number_or_null(f.received), "command",
		    command.text[0] ? json_text(command.text) : json_null(), "running",
		    (int)command.running) < 0)
		return -1;
	return json_array_append_new(list, one) < 0 ? err_oom(e) : 0;
}

/* A sandbox that cannot be borrowed is being made, removed or restored, or waits in standby: its
 * VMs have no figures now. */
static int add_sandbox(
	struct registry *reg, const char *id, const struct op *op, json_t *list, struct err *e)
{
	struct borrower b;
	struct op own;
	int rc = 0;

	/* An operation of our own: the removal of a sandbox cancels those who have borrowed it. */
	if (op_init(&own, op->id, BORROW_SECONDS, e) < 0)
		return -1;
	if (registry_borrow(reg, id, &own, &b, e) == 0) {
		own.deadline_ns = op_within(op, LOOK_SECONDS).deadline_ns;
		for (unsigned i = 0; rc == 0 && i < b.sb->spec->n_vms; i++)
			rc = add_vm(&b, i, &own, list, e);
		registry_return(reg, &b);
	}
	op_done(&own);
	return rc;
}

static int look(struct daemon *d, const struct op *op, json_t **ret, struct err *e)
{
	auto_json json_t *all = NULL, *list = json_array();
	json_t *sb;
	size_t i;

	if (!list)
		return err_oom(e);
	if (registry_to_json(d->registry, NULL, &all, e) < 0)
		return -1;
	json_array_foreach(all, i, sb) {
		const char *state = json_string_value(json_object_get(sb, "state"));
		const char *id = json_string_value(json_object_get(sb, "id"));

		if (op_check(op, e) < 0)
			return -1;
		if (state && id && strcmp(state, "running") == 0 &&
			add_sandbox(d->registry, id, op, list, e) < 0)
			return -1;
	}
	*ret = json_incref(list);
	return 0;
}

int figures_take(struct daemon *d, const struct op *op, json_t **ret, struct err *e)
{
	struct figures *f = &d->figures;
	auto_turn struct turn *held = NULL;
	json_t *fresh = NULL;

	if (turn_take(&f->turn, op, e) < 0)
		return -1;
	held = &f->turn;
	if (!f->last || now_ns() - f->at_ns > FRESH_NS) {
		if (look(d, op, &fresh, e) < 0)
			return -1;
		json_decref(f->last);
		f->last = fresh;
		f->at_ns = now_ns();
	}
	*ret = json_deep_copy(f->last);
	return *ret ? 0 : err_oom(e);
}
