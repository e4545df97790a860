#include "driver/proxmox/cleanup/rows.h"

#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/state.h"

struct reading {
	struct pve_rows *rows;
	bool vms;
};

static int keep_row(void *arg, const struct journal_entry *t, struct err *e)
{
	struct reading *reading = arg;
	struct pve_rows *r = reading->rows;
	struct journal_entry *more, *at;

	if (strcmp(t->driver, PVE_NAME) != 0 || pve_entry_is_vm(t) != reading->vms)
		return 0;
	more = reallocarray(r->v, r->n + 1, sizeof(*more));
	if (!more)
		return err_oom(e);
	r->v = more;
	at = &r->v[r->n++];
	*at = *t;
	at->driver = PVE_NAME;
	at->sandbox = strdup(t->sandbox);
	at->kind = strdup(t->kind);
	at->ref = strdup(t->ref);
	at->state = strdup(t->state);
	return at->sandbox && at->kind && at->ref && at->state ? 0 : err_oom(e);
}

int pve_rows_read(
	struct journal *j, const char *sandbox, bool vms, struct pve_rows *ret, struct err *e)
{
	struct reading r = {.rows = ret, .vms = vms};

	return journal_each_entry(j, sandbox, keep_row, &r, e);
}

void pve_rows_free(struct pve_rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free((char *)r->v[i].sandbox);
		free((char *)r->v[i].kind);
		free((char *)r->v[i].ref);
		free((char *)r->v[i].state);
	}
	free(r->v);
	*r = (struct pve_rows){0};
}
