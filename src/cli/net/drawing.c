/*
 * How it works: the SVG has a horizontal line for each network, one below the other, and a
 * rectangle for each VM above them. A NIC is a line from its VM down to its network, with the
 * address beside it.
 */
#include "cli/net/drawing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "util/auto.h"

enum { COLUMN = 190, VM_WIDTH = 150, VM_HEIGHT = 44, TOP = 30, LEFT = 20, ROW = 64, NIC_GAP = 26 };

static int add_escaped(struct buf *b, const char *text, bool xml, struct err *e)
{
	for (; *text; text++) {
		const char *instead = NULL;

		if (xml)
			instead = *text == '<'   ? "&lt;"
				  : *text == '>' ? "&gt;"
				  : *text == '&' ? "&amp;"
				  : *text == '"' ? "&quot;"
						 : NULL;
		else if (*text == '"' || *text == '\\')
			instead = *text == '"' ? "\\\"" : "\\\\";
		if (instead ? buf_add_str(b, instead, e) < 0 : buf_add(b, text, 1, e) < 0)
			return -1;
	}
	return 0;
}

static const char *subnet_of(const json_t *vnet)
{
	return get_str(json_array_get(json_object_get(vnet, "subnets"), 0), "cidr");
}

static const char *policy_of(const json_t *vnet)
{
	const json_t *egress = json_object_get(vnet, "egress");

	return json_is_string(egress) ? json_string_value(egress) : "allow";
}

static bool leads_out(const json_t *vnet)
{
	return strcmp(policy_of(vnet), "deny") != 0;
}

static const char *address_of(const json_t *nic)
{
	const char *lease = get_str(nic, "lease");

	return *lease ? lease : get_str(nic, "ipv4");
}

static int dot_vnet(const json_t *vnet, struct buf *b, struct err *e)
{
	const char *alias = get_str(vnet, "alias");

	if (buf_add_str(b, "  \"net ", e) < 0 || add_escaped(b, alias, false, e) < 0 ||
		buf_add_str(b, "\" [shape=ellipse, label=\"", e) < 0 ||
		add_escaped(b, alias, false, e) < 0 ||
		buf_printf(b, e, "\\n%s\"];\n", subnet_of(vnet)) < 0)
		return -1;
	if (!leads_out(vnet))
		return 0;
	if (buf_add_str(b, "  \"net ", e) < 0 || add_escaped(b, alias, false, e) < 0)
		return -1;
	return buf_printf(b, e, "\" -- outside [label=\"%s\"];\n", policy_of(vnet));
}

static int dot_nic(const json_t *nic, struct buf *b, struct err *e)
{
	if (buf_add_str(b, "  \"vm ", e) < 0 || add_escaped(b, get_str(nic, "vm"), false, e) < 0 ||
		buf_add_str(b, "\" [shape=box, label=\"", e) < 0 ||
		add_escaped(b, get_str(nic, "vm"), false, e) < 0 ||
		buf_add_str(b, "\"];\n  \"vm ", e) < 0 ||
		add_escaped(b, get_str(nic, "vm"), false, e) < 0 ||
		buf_add_str(b, "\" -- \"net ", e) < 0 ||
		add_escaped(b, get_str(nic, "vnet"), false, e) < 0)
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

/* The column of a VM. NICs come in the order of the VMs. */
static unsigned column_of(const json_t *nics, const char *vm)
{
	const char *last = "";
	unsigned column = 0;
	json_t *nic;
	size_t i;

	json_array_foreach((json_t *)nics, i, nic) {
		if (i && strcmp(get_str(nic, "vm"), last) != 0)
			column++;
		last = get_str(nic, "vm");
		if (strcmp(last, vm) == 0)
			return column;
	}
	return column;
}

static unsigned row_of(const json_t *vnets, const char *alias)
{
	json_t *vnet;
	size_t i;

	json_array_foreach((json_t *)vnets, i, vnet)
		if (strcmp(get_str(vnet, "alias"), alias) == 0)
			return (unsigned)i;
	return 0;
}

static unsigned line_y(unsigned row)
{
	return TOP + VM_HEIGHT + (row + 1) * ROW;
}

static int svg_vnet(const json_t *vnet, unsigned row, unsigned width, struct buf *b, struct err *e)
{
	unsigned y = line_y(row);

	if (buf_printf(b, e,
		    "<line x1=\"%d\" y1=\"%u\" x2=\"%u\" y2=\"%u\" stroke=\"#3465a4\" "
		    "stroke-width=\"4\"/>\n<text x=\"%d\" y=\"%u\" fill=\"#204a87\">",
		    LEFT, y, width - LEFT, y, LEFT, y + 18) < 0 ||
		add_escaped(b, get_str(vnet, "alias"), true, e) < 0)
		return -1;
	return buf_printf(b, e, "  %s  %s%s</text>\n", subnet_of(vnet),
		leads_out(vnet) ? "out: " : "", leads_out(vnet) ? policy_of(vnet) : "closed");
}

static int svg_nic(const json_t *net, const json_t *nic, struct buf *b, struct err *e)
{
	unsigned column = column_of(json_object_get(net, "nics"), get_str(nic, "vm"));
	unsigned row = row_of(json_object_get(net, "vnets"), get_str(nic, "vnet"));
	unsigned left = LEFT + column * COLUMN;
	unsigned x = left + 16 + (unsigned)get_num(nic, "nic") * NIC_GAP;

	if (buf_printf(b, e,
		    "<line x1=\"%u\" y1=\"%d\" x2=\"%u\" y2=\"%u\" stroke=\"#555753\"/>\n"
		    "<text x=\"%u\" y=\"%u\" font-size=\"11\">%s</text>\n",
		    x, TOP + VM_HEIGHT, x, line_y(row), x + 4, line_y(row) - 8,
		    address_of(nic)) < 0)
		return -1;
	if (get_num(nic, "nic") > 0)
		return 0;
	if (buf_printf(b, e,
		    "<rect x=\"%u\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"#eeeeec\" "
		    "stroke=\"#555753\"/>\n<text x=\"%u\" y=\"%d\" text-anchor=\"middle\">",
		    left, TOP, VM_WIDTH, VM_HEIGHT, left + VM_WIDTH / 2,
		    TOP + VM_HEIGHT / 2 + 5) < 0 ||
		add_escaped(b, get_str(nic, "vm"), true, e) < 0)
		return -1;
	return buf_add_str(b, "</text>\n", e);
}

int drawing_svg(const json_t *net, struct buf *ret, struct err *e)
{
	const json_t *nics = json_object_get(net, "nics"), *vnets = json_object_get(net, "vnets");
	const json_t *last = json_array_get(nics, json_array_size(nics) - 1);
	unsigned columns = last ? column_of(nics, get_str(last, "vm")) + 1 : 1;
	unsigned width = 2 * LEFT + columns * COLUMN + 60;
	unsigned height = line_y((unsigned)json_array_size(vnets)) + 10 - ROW / 2;
	json_t *one;
	size_t i;

	if (buf_printf(ret, e,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		    "font-family=\"sans-serif\" font-size=\"14\">\n"
		    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		    width, height) < 0)
		return -1;
	json_array_foreach((json_t *)vnets, i, one)
		if (svg_vnet(one, (unsigned)i, width, ret, e) < 0)
			return -1;
	json_array_foreach((json_t *)nics, i, one)
		if (svg_nic(net, one, ret, e) < 0)
			return -1;
	return buf_add_str(ret, "</svg>\n", e);
}
