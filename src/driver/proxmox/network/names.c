/*
 * Zone "moatXXnn", vnets "mXXnnkk": the server allows 8 characters. XX belongs to the installation,
 * nn is the lowest number that is free. Two installations may have the same XX, so all zones of the
 * server are looked at; and a zone that another one makes at this moment is found when ours is
 * made.
 */
#include "driver/proxmox/network/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/site/entry.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

enum { BASE = 36, NAMES_MAX = BASE * BASE };

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

struct names {
	char own[3]; /* XX */
	bool taken[NAMES_MAX];
};

static int value_of(char digit)
{
	const char *at = digit ? strchr(digits, digit) : NULL;

	return at ? (int)(at - digits) : -1;
}

static void note_zone(struct names *n, const char *zone)
{
	int high, low;

	if (!zone || strlen(zone) != 8 || !str_starts(zone, "moat") ||
		strncmp(zone + 4, n->own, 2) != 0)
		return;
	high = value_of(zone[6]);
	low = value_of(zone[7]);
	if (high >= 0 && low >= 0)
		n->taken[high * BASE + low] = true;
}

struct reading {
	const struct pve_site *site;
	json_t *zones;
};

static int note_entry(void *arg, const struct journal_entry *t, struct err *e)
{
	struct reading *r = arg;
	auto_json json_t *ref = NULL;
	const char *at, *name;

	(void)e;
	if (strcmp(t->driver, PVE_NAME) != 0 || strcmp(t->kind, "zone") != 0)
		return 0;
	ref = json_loads(t->ref, 0, NULL);
	at = json_string_value(json_object_get(ref, "at"));
	name = json_string_value(json_object_get(ref, "name"));
	if (at && name && strcmp(at, r->site->key) == 0)
		json_object_set_new(r->zones, name, json_true());
	return 0;
}

/* Notes the names in the journal, which is read once: for each sandbox it would take ever longer.
 */
static int note_journal(struct names *n, struct pve_site *site, struct journal *j, struct err *e)
{
	struct reading r = {.site = site};
	const char *name;
	json_t *ignored;

	if (!site->zones) {
		auto_json json_t *zones = r.zones = json_object();

		if (journal_each_entry(j, NULL, note_entry, &r, e) < 0)
			return -1;
		auto_unlock struct lock *held = lock_take(&site->mu);
		site->zones = take_ptr(&zones);
	}
	auto_unlock struct lock *held = lock_take(&site->mu);
	json_object_foreach(site->zones, name, ignored)
		note_zone(n, name);
	return 0;
}

void pve_names_give(struct pve_site *site, const char *zone)
{
	auto_unlock struct lock *held = lock_take(&site->mu);

	json_object_del(site->zones, zone);
}

/* What the server has: also a zone that is deleted and still runs, until that is applied. */
static int note_server(struct names *n, struct pve_api *api, const struct op *op, struct err *e)
{
	auto_json json_t *zones = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(api, op, "GET", json_pack("{s:i}", "pending", 1), 0, &zones, e,
		    "/cluster/sdn/zones") < 0)
		return -1;
	json_array_foreach(zones, i, one) {
		note_zone(n, json_string_value(json_object_get(one, "zone")));
	}
	return 0;
}

static void write_names(struct pve_sandbox *b, const struct names *n, unsigned number)
{
	char stem[5];

	snprintf(
		stem, sizeof(stem), "%s%c%c", n->own, digits[number / BASE], digits[number % BASE]);
	snprintf(b->zone, sizeof(b->zone), "moat%s", stem);
	for (size_t i = 0; i < b->n_vnets; i++)
		snprintf(b->vnets[i].id, sizeof(b->vnets[i].id), "m%s%c%c", stem,
			digits[i / BASE % BASE], digits[i % BASE]);
}

int pve_names_take(struct pve_sandbox *b, const struct op *op, struct err *e)
{
	unsigned long own = strtoul(b->d->install, NULL, 16) % NAMES_MAX;
	struct names n = {.own = {digits[own / BASE], digits[own % BASE]}};
	auto_turn struct turn *held = NULL;

	/* Nobody else chooses until our choice is in the journal. */
	if (turn_take(&b->site->naming, op, e) < 0)
		return -1;
	held = &b->site->naming;
	if (note_server(&n, b->api, op, e) < 0 ||
		note_journal(&n, b->site, b->d->env->journal, e) < 0)
		return -1;
	for (unsigned i = 0; i < NAMES_MAX; i++)
		if (!n.taken[i]) {
			write_names(b, &n, i);
			if (pve_entry_intent(b, "zone", b->zone, &b->zone_row, e) < 0)
				return -1;
			auto_unlock struct lock *mu = lock_take(&b->site->mu);
			json_object_set_new(b->site->zones, b->zone, json_true());
			return 0;
		}
	return err_set(e, ERR_BUSY, "%s has %d networks of moat, and there are no more names",
		b->site->key, NAMES_MAX);
}
