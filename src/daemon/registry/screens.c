#include "daemon/registry/screens.h"

#include <stdlib.h>

void screens_init(struct screens *s)
{
	*s = (struct screens){0};
	lock_init(&s->mu, "screens.mu", LOCK_LEAF);
}

void screens_done(struct screens *s)
{
	for (unsigned i = 0; i < s->n; i++)
		turn_done(&s->of_vm[i].turn);
	free(s->of_vm);
	lock_done(&s->mu);
}

int screens_find(struct screens *s, unsigned n_vms, unsigned vm, struct screen **ret, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	if (!s->of_vm) {
		s->of_vm = calloc(n_vms, sizeof(*s->of_vm));
		if (!s->of_vm)
			return err_oom(e);
		for (; s->n < n_vms; s->n++)
			turn_init(&s->of_vm[s->n].turn);
	}
	*ret = &s->of_vm[vm];
	return 0;
}

struct canvas screens_canvas(struct screens *s, const struct screen *screen)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return screen->canvas;
}

void screens_set_canvas(struct screens *s, struct screen *screen, struct canvas canvas)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	screen->canvas = canvas;
}

struct pointer screens_pointer(struct screens *s, const struct screen *screen)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return screen->pointer;
}

void screens_set_pointer(struct screens *s, struct screen *screen, struct pointer pointer)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	screen->pointer = pointer;
}

void screens_forget_pointers(struct screens *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	for (unsigned i = 0; i < s->n; i++)
		s->of_vm[i].pointer.known = false;
}

int screens_enter(struct screens *s, struct screen *screen, bool control, struct err *e)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	if (screen->viewers == VIEWERS_MAX)
		return err_set(e, ERR_BUSY, "%d viewers look at this screen already", VIEWERS_MAX);
	screen->viewers++;
	screen->controllers += control;
	return 0;
}

void screens_leave(struct screens *s, struct screen *screen, bool control)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	screen->viewers--;
	screen->controllers -= control;
	if (control)
		screen->pointer.known = false; /* it is where the viewer left it */
}

json_t *screens_to_json(struct screens *s, unsigned vm)
{
	auto_unlock struct lock *held = lock_take(&s->mu);
	const struct screen *screen = s->of_vm ? &s->of_vm[vm] : NULL;

	if (!screen || !screen->viewers)
		return NULL;
	return json_pack("{s:i, s:i}", "viewers", (int)screen->viewers, "controllers",
		(int)screen->controllers);
}
