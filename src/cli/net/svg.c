/*
 * How it works: networks are horizontal lines, one below the other, named at the left with what
 * they let out. VMs are boxes above them. Each NIC has a column of its own, in which its line goes
 * down to its network, with the address beside it: so no line meets a label. Long texts are cut,
 * and whole in the tip that a viewer shows. The page of the web console draws by the same rules
 * (web/page/topology.js).
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/net/drawing.h"
#include "cli/net/rules.h"

enum {
	GUTTER = 230, /* where networks are named */
	NIC_WIDTH = 128,
	GAP = 24,
	VM_MIN = 190,
	TOP = 14,
	BOX = 58,
	LINE = 16,
	ROW_MIN = 64,
	RULES_MAX = 6, /* of more, the last line says how many */
	RULE_SIZE = 300,
	GUTTER_LETTERS = 27,
	LETTER = 8, /* the width of one, at most */
};

struct label {
	unsigned x, y, letters; /* so many fit */
	const char *style;
	const char *text;
};

static void put_xml(struct buf *b, const char *text, size_t n)
{
	for (; n--; text++)
		if (*text == '<')
			buf_puts(b, "&lt;");
		else if (*text == '>')
			buf_puts(b, "&gt;");
		else if (*text == '&')
			buf_puts(b, "&amp;");
		else if (*text == '"')
			buf_puts(b, "&quot;");
		else
			buf_put(b, text, 1);
}

/* The number of bytes of the first letters of a text. */
static size_t bytes_of(const char *text, unsigned letters)
{
	size_t n = 0;

	while (text[n] && (letters || (text[n] & 0xc0) == 0x80)) {
		letters -= (text[n] & 0xc0) != 0x80;
		n++;
	}
	return n;
}

static void put_label(struct buf *b, const struct label *l)
{
	size_t whole = strlen(l->text), n = bytes_of(l->text, l->letters);

	buf_putf(b, "<text x=\"%u\" y=\"%u\" %s>", l->x, l->y, l->style);
	if (n < whole) {
		buf_puts(b, "<title>");
		put_xml(b, l->text, whole);
		buf_puts(b, "</title>");
		put_xml(b, l->text, bytes_of(l->text, l->letters - 1));
		buf_puts(b, "\u2026");
	} else {
		put_xml(b, l->text, whole);
	}
	buf_puts(b, "</text>\n");
}

static unsigned nics_of(const json_t *nics, const char *vm)
{
	unsigned n = 0;
	json_t *nic;
	size_t i;

	json_array_foreach((json_t *)nics, i, nic)
		n += strcmp(get_str(nic, "vm"), vm) == 0;
	return n;
}

static unsigned vm_width(const json_t *nics, const char *vm)
{
	unsigned width = nics_of(nics, vm) * NIC_WIDTH + 20;

	return width < VM_MIN ? VM_MIN : width;
}

/* Where a VM begins; behind the last one if vm is NULL. NICs come in the order of the VMs. */
static unsigned vm_x(const json_t *nics, const char *vm)
{
	unsigned x = GUTTER + 20;
	const char *last = NULL;
	json_t *nic;
	size_t i;

	json_array_foreach((json_t *)nics, i, nic) {
		const char *name = get_str(nic, "vm");

		if (last && strcmp(name, last) == 0)
			continue;
		if (vm && strcmp(name, vm) == 0)
			return x;
		x += vm_width(nics, name) + GAP;
		last = name;
	}
	return x;
}

static unsigned refused_of(const json_t *net, const json_t *vnet)
{
	static const char *const lists[] = {"names", "connections"};
	const json_t *refused = json_object_get(net, "refused"), *one;
	double n = 0;
	size_t i;

	for (unsigned l = 0; l < 2; l++)
		json_array_foreach(json_object_get(refused, lists[l]), i, one)
			if (strcmp(get_str(one, "vnet"), get_str(vnet, "alias")) == 0)
				n += get_num(one, "count");
	return (unsigned)n;
}

static unsigned rules_shown(const json_t *vnet)
{
	unsigned n = rules_count(vnet);

	return n > RULES_MAX ? RULES_MAX : n;
}

/* Where the line of a network is; below the last one if alias is NULL. */
static unsigned line_y(const json_t *net, const char *alias)
{
	unsigned y = TOP + BOX + 46;
	json_t *vnet;
	size_t i;

	json_array_foreach(json_object_get(net, "vnets"), i, vnet) {
		unsigned lines = 1 + rules_shown(vnet) + (refused_of(net, vnet) > 0);
		unsigned height = 26 + LINE * lines;

		if (alias && strcmp(get_str(vnet, "alias"), alias) == 0)
			break;
		y += height < ROW_MIN ? ROW_MIN : height;
	}
	return y;
}

