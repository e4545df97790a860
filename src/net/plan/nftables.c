/*
 * How it works: everything that no rule accepts is refused, and counted in a set that can be
 * listed. The rules look at the interface where a packet came in, its source and its destination.
 * ARP is not checked between guests of a vnet: it leads nowhere else. But there is a limit to the
 * neighbours that we learn by ARP. switch-rules.h has the rules for bridges.
 */
#include "net/plan/nftables.h"

#include <stdio.h>
#include <string.h>

#include "net/plan/special-addresses.h"
#include "net/plan/switch-rules.h"
#include "util/auto.h"

#define ADDR(a) ipv4_text(a, (char[IPV4_TEXT_MAX]){0})
#define NET(n)  ipv4_net_text(n, (char[NET_TEXT_MAX]){0})

/*
 * Put these only after a rule that checks the source: connection tracking ignores interfaces, so a
 * packet of one vnet's connection, or an ICMP error about it, can come from a guest of another
 * vnet. ICMP errors never leave through egress: they can carry any content.
 */
#define KNOWN_RULE     "\t\tct state established,related accept\n"
#define KNOWN_OUT_RULE "\t\tct state established accept\n"
#define DNS_RULE       "meta l4proto { tcp, udp } th dport 53 accept\n"
/*
 * The sets count refused packets by source and destination; when they are full, refused_more counts
 * only by bridge, since a guest can invent any number of destinations. The answer is an ICMP error,
 * so that programs do not wait for a timeout.
 */
#define REFUSE                                                                                     \
	"\tchain answer {\n"                                                                       \
	"\t\tmeta pkttype host meta l4proto { tcp, udp } limit rate 1000/second burst 1000 "       \
	"packets reject with icmpx admin-prohibited\n"                                             \
	"\t\tdrop\n"                                                                               \
	"\t}\n"                                                                                    \
	"\tchain refuse {\n"                                                                       \
	"\t\tmeta nfproto ipv6 drop\n"                                                             \
	"\t\tmeta l4proto { tcp, udp } add @refused { iifname . ip saddr . ip daddr . "            \
	"meta "                                                                                    \
	"l4proto . th dport } goto answer\n"                                                       \
	"\t\tmeta l4proto != { tcp, udp } add @refused_other { iifname . ip saddr . "              \
	"ip daddr . "                                                                              \
	"meta l4proto } goto answer\n"                                                             \
	"\t\tadd @refused_more { iifname }\n"                                                      \
	"\t\tgoto answer\n"                                                                        \
	"\t}\n"
/*
 * The kernel keeps an entry for each connection, for two minutes after the last packet of one that
 * nobody answers or that has ended. pasta has no sockets for more than 4096. This counts as well
 * what it does not answer.
 */
#define CONNECT                                                                                    \
	"\tchain connect {\n"                                                                      \
	"\t\tlimit rate 256/second burst 4096 packets accept\n"                                    \
	"\t\tdrop\n"                                                                               \
	"\t}\n"
/* No rule knows the ports of a fragment, nor does every pasta know a fragment when it sees one. */
#define FRAGMENT                                                                                   \
	"\tchain fragment {\n"                                                                     \
	"\t\tadd @refused_other { iifname . ip saddr . ip daddr . meta l4proto } drop\n"           \
	"\t\tadd @refused_more { iifname } drop\n"                                                 \
	"\t\tdrop\n"                                                                               \
	"\t}\n"
/*
 * Connection tracking keeps an entry for each packet that is accepted, whoever it claims to be
 * from. What moat's own servers get and say is accepted without it.
 */
#define SERVER                                                                                     \
	"\tchain server {\n"                                                                       \
	"\t\tmeta l4proto { tcp, udp } th dport 53 notrack accept\n"                               \
	"\t\ticmp type echo-request notrack accept\n"                                              \
	"\t\taccept\n"                                                                             \
	"\t}\n"
#define UNTRACKED_ANSWERS                                                                          \
	"\tchain untracked_answers {\n"                                                            \
	"\t\ttype filter hook output priority raw; policy accept;\n"                               \
	"\t\toifname \"br*\" udp sport { 53, 67 } notrack\n"                                       \
	"\t\toifname \"br*\" tcp sport 53 notrack\n"                                               \
	"\t\toifname \"br*\" icmp type echo-reply notrack\n"                                       \
	"\t}\n"

/* How many neighbours of a vnet we learn: guests may run guests of their own. */
enum { NEIGHBOURS_PER_NIC = 4, NEIGHBOURS_MORE = 64 };

