#include "driver/proxmox/site/entry.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"

int pve_entry_intent(
	struct pve_sandbox *b, const char *kind, const char *name, int64_t *ret_row, struct err *e)
{
	auto_json json_t *ref = NULL;
	auto_free char *text = NULL;
	struct journal_entry t = {.sandbox = b->id, .driver = PVE_NAME, .kind = kind};

	if (json_make(&ref, e, "{s:s, s:s, s:s, s:s}", "at", b->site->key, "node", b->inst->node,
		    "stamp", b->stamp, "name", name) < 0 ||
		json_to_str(ref, &text, e) < 0)
		return -1;
	t.ref = text;
	return journal_intent(b->d->env->journal, &t, ret_row, e);
}

bool pve_entry_is_vm(const struct journal_entry *t)
{
	return strcmp(t->kind, "vm") == 0 || strcmp(t->kind, "template") == 0;
}

bool pve_stamp_find(const struct pve_driver *d, const char *text, char ret_id[32])
{
	char begin[32];
	size_t n = 0;

	snprintf(begin, sizeof(begin), "moat-%s-", d->install);
	text = text ? strstr(text, begin) : NULL;
	if (!text)
		return false;
	for (text += strlen(begin); n < 31 && isxdigit((unsigned char)text[n]); n++)
		ret_id[n] = text[n];
	ret_id[n] = '\0';
	return n > 0;
}
