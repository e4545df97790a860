#include "net/dns/msg.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "spec/net-addr.h"

enum { HEADER = 12, LABEL_MAX = 63, WIRE_NAME_MAX = 255, JUMPS_MAX = 32, TTL_LOCAL = 5 };
enum { CLASS_IN = 1 };
/* Bits of a header's third byte, and of its fourth. */
enum { ANSWER = 0x80, CUT = 0x02, RECURSION_DESIRED = 0x01 };
enum { RECURSION_AVAILABLE = 0x80 };

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
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

/* Adds one label to the text of a name; false if there is no room. */
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
 * Reads the name at *at and moves *at behind it. Compression pointers are allowed only in answers:
 * before a question there is nothing to point to. They must lead backwards, to bytes that are all
 * before the pointer, and there is a limit to their number, so that no message makes us loop. They
 * must not lead into the header: we replace it, and the guest would read another name there.
 */
static int read_name(struct bytes in, size_t *at, bool pointers, char *name, struct err *e)
{
	size_t pos = *at, limit = in.len, len = 0, wire = 0;
	bool jumped = false;

	name[0] = 0;
	for (unsigned jumps = 0;;) {
		uint8_t n;

		if (pos >= limit)
			return broken(e);
		n = in.p[pos];
		if (n >= 0xc0) {
			size_t to;

			if (!pointers || pos + 2 > limit || ++jumps > JUMPS_MAX)
				return broken(e);
			to = (size_t)(n & 0x3f) << 8 | in.p[pos + 1];
			if (!jumped)
				*at = pos + 2;
			if (to < HEADER || to >= pos)
				return broken(e);
			jumped = true;
			limit = pos;
			pos = to;
			continue;
		}
		if (n > LABEL_MAX || pos + 1 + n > limit || (wire += 1u + n) > WIRE_NAME_MAX)
			return broken(e);
		if (n == 0)
			break;
		if (!add_label(name, &len, in.p + pos + 1, n))
			return broken(e);
		pos += 1u + n;
	}
	if (!jumped)
		*at = pos + 1;
	return 0;
}

/* Reads the one question of a message, query or answer, and moves *at behind it. */
static int read_question(struct bytes in, size_t *at, struct dns_question *q, struct err *e)
{
	*at = HEADER;
	if (in.len < HEADER || in.len > DNS_MESSAGE_MAX || get16(in.p + 4) != 1)
		return broken(e);
	q->id = get16(in.p);
	if (read_name(in, at, false, q->name, e) < 0)
		return -1;
	if (*at + 4 > in.len || get16(in.p + *at + 2) != CLASS_IN)
		return broken(e);
	q->type = get16(in.p + *at);
	*at += 4;
	q->asked_len = *at - HEADER;
	memcpy(q->asked, in.p + HEADER, q->asked_len);
	return 0;
}

int dns_parse_query(struct bytes in, struct dns_question *ret, struct err *e)
{
	struct dns_question q = {0};
	size_t at;

	if (read_question(in, &at, &q, e) < 0)
		return -1;
	/* It must be a query (QR 0) of the standard kind (opcode 0), and have no other records
	 * than one with options in the additional section, which is not looked at. */
	if (in.p[2] & 0xf8 || get16(in.p + 6) || get16(in.p + 8) || get16(in.p + 10) > 1)
		return broken(e);
	q.recursion = in.p[2] & RECURSION_DESIRED;
	*ret = q;
	return 0;
}

struct record {
	char owner[DNS_NAME_MAX];
	uint16_t type;
	uint32_t ttl;
	size_t data, end;
};

