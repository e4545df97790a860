#include "cli/net/drawing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/net/rules.h"
#include "util/auto.h"

static int add_escaped(struct buf *b, const char *text, struct err *e)
{
	for (; *text; text++) {
		if ((*text == '"' || *text == '\\') && buf_add(b, "\\", 1, e) < 0)
			return -1;
		if (buf_add(b, text, 1, e) < 0)
			return -1;
	}
	return 0;
}

static const char *subnet_of(const json_t *vnet)
{
	return get_str(json_array_get(json_object_get(vnet, "subnets"), 0), "cidr");
}

static const char *address_of(const json_t *nic)
{
	const char *lease = get_str(nic, "lease");

	return *lease ? lease : get_str(nic, "ipv4");
}

static int dot_vnet(const json_t *vnet, struct buf *b, struct err *e)
{
	const char *alias = get_str(vnet, "alias");
	char rule[300];

	if (buf_add_str(b, "  \"net ", e) < 0 || add_escaped(b, alias, e) < 0 ||
		buf_add_str(b, "\" [shape=ellipse, label=\"", e) < 0 ||
		add_escaped(b, alias, e) < 0 ||
		buf_printf(b, e, "\\n%s\"];\n", subnet_of(vnet)) < 0)
		return -1;
	if (strcmp(rules_policy(vnet), "deny") == 0)
		return 0;
	if (buf_add_str(b, "  \"net ", e) < 0 || add_escaped(b, alias, e) < 0 ||
		buf_printf(b, e, "\" -- outside [label=\"%s", rules_policy(vnet)) < 0)
		return -1;
	for (unsigned i = 0; i < rules_count(vnet); i++) {
		rules_text(vnet, i, rule, sizeof(rule));
		if (buf_add_str(b, "\\n", e) < 0 || add_escaped(b, rule, e) < 0)
			return -1;
	}
	return buf_add_str(b, "\"];\n", e);
}

static int dot_nic(const json_t *nic, struct buf *b, struct err *e)
{
	if (buf_add_str(b, "  \"vm ", e) < 0 || add_escaped(b, get_str(nic, "vm"), e) < 0 ||
		buf_add_str(b, "\" [shape=box, label=\"", e) < 0 ||
		add_escaped(b, get_str(nic, "vm"), e) < 0 ||
		buf_add_str(b, "\"];\n  \"vm ", e) < 0 ||
		add_escaped(b, get_str(nic, "vm"), e) < 0 ||
		buf_add_str(b, "\" -- \"net ", e) < 0 ||
		add_escaped(b, get_str(nic, "vnet"), e) < 0)
		return -1;
	return buf_printf(b, e, "\" [label=\"%s\"];\n", address_of(nic));
}

int drawing_dot(const json_t *net, struct buf *ret, struct err *e)
{
	json_t *one;
	size_t i;

	if (buf_add_str(ret, "graph sandbox {\n  outside [shape=plaintext];\n", e) < 0)
		return -1;
	json_array_foreach(json_object_get(net, "vnets"), i, one)
		if (dot_vnet(one, ret, e) < 0)
			return -1;
	json_array_foreach(json_object_get(net, "nics"), i, one)
		if (dot_nic(one, ret, e) < 0)
			return -1;
	return buf_add_str(ret, "}\n", e);
}