static int add_list(const struct ipv4_net *nets, size_t n, struct buf *b, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (buf_printf(b, e, "%s%s%s", i ? ", " : "\t\telements = { ", NET(nets[i]),
			    i + 1 == n ? " }\n\t}\n" : "") < 0)
			return -1;
	return 0;
}

/* Adds the text for vnet number i, if it needs any. */
typedef int add_fn(const struct net_plan *p, size_t i, struct buf *b, struct err *e);

static int add_each(const struct net_plan *p, add_fn *add, struct buf *b, struct err *e)
{
	for (size_t i = 0; i < p->n_vnets; i++)
		if (add(p, i, b, e) < 0)
			return -1;
	return 0;
}

static int add_opened_set(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	if (!p->vnets[i].has_egress)
		return 0;
	return buf_printf(b, e,
		"\tset " NFTABLES_DNS_SET " {\n\t\ttype ipv4_addr\n"
		"\t\tflags timeout\n\t\tsize 16384\n\t}\n",
		i);
}

static bool has_server(const struct net_vnet *v)
{
	for (size_t i = 0; i < v->n_subnets; i++)
		if (v->subnets[i].server)
			return true;
	return false;
}

/*
 * The neighbours of a vnet to which we send. All network namespaces of the host share one small
 * table of neighbours: a guest with thousands of addresses would leave no room for others. NICs of
 * the plan are always in the set, so that they cannot be crowded out.
 */
static int add_neighbour_set(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const char *begin = "\t\telements = { ", *end = "";
	size_t n = 0;

	if (!has_server(&p->vnets[i]))
		return 0;
	for (size_t k = 0; k < p->n_nics; k++)
		n += p->nics[k].vnet == i;
	if (buf_printf(b, e,
		    "\tset near%zu {\n\t\ttype ipv4_addr\n\t\tflags dynamic, timeout\n"
		    "\t\tsize %zu\n",
		    i, NEIGHBOURS_PER_NIC * n + NEIGHBOURS_MORE) < 0)
		return -1;
	for (size_t k = 0; k < p->n_nics; k++) {
		if (p->nics[k].vnet != i || !p->nics[k].ipv4)
			continue;
		if (buf_printf(b, e, "%s%s", begin, ADDR(p->nics[k].ipv4)) < 0)
			return -1;
		begin = ", ";
		end = " }\n";
	}
	return buf_printf(b, e, "%s\t}\n", end);
}

static int add_sets(const struct net_plan *p, struct buf *b, struct err *e)
{
	if (buf_add_str(b,
		    "\tset host {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\tauto-merge\n\t}\n"
		    "\tset never {\n\t\ttype ipv4_addr\n\t\tflags interval\n",
		    e) < 0 ||
		add_list(net_forbidden, net_n_forbidden, b, e) < 0 ||
		buf_add_str(b, "\tset private {\n\t\ttype ipv4_addr\n\t\tflags interval\n", e) <
			0 ||
		add_list(net_private, net_n_private, b, e) < 0)
		return -1;
	if (buf_add_str(b,
		    "\tset refused {\n"
		    "\t\ttype ifname . ipv4_addr . ipv4_addr . inet_proto . inet_service\n"
		    "\t\tflags dynamic\n\t\tsize 4096\n\t\tcounter\n\t}\n"
		    "\tset refused_other {\n"
		    "\t\ttype ifname . ipv4_addr . ipv4_addr . inet_proto\n"
		    "\t\tflags dynamic\n\t\tsize 1024\n\t\tcounter\n\t}\n"
		    "\tset refused_more {\n\t\ttype ifname\n"
		    "\t\tflags dynamic\n\t\tsize 1024\n\t\tcounter\n\t}\n",
		    e) < 0)
		return -1;
	return add_each(p, add_neighbour_set, b, e) < 0 ? -1 : add_each(p, add_opened_set, b, e);
}

enum which { ALL, SNAT, GATEWAY };

/* Adds "{ a, b }": the vnet's subnets of a kind, or moat's addresses in them (servers). */
static int add_subnets(
	const struct net_vnet *v, enum which which, bool servers, struct buf *b, struct err *e)
{
	const char *comma = "";

	if (buf_add_str(b, "{ ", e) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++) {
		const struct net_subnet *sub = &v->subnets[i];

		if (!sub->server || (which == SNAT && !sub->snat) ||
			(which == GATEWAY && !sub->gateway))
			continue;
		if (buf_printf(b, e, "%s%s", comma, servers ? ADDR(sub->server) : NET(sub->cidr)) <
			0)
			return -1;
		comma = ", ";
	}
	return buf_add_str(b, " }", e);
}

