/* fuzz-runner.c - what the runner reads: frames from the host, and the guest's own user database.
 * The first byte chooses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "moat-guest/identity/identity.h"
#include "moat-guest/common/uplink.h"
#include "moat-guest/command/prepare.h"
#include "moat-guest/common/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_exec(const struct wire_msg *m, const struct frame *f)
{
	struct user u = {.home = "/", .shell = "/bin/sh", .name = "bob"};
	struct prepared p;
	struct command *c;
	const char *at;

	if (prepare_parse(m, f, &p) != 0)
		return;
	c = malloc(prepare_size(&p)); /* not a byte more: the sanitizer would tell */
	if (!c)
		return;
	c->user = u;
	prepare_fill(&p, m->flags & WIRE_EXEC_PTY, c);
	at = c->strings;
	for (uint32_t i = 0; i < 1 + c->argc + c->envc; i++)
		at += strlen(at) + 1;
	if (c->argc != m->count || at != c->strings + c->len || strcmp(c->strings, p.cwd) != 0)
		abort();
	free(c);
}

static void try_identity(const struct wire_msg *m, const struct frame *f)
{
	struct identity id;

	if (identity_parse(m, f, &id) &&
		(id.n_nics > WIRE_NICS_MAX || id.n_random > WIRE_RANDOM_MAX ||
			strlen(id.hostname) > 64 || strpbrk(id.hostname, "/ \n")))
		abort();
}

/* The loop ends: every step consumes bytes, or too few are left. */
static void try_line(const uint8_t *p, size_t len, bool synced)
{
	struct uplink l = {.in = -1, .out = -1, .synced = synced};
	struct wire_msg m;
	struct frame f;

	if (!len)
		return;
	l.rx = (struct uplink_bytes){.p = malloc(len), .len = len, .cap = len};
	memcpy(l.rx.p, p, len);
	for (enum uplink_found found; (found = uplink_next(&l, &m, &f)) != UPLINK_MORE;) {
		if (found == UPLINK_LOST && l.synced)
			abort();
		if (found == UPLINK_FRAME && m.type == WIRE_EXEC)
			try_exec(&m, &f);
		if (found == UPLINK_FRAME && m.type == WIRE_IDENTITY)
			try_identity(&m, &f);
	}
	uplink_close(&l);
}

static void try_users(const uint8_t *p, size_t len)
{
	struct user_text text = {(const char *)p, len};
	struct user u = {.name = "bob"};

	passwd_find(text, "bob", 0, &u);
	passwd_find(text, NULL, 1000, &u);
	group_exists(text, 1000);
	group_gather(text, &u);
	if (u.n_groups > USER_GROUPS_MAX || strlen(u.home) >= sizeof(u.home))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 3) {
	case 0:
		try_users(data + 1, size - 1);
		break;
	default:
		try_line(data + 1, size - 1, data[0] % 3 == 1);
	}
	return 0;
}
