#include "driver/proxmox/site/site.h"

#include <stdlib.h>
#include <string.h>

#include "util/str.h"
#include "util/thread/lock.h"

void pve_site_free(struct pve_site *s)
{
	if (!s)
		return;
	pve_api_free(s->api);
	for (unsigned i = 0; i < s->n_old; i++)
		pve_api_free(s->old_apis[i]);
	while (s->ranges) {
		struct pve_range *r = s->ranges;

		s->ranges = r->next;
		free(r);
	}
	json_decref(s->access);
	json_decref(s->cache);
	json_decref(s->zones);
	turn_done(&s->applying);
	slots_done(&s->starting);
	bell_done(&s->sdn_bell);
	turn_done(&s->naming);
	turn_done(&s->building);
	lock_done(&s->mu);
	free(s->key);
	free(s->base_url);
	free(s);
}

int pve_site_new(const char *key, const char *host, int port, struct pve_site **ret, struct err *e)
{
	struct pve_site *s = calloc(1, sizeof(*s));
	bool v6 = strchr(host, ':') && host[0] != '[';

	if (!s)
		return err_oom(e);
	lock_init(&s->mu, "pve_site.mu", LOCK_LEAF);
	s->cache = json_object();
	turn_init(&s->applying);
	slots_init(&s->starting);
	bell_init(&s->sdn_bell);
	turn_init(&s->naming);
	turn_init(&s->building);
	if (str_dup(key, &s->key, e) < 0 ||
		str_printf(&s->base_url, e, v6 ? "https://[%s]:%d" : "https://%s:%d", host, port) <
			0) {
		pve_site_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void pve_inst_free(struct pve_inst *i)
{
	free(i->id);
	free(i->pool);
	free(i->node);
	free(i->image_storage);
	free(i->iso_storage);
	free(i->import_storage);
	free(i->tags);
	free(i);
}

void pve_site_hurry(struct pve_site *s)
{
	/* The caller holds pve_driver.mu, under which logins change. */
	for (unsigned i = 0; i < s->n_old; i++)
		pve_api_hurry(s->old_apis[i]);
	pve_api_hurry(pve_site_api(s));
}

void pve_site_enter(struct pve_site *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	s->sandboxes++;
}

void pve_site_leave(struct pve_site *s)
{
	{
		auto_unlock struct lock *held = lock_take(&s->mu);
		s->sandboxes--;
	}
	bell_ring(&s->sdn_bell);
}

struct pve_api *pve_site_api(struct pve_site *s)
{
	auto_unlock struct lock *held = lock_take(&s->mu);

	return s->api;
}