/* field: "saddr" or "daddr". */
static int add_refuse_others(const struct net_vnet *v, const char *field, enum which which,
	bool servers, struct buf *b, struct err *e)
{
	if (buf_printf(b, e, "\t\tip %s != ", field) < 0 ||
		add_subnets(v, which, servers, b, e) < 0)
		return -1;
	return buf_add_str(b, " goto refuse\n", e);
}

/* Adds "{ a, b }": where DHCP clients send to. */
static int add_dhcp_destinations(const struct net_vnet *v, struct buf *b, struct err *e)
{
	if (buf_add_str(b, "{ 255.255.255.255", e) < 0)
		return -1;
	for (size_t i = 0; i < v->n_subnets; i++) {
		const struct net_subnet *sub = &v->subnets[i];

		if (sub->server && buf_printf(b, e, ", %s, %s", ADDR(sub->server),
					   ADDR(ipv4_net_last(sub->cidr))) < 0)
			return -1;
	}
	return buf_add_str(b, " }", e);
}

/* Packets to moat's own addresses: DHCP, DNS and ping are accepted. */
static int add_input_rules(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	if (buf_printf(b, e, "\tchain in%zu {\n", i) < 0)
		return -1;
	if (v->dhcp &&
		(buf_add_str(b, "\t\tip daddr ", e) < 0 || add_dhcp_destinations(v, b, e) < 0 ||
			buf_add_str(b, " udp sport 68 udp dport 67 accept\n", e) < 0))
		return -1;
	/* Our own broadcasts come back to us: drop them without counting them as a guest's. */
	if (v->dhcp &&
		(buf_add_str(b, "\t\tip saddr ", e) < 0 || add_subnets(v, ALL, true, b, e) < 0 ||
			buf_add_str(b, " udp sport 67 udp dport 68 drop\n", e) < 0))
		return -1;
	if (has_server(v)) {
		if (add_refuse_others(v, "saddr", ALL, false, b, e) < 0 ||
			add_refuse_others(v, "daddr", ALL, true, b, e) < 0 ||
			buf_add_str(b, KNOWN_RULE, e) < 0)
			return -1;
		if (v->dns && buf_add_str(b, "\t\t" DNS_RULE, e) < 0)
			return -1;
		/* So says a guest that no longer waits for DNS, when the answer comes. */
		if (v->dns && buf_add_str(b, "\t\ticmp type destination-unreachable drop\n", e) < 0)
			return -1;
		if (buf_add_str(b,
			    "\t\ticmp type echo-request limit rate 200/second burst 50 "
			    "packets accept\n",
			    e) < 0)
			return -1;
	}
	return buf_add_str(b, "\t\tgoto refuse\n\t}\n", e);
}

/* Accepts packets to daddr, at the ports of the policy. */
static int add_accept(
	const struct egress_allow *allow, const char *daddr, struct buf *b, struct err *e)
{
	if (!allow->n_ports)
		return buf_printf(b, e, "\t\tip daddr %s goto connect\n", daddr);
	if (buf_printf(b, e, "\t\tip daddr %s meta l4proto { tcp, udp } th dport { ", daddr) < 0)
		return -1;
	for (size_t i = 0; i < allow->n_ports; i++) {
		bool seen = false; /* nft rejects a set with an element twice */

		for (size_t k = 0; k < i; k++)
			seen |= allow->ports[k] == allow->ports[i];
		if (!seen && buf_printf(b, e, "%s%u", i ? ", " : "", allow->ports[i]) < 0)
			return -1;
	}
	return buf_add_str(b, " } goto connect\n", e);
}

static int add_cidrs(
	const struct egress_allow *allow, bool named_private, struct buf *b, struct err *e)
{
	for (size_t i = 0; i < allow->n_cidrs; i++)
		if (net_is_private(allow->cidrs[i]) == named_private &&
			add_accept(allow, NET(allow->cidrs[i]), b, e) < 0)
			return -1;
	return 0;
}

