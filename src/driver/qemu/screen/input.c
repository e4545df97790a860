/*
 * How it works: QEMU's keyboard and tablet have queues of 16 bytes or events, and drop silently
 * what does not fit. Nothing tells how full they are. So after each batch that fits we wait until
 * the guest is at rest: an emulated processor halts only when there is nothing left to do, and then
 * the guest has taken what was in the queue, and its programs have read it. A guest that is never
 * at rest gets time instead.
 */
#include "driver/qemu/screen/input.h"

#include "driver/qemu/screen/screenshot.h"
#include "driver/usage.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"

enum {
	BATCH_BYTES = 15, /* of a PS/2 keyboard's 16 */
	/* Milliseconds. Firmware looks at the keyboard 50 times a second, and halts between. */
	KEYS_MIN = 20,
	KEYS_MAX = 120,
	POINTER_MIN = 8,
	POINTER_MAX = 120,
	/* When it looks again whether the guest is at rest. */
	LOOK_MS = 4,
	POINTER_LOOK_MS = 100,
};
#define POINTER_SECONDS 15.0 /* how long a guest may take to start its tablet */

struct typing {
	struct qemu_vm *vm;
	int pid; /* of its QEMU, or a process above it */
	const struct op *op;
	json_t *batch; /* events of keys that were not sent yet; NULL: none */
	unsigned bytes;
	bool pointer_is_there;
};

/* Waits until the guest has dealt with what it was sent. */
static int let_rest(const struct typing *t, int min_ms, int max_ms, struct err *e)
{
	int64_t until = now_ns() + max_ms * 1000000LL;

	if (op_pause(t->op, min_ms / 1000.0, e) < 0)
		return -1;
	while (now_ns() < until && usage_tree_runs(t->pid))
		if (op_pause(t->op, LOOK_MS / 1000.0, e) < 0)
			return -1;
	return 0;
}

/* Sends events in one call, at whose end QEMU tells the devices that they are complete. */
static int send_events(const struct typing *t, json_t *events, struct err *e)
{
	json_t *args = json_pack("{s:o}", "events", events);

	if (!args)
		return err_oom(e);
	return qmp_call(t->vm->qmp, t->op, "input-send-event", args, -1, NULL, e);
}

static int flush_keys(struct typing *t, struct err *e)
{
	json_t *batch = t->batch;

	t->batch = NULL;
	t->bytes = 0;
	if (!batch)
		return 0;
	if (send_events(t, batch, e) < 0)
		return -1;
	return let_rest(t, KEYS_MIN, KEYS_MAX, e);
}

static int add_key(struct typing *t, const struct step *s, struct err *e)
{
	unsigned bytes = s->down ? s->key->down : s->key->up;
	json_t *event;

	if (t->bytes + bytes > BATCH_BYTES && flush_keys(t, e) < 0)
		return -1;
	event = json_pack("{s:s, s:{s:b, s:{s:s, s:s}}}", "type", "key", "data", "down", s->down,
		"key", "type", "qcode", "data", s->key->qcode);
	if (!t->batch)
		t->batch = json_array();
	if (!t->batch || json_array_append_new(t->batch, event) < 0)
		return err_oom(e);
	t->bytes += bytes;
	return 0;
}

/* ---- the pointer ---- */

/* 1: an absolute pointer is what the guest listens to; 0: it may become so. */
static int look_for_pointer(const struct typing *t, struct err *e)
{
	auto_json json_t *mice = NULL;
	bool any = false;
	json_t *mouse;
	size_t i;

	if (qmp_call(t->vm->qmp, t->op, "query-mice", NULL, -1, &mice, e) < 0)
		return -1;
	json_array_foreach(mice, i, mouse) {
		bool absolute = json_is_true(json_object_get(mouse, "absolute"));

		if (absolute && json_is_true(json_object_get(mouse, "current")))
			return 1;
		any = any || absolute;
	}
	if (!any)
		return err_set(e, ERR_UNSUPPORTED,
			"VM %s has no pointer that can be put somewhere: set `tablet: true` in its "
			"spec",
			t->vm->spec->name);
	return 0;
}

