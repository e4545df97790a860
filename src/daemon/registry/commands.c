#include "daemon/registry/commands.h"

#include <stdlib.h>
#include <string.h>

#include "spec/spec.h"
#include "util/str.h"

void commands_init(struct commands *c)
{
	*c = (struct commands){0};
	lock_init(&c->mu, "commands.mu", LOCK_LEAF);
}

void commands_done(struct commands *c)
{
	free(c->of_vm);
	lock_done(&c->mu);
}

/* Puts the arguments side by side, as far as there is room. */
static void join(const char *const *argv, char *out, size_t size)
{
	size_t len = 0;

	out[0] = 0;
	for (; *argv && len + 1 < size; argv++) {
		if (len)
			out[len++] = ' ';
		str_escape(*argv, strlen(*argv), out + len, size - len);
		len += strlen(out + len);
	}
}

void commands_begin(struct commands *c, unsigned vm, const char *const *argv)
{
	struct last_command now = {0};

	join(argv, now.text, sizeof(now.text));
	auto_unlock struct lock *held = lock_take(&c->mu);
	if (!c->of_vm)
		c->of_vm = calloc(SPEC_VMS_MAX, sizeof(*c->of_vm));
	if (!c->of_vm)
		return; /* it is only there to be looked at */
	now.running = c->of_vm[vm].running + 1;
	c->of_vm[vm] = now;
}

void commands_end(struct commands *c, unsigned vm)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	if (c->of_vm && c->of_vm[vm].running)
		c->of_vm[vm].running--;
}

void commands_last(struct commands *c, unsigned vm, struct last_command *ret)
{
	auto_unlock struct lock *held = lock_take(&c->mu);

	*ret = c->of_vm ? c->of_vm[vm] : (struct last_command){0};
}