static int add_egress_rules(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];
	const struct egress_spec *egress = &v->spec->egress;
	char set[32];

	if (!v->has_egress)
		return 0;
	if (buf_printf(b, e, "\tchain out%zu {\n", i) < 0 ||
		add_refuse_others(v, "saddr", SNAT, false, b, e) < 0 ||
		buf_add_str(b,
			KNOWN_OUT_RULE
			"\t\tip daddr @never goto refuse\n\t\tip daddr @host goto refuse\n"
			"\t\tmeta l4proto != { tcp, udp, icmp } goto refuse\n",
			e) < 0)
		return -1;
	snprintf(set, sizeof(set), "@" NFTABLES_DNS_SET, i);
	if (egress->mode == SPEC_EGRESS_ALLOW && add_cidrs(&egress->allow, true, b, e) < 0)
		return -1;
	if (buf_add_str(b, "\t\tip daddr @private goto refuse\n", e) < 0)
		return -1;
	if (egress->mode == SPEC_EGRESS_OPEN && buf_add_str(b, "\t\tgoto connect\n", e) < 0)
		return -1;
	if (egress->mode == SPEC_EGRESS_ALLOW && (add_cidrs(&egress->allow, false, b, e) < 0 ||
							 add_accept(&egress->allow, set, b, e) < 0))
		return -1;
	return buf_add_str(b, "\t\tgoto refuse\n\t}\n", e);
}

/* Packets from one subnet of a vnet to another one of it pass through moat's gateways. */
static int add_routing_rules(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	if (!v->routed)
		return 0;
	if (buf_printf(b, e, "\tchain via%zu {\n", i) < 0 ||
		add_refuse_others(v, "saddr", GATEWAY, false, b, e) < 0 ||
		add_refuse_others(v, "daddr", GATEWAY, false, b, e) < 0)
		return -1;
	return buf_add_str(b, "\t\taccept\n\t}\n", e);
}

/* Packets that connection tracking keeps nothing of: what moat answers by itself, and what it
 * passes from one subnet of a vnet to another. */
static int add_untracked(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	if (!has_server(v))
		return 0;
	if (buf_printf(b, e, "\tchain own%zu {\n", i) < 0)
		return -1;
	if (v->dhcp &&
		(buf_add_str(b, "\t\tip daddr ", e) < 0 || add_dhcp_destinations(v, b, e) < 0 ||
			buf_add_str(b, " udp dport 67 notrack accept\n", e) < 0))
		return -1;
	if (buf_add_str(b, "\t\tip daddr ", e) < 0 || add_subnets(v, ALL, true, b, e) < 0 ||
		buf_printf(b, e, " goto server\n") < 0)
		return -1;
	if (v->routed && (buf_add_str(b, "\t\tip daddr ", e) < 0 ||
				 add_subnets(v, GATEWAY, false, b, e) < 0 ||
				 buf_add_str(b, " notrack\n", e) < 0))
		return -1;
	return buf_add_str(b, "\t}\n", e);
}

static int add_chains(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	if (add_input_rules(p, i, b, e) < 0 || add_egress_rules(p, i, b, e) < 0)
		return -1;
	return add_routing_rules(p, i, b, e) < 0 ? -1 : add_untracked(p, i, b, e);
}

static int add_jump_in(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	return buf_printf(b, e, "\t\tiifname \"%s\" jump in%zu\n", p->vnets[i].gate, i);
}

static int add_jump_out(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	return !v->has_egress
		       ? 0
		       : buf_printf(b, e,
				 "\t\tiifname \"%s\" oifname \"" NET_EGRESS_IF "\" jump out%zu\n",
				 v->gate, i);
}

static int add_jump_routing(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	return !v->routed ? 0
			  : buf_printf(b, e, "\t\tiifname \"%s\" oifname \"%s\" jump via%zu\n",
				    v->gate, v->gate, i);
}

static int add_neighbour_rule(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	return !has_server(&p->vnets[i])
		       ? 0
		       : buf_printf(b, e,
				 "\t\toifname \"%s\" update @near%zu { ip daddr timeout 10m } "
				 "accept\n",
				 p->vnets[i].gate, i);
}

static int add_jump_own(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	return !has_server(&p->vnets[i])
		       ? 0
		       : buf_printf(b, e, "\t\tiifname \"%s\" jump own%zu\n", p->vnets[i].gate, i);
}

/* Refuses fragments that are not for the vnet itself. */
static int add_fragment_rule(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	if (!v->has_egress)
		return 0;
	if (buf_printf(b, e, "\t\tiifname \"%s\" ip frag-off & 0x3fff != 0 ip daddr != ", v->gate) <
			0 ||
		add_subnets(v, ALL, false, b, e) < 0)
		return -1;
	return buf_add_str(b, " goto fragment\n", e);
}

/* Hooks that see a packet before connection tracking does, the first one before that makes whole
 * packets of fragments. */