static int need_pointer(struct typing *t, struct err *e)
{
	struct op soon = op_within(t->op, POINTER_SECONDS);
	int found;

	if (t->pointer_is_there)
		return 0;
	while ((found = look_for_pointer(t, e)) == 0)
		if (op_pause(&soon, POINTER_LOOK_MS / 1000.0, e) < 0) {
			if (e->kind != ERR_TIMEOUT || op_check(t->op, e) < 0)
				return -1;
			return err_set(e, ERR_UNSUPPORTED,
				"the guest of VM %s has not started its tablet: it is booting, "
				"stands in its firmware, or has no driver for it",
				t->vm->spec->name);
		}
	t->pointer_is_there = found > 0;
	return found > 0 ? 0 : -1;
}

static int move(struct typing *t, const struct step *s, struct err *e)
{
	unsigned x = s->x < POSITION_ONE ? s->x : POSITION_ONE - 1;
	unsigned y = s->y < POSITION_ONE ? s->y : POSITION_ONE - 1;

	if (send_events(t,
		    json_pack("[{s:s, s:{s:s, s:i}}, {s:s, s:{s:s, s:i}}]", "type", "abs", "data",
			    "axis", "x", "value", (int)x, "type", "abs", "data", "axis", "y",
			    "value", (int)y),
		    e) < 0)
		return -1;
	return let_rest(t, POINTER_MIN, POINTER_MAX, e);
}

static json_t *button_event(const char *name, bool down)
{
	return json_pack(
		"{s:s, s:{s:s, s:b}}", "type", "btn", "data", "button", name, "down", down);
}

/* Down and up are never in one call: the tablet would tell the guest of neither. */
static int press(struct typing *t, const struct step *s, struct err *e)
{
	static const char *const names[SCREEN_BUTTONS] = {"left", "middle", "right"};

	if (send_events(t, json_pack("[o]", button_event(names[s->button], s->down)), e) < 0)
		return -1;
	return op_pause(t->op, POINTER_MIN / 1000.0, e);
}

/* The wheel counts when it goes down; going up only ends that. */
static int turn_wheel(struct typing *t, const struct step *s, struct err *e)
{
	const char *name = s->down ? "wheel-down" : "wheel-up";

	if (send_events(t, json_pack("[o, o]", button_event(name, true), button_event(name, false)),
		    e) < 0)
		return -1;
	return let_rest(t, POINTER_MIN, POINTER_MAX, e);
}

static int do_step(struct typing *t, const struct step *s, struct err *e)
{
	if (s->kind == STEP_KEY)
		return add_key(t, s, e);
	if (flush_keys(t, e) < 0)
		return -1;
	if (s->kind == STEP_PAUSE)
		return op_pause(t->op, s->ms / 1000.0, e);
	/* To let a button go takes no tablet: for want of one it may be let go. */
	if ((s->kind != STEP_BUTTON || s->down) && need_pointer(t, e) < 0)
		return -1;
	if (s->kind == STEP_MOVE)
		return move(t, s, e);
	return s->kind == STEP_BUTTON ? press(t, s, e) : turn_wheel(t, s, e);
}

int qemu_input(
	struct qemu_vm *vm, const struct op *op, const struct step *steps, size_t n, struct err *e)
{
	struct typing t = {.vm = vm, .op = op};
	int rc = 0;

	if (qemu_need_display(vm, e) < 0 || qemu_vm_alive(vm, e) < 0)
		return -1;
	{
		auto_unlock struct lock *held = lock_take(&vm->mu);
		t.pid = (int)vm->proc.pid;
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = do_step(&t, &steps[i], e);
	if (rc == 0)
		rc = flush_keys(&t, e);
	if (rc == 0 && n > 0)
		rc = let_rest(&t, POINTER_MIN, POINTER_MAX, e);
	json_decref(t.batch);
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}