/* Reads a record. One of another class than IN becomes type 0, which callers ignore. */
static int read_record(struct bytes in, size_t *at, struct record *r, struct err *e)
{
	if (read_name(in, at, true, r->owner, e) < 0)
		return -1;
	if (*at + 10 > in.len)
		return broken(e);
	r->type = get16(in.p + *at + 2) == CLASS_IN ? get16(in.p + *at) : 0;
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

/* name: begins as the question's name and follows each alias (CNAME), since aliases come before the
 * records that they lead to. NULL in sections that do not answer the question. */
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

int dns_parse_answer(struct bytes in, const struct dns_question *q, uint16_t id,
	struct dns_answer *ret, struct err *e)
{
	struct dns_question theirs = {0};
	struct dns_answer a = {.ttl = UINT32_MAX};

	if (read_question(in, &a.end, &theirs, e) < 0)
		return -1;
	if ((in.p[2] & 0xf8) != ANSWER)
		return broken(e);
	if (theirs.id != id || theirs.type != q->type || strcmp(theirs.name, q->name) != 0)
		return err_set(e, ERR_INVALID, "a DNS answer to another question");
	a.cut = in.p[2] & CUT;
	a.rcode = in.p[3] & 0x0f;
	a.counts[0] = get16(in.p + 6);
	a.counts[1] = get16(in.p + 8);
	for (unsigned i = 0; i < (unsigned)a.counts[0] + a.counts[1]; i++) {
		bool answers = i < a.counts[0] && q->type == DNS_A;

		if (take_record(in, &a.end, answers ? theirs.name : NULL, &a, e) < 0)
			return -1;
	}
	*ret = a;
	return 0;
}

/* The header of an answer of ours. Recursion is available. */
static void put_head(uint8_t head[HEADER], const struct dns_question *q, bool cut, unsigned rcode,
	const uint16_t counts[2])
{
	memset(head, 0, HEADER);
	put16(head, q->id);
	head[2] = (uint8_t)(ANSWER | (cut ? CUT : 0) | (q->recursion ? RECURSION_DESIRED : 0));
	head[3] = (uint8_t)(RECURSION_AVAILABLE | rcode);
	put16(head + 4, 1);
	put16(head + 6, counts[0]);
	put16(head + 8, counts[1]);
}

void dns_pass_on(const struct dns_answer *a, const struct dns_question *q, uint8_t *message)
{
	put_head(message, q, a->cut, a->rcode, a->counts);
	/* Both questions have the same name, so the same length: all pointers stay right. */
	memcpy(message + HEADER, q->asked, q->asked_len);
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

/* Adds a record. Its name is a pointer to the question's name. */
static int add_record(struct buf *b, uint16_t type, struct bytes data, struct err *e)
{
	uint8_t head[12] = {0xc0, HEADER, (uint8_t)(type >> 8), (uint8_t)type, 0, 1, 0, 0, 0,
		TTL_LOCAL, (uint8_t)(data.len >> 8), (uint8_t)data.len};

	return buf_add(b, head, sizeof(head), e) < 0 ? -1 : buf_add(b, data.p, data.len, e);
}

int dns_make_answer(const struct dns_question *q, enum dns_rcode rcode, uint32_t addr,
	const char *name, struct buf *ret, struct err *e)
{
	uint8_t head[HEADER], ipv4[4] = {(uint8_t)(addr >> 24), (uint8_t)(addr >> 16),
				      (uint8_t)(addr >> 8), (uint8_t)addr};
	auto_buf struct buf ptr = {0};

	put_head(head, q, false, rcode, (const uint16_t[2]){addr || name, 0});
	if (buf_add(ret, head, sizeof(head), e) < 0 || buf_add(ret, q->asked, q->asked_len, e) < 0)
		return -1;
	if (addr)
		return add_record(ret, DNS_A, (struct bytes){ipv4, 4}, e);
	if (!name)
		return 0;
	return add_name(&ptr, name, e) < 0 ? -1 : add_record(ret, DNS_PTR, buf_bytes(&ptr), e);
}

int dns_make_query(const struct dns_question *q, uint16_t id, struct buf *ret, struct err *e)
{
	uint8_t head[HEADER] = {0}, tail[4];

	if (!dns_is_host_name(q->name))
		return err_set(e, ERR_INVALID, "not a host name");
	put16(head, id);
	head[2] = RECURSION_DESIRED;
	put16(head + 4, 1);
	put16(tail, q->type);
	put16(tail + 2, CLASS_IN);
	if (buf_add(ret, head, sizeof(head), e) < 0 || add_name(ret, q->name, e) < 0)
		return -1;
	return buf_add(ret, tail, sizeof(tail), e);
}

bool dns_is_host_name(const char *name)
{
	return *name && !strchr(name, '?');
}

bool dns_name_matches(const char *name, const char *pattern)
{
	size_t n = strlen(name), below;

	if (strncmp(pattern, "*.", 2) != 0)
		return strcasecmp(name, pattern) == 0;
	below = strlen(pattern + 1); /* ".example.org" */
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
