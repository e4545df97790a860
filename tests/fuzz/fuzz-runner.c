/* What the runner reads: frames from the host, and the guest's own user database. The first byte
 * chooses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runner/identity.h"
#include "runner/line.h"
#include "runner/prepare.h"
#include "runner/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_exec(const struct wire_msg *m, const struct frame *f)
{
	struct user u = {.home = "/", .shell = "/bin/sh", .name = "bob"};
	struct prepared p;
	struct job *job;
	size_t length = 0;

	if (prepare_parse(m, f, &p) != 0)
		return;
	job = malloc(prepare_size(&p)); /* not a byte more: the sanitizer would tell */
	if (!job)
		return;
	job->user = u;
	prepare_fill(&p, m->flags & WIRE_EXEC_PTY, job);
	for (uint32_t i = 0; i < m->count; i++)
		length += strlen(job->argv[i]) + 1;
	for (char **s = job->env; *s; s++)
		length += strlen(*s) + 1;
	if (job->argv[m->count] || length != job->strings || strcmp(job->cwd, p.cwd) != 0)
		abort();
	free(job);
}

static void try_identity(const struct wire_msg *m, const struct frame *f)
{
	struct identity id;

	if (identity_parse(m, f, &id) &&
		(id.n_cards > WIRE_CARDS_MAX || id.n_random > WIRE_RANDOM_MAX ||
			strlen(id.hostname) > 64 || strpbrk(id.hostname, "/ \n")))
		abort();
}

/* Ends: every step takes bytes off, or there are too few. */
static void try_line(const uint8_t *p, size_t len, bool synced)
{
	struct line l = {.in = -1, .out = -1, .synced = synced};
	struct wire_msg m;
	struct frame f;

	if (!len)
		return;
	l.rx = (struct line_bytes){.p = malloc(len), .len = len, .cap = len};
	memcpy(l.rx.p, p, len);
	for (enum line_found found; (found = line_next(&l, &m, &f)) != LINE_MORE;) {
		if (found == LINE_LOST && l.synced)
			abort();
		if (found == LINE_FRAME && m.type == WIRE_EXEC)
			try_exec(&m, &f);
		if (found == LINE_FRAME && m.type == WIRE_IDENTITY)
			try_identity(&m, &f);
	}
	line_close(&l);
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
