#include "net/dns-msg.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "spec/net-addr.h"

enum { HEADER = 12, LABEL_MAX = 63, WIRE_NAME_MAX = 255, JUMPS_MAX = 32, TTL_LOCAL = 5 };

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int broken(struct err *e)
{
	return err_set(e, ERR_INVALID, "a DNS message that makes no sense");
}

static char name_char(uint8_t c)
{
	return isalnum(c) || c == '-' || c == '_' ? (char)tolower(c) : '?';
}

/* Adds one label to a text; false if it has no room. */
static bool add_label(char *name, size_t *len, const uint8_t *label, size_t n)
{
	if (*len + n + 2 > DNS_NAME_MAX)
		return false;
	if (*len)
		name[(*len)++] = '.';
	for (size_t i = 0; i < n; i++)
		name[(*len)++] = name_char(label[i]);
	name[*len] = 0;
	return true;
}

/*
 * Reads the name at *at and moves *at behind it. name may be NULL. Pointers, where there may be
 * any (there is nothing that a question could point to), lead only backwards,
 * and only so many of them: a message cannot make us go round in circles.
 */
static int read_name(struct bytes in, size_t *at, bool pointers, char *name, struct err *e)
{
	size_t pos = *at, limit = in.len, len = 0, wire = 0;
	bool jumped = false;

	if (name)
		name[0] = 0;
	for (unsigned jumps = 0;;) {
		uint8_t n;

		if (pos >= in.len)
			return broken(e);
		n = in.p[pos];
		if (n >= 0xc0) {
			size_t to;

			if (!pointers || pos + 2 > in.len || ++jumps > JUMPS_MAX)
				return broken(e);
			to = (size_t)(n & 0x3f) << 8 | in.p[pos + 1];
			if (!jumped)
				*at = pos + 2;
			if (to >= pos || to >= limit)
				return broken(e);
			jumped = true;
			limit = pos = to;
			continue;
		}
		if (n > LABEL_MAX || pos + 1 + n > in.len || (wire += 1u + n) > WIRE_NAME_MAX)
			return broken(e);
		if (n == 0)
			break;
		if (name && !add_label(name, &len, in.p + pos + 1, n))
			return broken(e);
		pos += 1u + n;
	}
	if (!jumped)
		*at = pos + 1;
	return 0;
}

/* The one question of a message, query or answer. */
static int read_question(struct bytes in, struct dns_question *q, struct err *e)
{
	size_t at = HEADER;

	if (in.len < HEADER || get16(in.p + 4) != 1)
		return broken(e);
	q->id = get16(in.p);
	if (read_name(in, &at, false, q->name, e) < 0)
		return -1;
	if (at + 4 > in.len || get16(in.p + at + 2) != 1)
		return broken(e);
	q->type = get16(in.p + at);
	q->end = at + 4;
	return 0;
}

void dns_set_id(uint8_t *message, uint16_t id)
{
	message[0] = (uint8_t)(id >> 8);
	message[1] = (uint8_t)id;
}

int dns_parse_query(struct bytes in, struct dns_question *ret, struct err *e)
{
	struct dns_question q = {0};

	if (in.len > DNS_MESSAGE_MAX || in.len < HEADER)
		return broken(e);
	/* A query (QR 0) of the standard kind (opcode 0) with nothing but a question, and perhaps
	 * options in the last section. */
	if (in.p[2] & 0xf8 || get16(in.p + 6) || get16(in.p + 8) || get16(in.p + 10) > 1)
		return broken(e);
	if (read_question(in, &q, e) < 0)
		return -1;
	*ret = q;
	return 0;
}

struct record {
	char owner[DNS_NAME_MAX];
	uint16_t type;
	uint32_t ttl;
	size_t data, end;
};

/* A record of another class than IN is read as one of type 0, which means nothing to anybody. */
static int read_record(struct bytes in, size_t *at, struct record *r, struct err *e)
{
	if (read_name(in, at, true, r->owner, e) < 0)
		return -1;
	if (*at + 10 > in.len)
		return broken(e);
	r->type = get16(in.p + *at + 2) == 1 ? get16(in.p + *at) : 0;
	r->ttl = get32(in.p + *at + 4);
	r->data = *at + 10;
	r->end = r->data + get16(in.p + *at + 8);
	if (r->end > in.len)
		return broken(e);
	*at = r->end;
	return 0;
}

static int take_addr(
	struct bytes in, const struct record *r, bool named, struct dns_answer *a, struct err *e)
{
	uint32_t addr;

	if (r->end - r->data != 4 || a->n_addrs == DNS_ADDRS_MAX)
		return broken(e);
	addr = get32(in.p + r->data);
	a->addrs[a->n_addrs++] = addr;
	if (!named)
		return 0;
	a->named[a->n_named++] = addr;
	if (r->ttl < a->ttl)
		a->ttl = r->ttl;
	return 0;
}

/*
 * name: what the question's name has turned out to stand for so far, since aliases come before what
 * they lead to. NULL where nothing answers the question.
 */