static void put_rules(struct buf *b, const json_t *vnet, unsigned *y)
{
	unsigned count = rules_count(vnet), shown = rules_shown(vnet);
	char text[RULE_SIZE];

	for (unsigned i = 0; i < shown; i++) {
		struct label l = {22, *y += LINE, GUTTER_LETTERS - 1,
			"font-size=\"11\" fill=\"#555753\"", text};

		rules_text(vnet, i, text, sizeof(text));
		if (count > RULES_MAX && i == RULES_MAX - 1)
			snprintf(text, sizeof(text), "and %u more", count - i);
		put_label(b, &l);
	}
}

static void put_vnet(struct buf *b, const json_t *net, const json_t *vnet, unsigned width)
{
	const json_t *subnet = json_array_get(json_object_get(vnet, "subnets"), 0);
	const char *policy = rules_policy(vnet), *out = "out: open";
	bool closed = strcmp(policy, "deny") == 0;
	unsigned y = line_y(net, get_str(vnet, "alias")), refused = refused_of(net, vnet);

	if (closed)
		out = "nothing gets out";
	else if (strcmp(policy, "allow") == 0)
		out = "lets out only:";
	buf_putf(b,
		"<line x1=\"%d\" y1=\"%u\" x2=\"%u\" y2=\"%u\" stroke=\"%s\" stroke-width=\"4\" "
		"stroke-linecap=\"round\"/>\n",
		GUTTER, y, width - 12, y, closed ? "#888a85" : "#0d7490");
	put_label(b, &(struct label){12, y + 4, GUTTER_LETTERS - 3, "font-weight=\"bold\"",
			     get_str(vnet, "alias")});
	y += 4;
	put_label(b, &(struct label){12, y += LINE, GUTTER_LETTERS,
			     "font-size=\"11\" fill=\"#555753\"", get_str(subnet, "cidr")});
	put_label(b, &(struct label){12, y += LINE, GUTTER_LETTERS,
			     closed ? "font-size=\"11\" fill=\"#555753\""
				    : "font-size=\"11\" font-weight=\"bold\" fill=\"#0d7490\"",
			     out});
	put_rules(b, vnet, &y);
	if (refused)
		buf_putf(b,
			"<text x=\"12\" y=\"%u\" font-size=\"11\" font-weight=\"bold\" "
			"fill=\"#c02626\">%u refused</text>\n",
			y + LINE, refused);
}

static void put_nic(struct buf *b, const json_t *net, const json_t *nic)
{
	unsigned x = vm_x(json_object_get(net, "nics"), get_str(nic, "vm")) + 18 +
		     (unsigned)get_num(nic, "nic") * NIC_WIDTH;
	unsigned y = line_y(net, get_str(nic, "vnet"));
	const char *address = get_str(nic, "lease");
	struct label l = {x + 8, y - 9, NIC_WIDTH / LETTER, "font-size=\"11\"",
		*address ? address : get_str(nic, "ipv4")};

	buf_putf(b,
		"<line x1=\"%u\" y1=\"%d\" x2=\"%u\" y2=\"%u\" stroke=\"#888a85\"/>\n"
		"<circle cx=\"%u\" cy=\"%u\" r=\"4\" fill=\"white\" stroke=\"#0d7490\" "
		"stroke-width=\"2\"/>\n",
		x, TOP + BOX, x, y, x, y);
	put_label(b, &l);
}

static void put_vm(struct buf *b, const json_t *nics, const char *vm)
{
	unsigned x = vm_x(nics, vm), width = vm_width(nics, vm);

	buf_putf(b,
		"<rect x=\"%u\" y=\"%d\" width=\"%u\" height=\"%d\" rx=\"8\" fill=\"#f4f6f8\" "
		"stroke=\"#888a85\"/>\n",
		x, TOP, width, BOX);
	put_label(b, &(struct label){x + 14, TOP + BOX / 2 + 5, (width - 24) / LETTER,
			     "font-weight=\"bold\"", vm});
}

int drawing_svg(const json_t *net, struct buf *ret, struct err *e)
{
	const json_t *nics = json_object_get(net, "nics");
	unsigned width = vm_x(nics, NULL);
	json_t *one;
	size_t i;

	if (width < GUTTER + 260)
		width = GUTTER + 260;
	buf_putf(ret,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		"font-family=\"sans-serif\" font-size=\"13\" fill=\"#17212b\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		width, line_y(net, NULL) + 4);
	json_array_foreach(json_object_get(net, "vnets"), i, one)
		put_vnet(ret, net, one, width);
	json_array_foreach((json_t *)nics, i, one) {
		put_nic(ret, net, one);
		if (get_num(one, "nic") == 0)
			put_vm(ret, nics, get_str(one, "vm"));
	}
	buf_puts(ret, "</svg>\n");
	return buf_check(ret, e);
}