static int add_early_hooks(const struct net_plan *p, struct buf *b, struct err *e)
{
	if (buf_add_str(b,
		    "\tchain whole {\n\t\ttype filter hook prerouting priority -450; policy "
		    "accept;\n",
		    e) < 0 ||
		add_each(p, add_fragment_rule, b, e) < 0 ||
		buf_add_str(b,
			"\t}\n\tchain untracked {\n"
			"\t\ttype filter hook prerouting priority raw; policy accept;\n",
			e) < 0 ||
		add_each(p, add_jump_own, b, e) < 0)
		return -1;
	return buf_add_str(b, "\t}\n" UNTRACKED_ANSWERS, e);
}

static int add_hooks(const struct net_plan *p, struct buf *b, struct err *e)
{
	if (buf_add_str(b,
		    "\tchain input {\n\t\ttype filter hook input priority filter; policy "
		    "drop;\n"
		    "\t\tiif lo accept\n",
		    e) < 0)
		return -1;
	if (add_each(p, add_jump_in, b, e) < 0 ||
		buf_add_str(b,
			"\t}\n\tchain forward {\n"
			"\t\ttype filter hook forward priority filter; policy drop;\n"
			"\t\tiifname \"" NET_EGRESS_IF
			"\" ct state established,related accept\n\t\tct state invalid drop\n",
			e) < 0 ||
		add_each(p, add_jump_out, b, e) < 0 || add_each(p, add_jump_routing, b, e) < 0)
		return -1;
	/* Only guests get an answer when they are refused. */
	if (buf_add_str(b,
		    "\t\tiifname \"br*\" goto refuse\n\t}\n\tchain output {\n"
		    "\t\ttype filter hook output priority filter; policy drop;\n"
		    "\t\toif lo accept\n\t\toifname \"br*\" accept\n\t}\n"
		    "\tchain translate {\n\t\ttype nat hook postrouting priority srcnat; "
		    "policy accept;\n"
		    "\t\toifname \"" NET_EGRESS_IF "\" meta l4proto { tcp, udp } masquerade "
		    "to :32768-60999 fully-random\n"
		    "\t\toifname \"" NET_EGRESS_IF "\" masquerade fully-random\n\t}\n"
		    /* Answers of DHCP are broadcasts. */
		    "\tchain near {\n\t\ttype filter hook postrouting priority filter; policy "
		    "accept;\n"
		    "\t\tip daddr 255.255.255.255 accept\n",
		    e) < 0 ||
		add_each(p, add_neighbour_rule, b, e) < 0)
		return -1;
	return buf_add_str(b, "\t\toifname \"br*\" drop\n\t}\n", e);
}

int nftables_rules(const struct net_plan *p, struct buf *ret, struct err *e)
{
	if (buf_add_str(ret, "table " NFTABLES_TABLE " {\n", e) < 0 || add_sets(p, ret, e) < 0 ||
		buf_add_str(ret, REFUSE CONNECT FRAGMENT SERVER, e) < 0 ||
		add_each(p, add_chains, ret, e) < 0)
		return -1;
	if (add_early_hooks(p, ret, e) < 0 || add_hooks(p, ret, e) < 0 ||
		buf_add_str(ret, "}\n", e) < 0)
		return -1;
	return switch_rules(p, ret, e);
}

/* Learn a neighbour only from an ARP request for an address of ours. */
static int add_neighbour_arp_rules(const struct net_plan *p, size_t i, struct buf *b, struct err *e)
{
	const struct net_vnet *v = &p->vnets[i];

	if (!has_server(v))
		return 0;
	if (buf_printf(b, e, "\t\tiifname \"%s\" arp daddr ip != ", v->gate) < 0 ||
		add_subnets(v, ALL, true, b, e) < 0)
		return -1;
	return buf_printf(b, e,
		" accept\n\t\tiifname \"%s\" update @near%zu { arp saddr ip timeout 10m } accept\n",
		v->gate, i);
}

int nftables_arp_rules(const struct net_plan *p, struct buf *ret, struct err *e)
{
	if (buf_add_str(ret, "table arp moat {\n", e) < 0 ||
		add_each(p, add_neighbour_set, ret, e) < 0 ||
		buf_add_str(ret,
			"\tchain input {\n\t\ttype filter hook input priority filter; policy "
			"accept;\n\t\tarp operation != request accept\n",
			e) < 0 ||
		add_each(p, add_neighbour_arp_rules, ret, e) < 0)
		return -1;
	return buf_add_str(ret, "\t\tiifname \"br*\" drop\n\t}\n}\n", e);
}