static int take_record(struct bytes in, size_t *at, char *name, struct dns_answer *a, struct err *e)
{
	struct record r;
	bool named;

	if (read_record(in, at, &r, e) < 0)
		return -1;
	named = name && strcmp(r.owner, name) == 0;
	if (r.type == DNS_A)
		return take_addr(in, &r, named, a, e);
	if (r.type != DNS_CNAME || !named)
		return 0;
	if (read_name(in, &r.data, true, name, e) < 0)
		return -1;
	return r.data == r.end ? 0 : broken(e);
}

int dns_parse_answer(
	struct bytes in, const struct dns_question *q, struct dns_answer *ret, struct err *e)
{
	struct dns_question theirs = {0};
	struct dns_answer a = {.ttl = UINT32_MAX};
	unsigned answers, records;
	size_t at;

	if (in.len > DNS_MESSAGE_MAX || in.len < HEADER || (in.p[2] & 0xf8) != 0x80)
		return broken(e);
	if (read_question(in, &theirs, e) < 0)
		return -1;
	if (theirs.id != q->id || theirs.type != q->type || strcmp(theirs.name, q->name) != 0)
		return err_set(e, ERR_INVALID, "a DNS answer to another question");
	at = theirs.end;
	a.rcode = in.p[3] & 0x0f;
	answers = get16(in.p + 6);
	records = answers + get16(in.p + 8) + get16(in.p + 10);
	if (q->type != DNS_A && q->type != DNS_ANY)
		answers = 0; /* none that are addresses of the name */
	for (unsigned i = 0; i < records; i++)
		if (take_record(in, &at, i < answers ? theirs.name : NULL, &a, e) < 0)
			return -1;
	*ret = a;
	return 0;
}

static int add_name(struct buf *b, const char *name, struct err *e)
{
	while (*name) {
		size_t n = strcspn(name, ".");
		uint8_t len = (uint8_t)n;

		if (n == 0 || n > LABEL_MAX)
			return err_set(e, ERR_INTERNAL, "not a DNS name");
		if (buf_add(b, &len, 1, e) < 0 || buf_add(b, name, n, e) < 0)
			return -1;
		name += n + (name[n] == '.');
	}
	return buf_add(b, "", 1, e);
}

/* The name is the question's (a pointer to it); what follows is put together here. */
static int add_record(struct buf *b, uint16_t type, struct bytes data, struct err *e)
{
	uint8_t head[12] = {0xc0, HEADER, (uint8_t)(type >> 8), (uint8_t)type, 0, 1, 0, 0, 0,
		TTL_LOCAL, (uint8_t)(data.len >> 8), (uint8_t)data.len};

	return buf_add(b, head, sizeof(head), e) < 0 ? -1 : buf_add(b, data.p, data.len, e);
}

int dns_make_answer(struct bytes query, const struct dns_question *q, enum dns_rcode rcode,
	uint32_t addr, const char *name, struct buf *ret, struct err *e)
{
	uint8_t head[HEADER] = {(uint8_t)(q->id >> 8), (uint8_t)q->id};
	uint8_t ipv4[4] = {
		(uint8_t)(addr >> 24), (uint8_t)(addr >> 16), (uint8_t)(addr >> 8), (uint8_t)addr};
	auto_buf struct buf ptr = {0};

	head[2] = (uint8_t)(0x80 | (query.p[2] & 0x01)); /* an answer; recursion as it was asked */
	head[3] = (uint8_t)(0x80 | rcode);               /* recursion is available */
	head[5] = 1;
	head[7] = addr || name;
	if (buf_add(ret, head, sizeof(head), e) < 0 ||
		buf_add(ret, query.p + HEADER, q->end - HEADER, e) < 0)
		return -1;
	if (addr)
		return add_record(ret, DNS_A, (struct bytes){ipv4, 4}, e);
	if (!name)
		return 0;
	return add_name(&ptr, name, e) < 0 ? -1 : add_record(ret, DNS_PTR, buf_bytes(&ptr), e);
}

bool dns_name_matches(const char *name, const char *pattern)
{
	size_t n = strlen(name), below;

	if (strncmp(pattern, "*.", 2) != 0)
		return strcasecmp(name, pattern) == 0;
	below = strlen(pattern + 1); /* with its dot */
	return n > below && strcasecmp(name + n - below, pattern + 1) == 0;
}

bool dns_reverse_name(const char *name, uint32_t *ret)
{
	static const char end[] = ".in-addr.arpa";
	uint32_t addr = 0;

	for (unsigned i = 0; i < 4; i++) {
		unsigned value = 0, digits = 0;

		while (isdigit((unsigned char)*name) && digits++ < 3)
			value = value * 10 + (unsigned)(*name++ - '0');
		if (!digits || value > 255 || (i < 3 && *name++ != '.'))
			return false;
		addr |= value << (8 * i);
	}
	if (strcmp(name, end) != 0)
		return false;
	*ret = addr;
	return true;
}
