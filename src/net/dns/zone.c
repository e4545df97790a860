#include "net/dns/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/plan/special-addresses.h"
#include "net/plan/plan.h"
#include "util/auto.h"
#include "util/json.h"

static int load_names(struct zone *z, const json_t *names, struct err *e)
{
	const char *name;
	json_t *addr;

	z->names = calloc(json_object_size(names) + 1, sizeof(*z->names));
	if (!z->names)
		return err_oom(e);
	json_object_foreach((json_t *)names, name, addr) {
		struct zone_name *n = &z->names[z->n_names];

		n->name = name;
		if (ipv4_parse(json_string_value(addr), &n->addr, e) < 0)
			return -1;
		z->n_names++;
	}
	return 0;
}

static int load_policy(struct zone *z, const json_t *domains, const json_t *cidrs, struct err *e)
{
	const json_t *one;
	size_t i;

	z->domains = calloc(json_array_size(domains) + 1, sizeof(*z->domains));
	z->cidrs = calloc(json_array_size(cidrs) + 1, sizeof(*z->cidrs));
	if (!z->domains || !z->cidrs)
		return err_oom(e);
	json_array_foreach(domains, i, one)
		z->domains[z->n_domains++] = json_string_value(one);
	json_array_foreach(cidrs, i, one) {
		if (ipv4_net_parse(json_string_value(one), &z->cidrs[z->n_cidrs], e) < 0)
			return -1;
		z->n_cidrs++;
	}
	return 0;
}

int zone_load(struct zone *z, const json_t *j, struct err *e)
{
	json_t *names, *domains, *cidrs, *listen;
	int has_egress, open;

	if (json_get((json_t *)j, "dns", e, "{s:s, s?s, s:b, s:b, s:o, s:o, s:o, s:o}", "vnet",
		    &z->vnet, "set", &z->set, "has_egress", &has_egress, "open", &open, "names",
		    &names, "domains", &domains, "cidrs", &cidrs, "listen", &listen) < 0)
		return -1;
	z->has_egress = has_egress;
	z->open = open;
	return load_names(z, names, e) < 0 ? -1 : load_policy(z, domains, cidrs, e);
}

void zone_free(struct zone *z)
{
	free(z->names);
	free(z->domains);
	free(z->cidrs);
}

int zones_load(const json_t *list, struct zone **ret, unsigned *ret_n, struct err *e)
{
	struct zone *zones = calloc(json_array_size(list) + 1, sizeof(*zones));
	const json_t *one;
	size_t i;

	if (!zones)
		return err_oom(e);
	json_array_foreach(list, i, one)
		if (zone_load(&zones[i], one, e) < 0)
			return -1;
	*ret = zones;
	*ret_n = (unsigned)json_array_size(list);
	return 0;
}

/* "victim" and "victim.internal" are names of the same VM. */
static bool is_local_name(const char *asked, const char *name)
{
	size_t n = strlen(name);

	return strncasecmp(asked, name, n) == 0 &&
	       (!asked[n] || strcmp(asked + n, "." NET_DOMAIN) == 0);
}

static const struct zone_name *find_name(const struct zone *z, const char *asked)
{
	for (size_t i = 0; i < z->n_names; i++)
		if (is_local_name(asked, z->names[i].name))
			return &z->names[i];
	return NULL;
}

static const struct zone_name *find_addr(const struct zone *z, uint32_t addr)
{
	for (size_t i = 0; i < z->n_names; i++)
		if (z->names[i].addr == addr)
			return &z->names[i];
	return NULL;
}

/* Names that only moat could answer: names without a dot, and names below our own domain. */
static bool is_ours_alone(const char *name)
{
	return !strchr(name, '.') || dns_name_matches(name, "*." NET_DOMAIN) ||
	       dns_name_matches(name, "*.local") || dns_name_matches(name, "*.localhost");
}

static bool is_allowed(const struct zone *z, const char *name)
{
	if (!dns_is_host_name(name))
		return false;
	if (z->open)
		return true;
	for (size_t i = 0; i < z->n_domains; i++)
		if (dns_name_matches(name, z->domains[i]))
			return true;
	return false;
}

/* Types that ordinary programs ask for. AAAA is missing since no IPv6 leaves a vnet. */
static bool is_ordinary(uint16_t type)
{
	static const uint16_t types[] = {DNS_A, DNS_NS, DNS_CNAME, DNS_SOA, DNS_PTR, DNS_MX,
		DNS_TXT, DNS_SRV, DNS_SVCB, DNS_HTTPS, DNS_CAA};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (types[i] == type)
			return true;
	return false;
}

int zone_answer(struct zone *z, const struct dns_question *q, enum zone_verdict *ret_verdict,
	struct buf *ret, struct err *e)
{
	const struct zone_name *n = find_name(z, q->name);
	char full[DNS_NAME_MAX];
	uint32_t addr;

	*ret_verdict = ZONE_ANSWERED;
	if (n)
		return dns_make_answer(q, DNS_OK,
			q->type == DNS_A || q->type == DNS_ANY ? n->addr : 0, NULL, ret, e);
	if (q->type == DNS_PTR && dns_reverse_name(q->name, &addr) &&
		(n = find_addr(z, addr)) != NULL) {
		snprintf(full, sizeof(full), "%.200s." NET_DOMAIN, n->name);
		return dns_make_answer(q, DNS_OK, 0, full, ret, e);
	}
	if (is_ours_alone(q->name))
		return dns_make_answer(q, DNS_NXDOMAIN, 0, NULL, ret, e);
	if (!z->has_egress || !is_allowed(z, q->name)) {
		refusals_add(z->refusals, q->name, REFUSED_NAME);
		return dns_make_answer(q, DNS_REFUSED, 0, NULL, ret, e);
	}
	/* An empty answer, for other types and for AAAA, is what resolvers understand best: after
	 * an error they would ask again, or find fault with the server. */
	if (!is_ordinary(q->type)) {
		if (q->type != DNS_AAAA)
			refusals_add(z->refusals, q->name, REFUSED_TYPE);
		return dns_make_answer(q, DNS_OK, 0, NULL, ret, e);
	}
	*ret_verdict = ZONE_ASK_UPSTREAM;
	return 0;
}

bool zone_is_open(const struct zone *z, uint32_t addr, int64_t until)
{
	for (unsigned i = 0; i < ZONE_OPEN_MAX; i++)
		if (z->opened[i].addr == addr && z->opened[i].until >= until)
			return true;
	return false;
}

void zone_opened(struct zone *z, uint32_t addr, int64_t until)
{
	z->opened[z->next_opened] = (struct zone_open){addr, until};
	z->next_opened = (z->next_opened + 1) % ZONE_OPEN_MAX;
}

bool zone_accepts(const struct zone *z, const uint32_t *addrs, unsigned n,
	bool (*is_host)(void *arg, uint32_t addr), void *arg)
{
	for (unsigned i = 0; i < n; i++) {
		bool named = false;

		if (net_is_forbidden(addrs[i]) || is_host(arg, addrs[i]))
			return false;
		for (size_t k = 0; k < z->n_cidrs; k++)
			named |= net_is_private(z->cidrs[k]) && ipv4_net_has(z->cidrs[k], addrs[i]);
		if (!named && net_is_private((struct ipv4_net){addrs[i], 32}))
			return false;
	}
	return true;
}
