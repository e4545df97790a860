#include "net/plan/switch-rules.h"

#define MAC(m) mac_text(m, (char[MAC_TEXT_MAX]){0})

/* How many MAC addresses a NIC can have besides its own. */
enum { MACS_PER_NIC = 64 };
/* Longer than a bridge remembers a MAC address, so that no more are in the bridge than in the set.
 */
#define REMEMBERED "timeout 6m"

/* Whether a NIC may send VLAN tags. On a bridge of its own VLAN it may not. */
static bool may_tag(const struct net_plan *p, const struct net_nic *n)
{
	return p->vnets[n->vnet].spec->vlan_aware && !n->apart;
}

/* A bridge that filters by VLAN learns a MAC address anew in each VLAN. */
static bool learns_tags(const struct net_plan *p, const struct net_nic *n)
{
	return p->vnets[n->vnet].filter && may_tag(p, n);
}

static int add_nic(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	bool tags = learns_tags(p, &p->nics[i]);

	if (buf_printf(b, e,
		    "\tset macs%zu {\n\t\ttype ether_addr\n\t\tflags dynamic, timeout\n"
		    "\t\tsize %d\n\t}\n",
		    i, MACS_PER_NIC) < 0 ||
		(tags && buf_printf(b, e,
				 "\tset tagged%zu {\n\t\ttypeof ether saddr . vlan id\n"
				 "\t\tflags dynamic, timeout\n\t\tsize %d\n\t}\n",
				 i, MACS_PER_NIC) < 0) ||
		buf_printf(b, e, "\tchain learn%zu {\n", i) < 0)
		return -1;
	if (tags &&
		buf_printf(b, e,
			"\t\tether type vlan update @tagged%zu { ether saddr . vlan id " REMEMBERED
			" } accept\n\t\tether type vlan drop\n",
			i) < 0)
		return -1;
	return buf_printf(b, e,
		"\t\tupdate @macs%zu { ether saddr " REMEMBERED " } accept\n\t\tdrop\n\t}\n", i);
}

/* Drops tagged frames of NICs that may not send tags. */
static int add_tag_rule(const struct net_plan *p, struct buf *b, struct err *e)
{
	const char *comma = "";
	size_t n = 0;

	for (size_t i = 0; i < p->n_nics; i++)
		n += !may_tag(p, &p->nics[i]);
	if (!n)
		return 0;
	if (buf_add_str(b, "\t\tiifname { ", e) < 0)
		return -1;
	for (size_t i = 0; i < p->n_nics; i++) {
		if (may_tag(p, &p->nics[i]))
			continue;
		if (buf_printf(b, e, "%s\"%s\"", comma, p->nics[i].tap) < 0)
			return -1;
		comma = ", ";
	}
	return buf_add_str(b, " } ether type { 0x8100, 0x88a8, 0x9100 } drop\n", e);
}

/* A bridge would take the NIC that says so for the gate, and send it what others send out. */
static int add_gate_rules(const struct net_plan *p, struct buf *b, struct err *e)
{
	for (size_t i = 0; i < p->n_vnets; i++)
		if (*p->vnets[i].cable &&
			buf_printf(b, e, "\t\tiifname \"%s\" accept\n\t\tether saddr %s drop\n",
				p->vnets[i].cable, MAC(p->vnets[i].gate_mac)) < 0)
			return -1;
	return 0;
}

static int add_learn_rules(const struct net_plan *p, struct buf *b, struct err *e)
{
	if (buf_add_str(b, "\t\tiifname . ether saddr { ", e) < 0)
		return -1;
	for (size_t i = 0; i < p->n_nics; i++)
		if (buf_printf(b, e, "%s\"%s\" . %s", i ? ", " : "", p->nics[i].tap,
			    MAC(p->nics[i].mac)) < 0)
			return -1;
	if (buf_add_str(b, " } accept\n\t\tiifname vmap { ", e) < 0)
		return -1;
	for (size_t i = 0; i < p->n_nics; i++)
		if (buf_printf(b, e, "%s\"%s\" : goto learn%zu", i ? ", " : "", p->nics[i].tap, i) <
			0)
			return -1;
	return buf_add_str(b, " }\n", e);
}

int switch_rules(const struct net_plan *p, struct buf *ret, struct err *e)
{
	if (!p->n_nics)
		return 0;
	if (buf_add_str(ret, "table bridge moat {\n", e) < 0)
		return -1;
	for (size_t i = 0; i < p->n_nics; i++)
		if (add_nic(p, i, ret, e) < 0)
			return -1;
	if (buf_add_str(ret,
		    "\tchain prerouting {\n"
		    "\t\ttype filter hook prerouting priority -300; policy accept;\n",
		    e) < 0 ||
		add_gate_rules(p, ret, e) < 0 || add_tag_rule(p, ret, e) < 0 ||
		add_learn_rules(p, ret, e) < 0)
		return -1;
	return buf_add_str(ret, "\t}\n}\n", e);
}
