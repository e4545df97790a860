#include "wire/wire.h"

#include <string.h>

const struct frame_limits wire_to_guest = {
	.head_min = 5, .head_max = WIRE_HEAD_MAX, .body_max = WIRE_STRINGS_MAX};
const struct frame_limits wire_to_host = {
	.head_min = 5, .head_max = WIRE_HEAD_MAX, .body_max = WIRE_PIECE};

/* Either writes or reads, so that each type's layout is written once. */
struct cursor {
	uint8_t *out;
	const uint8_t *in;
	size_t at, end;
	bool bad;
};

static void num(struct cursor *c, void *value, size_t n)
{
	uint64_t v = 0;

	if (c->at + n > c->end) {
		c->bad = true;
		return;
	}
	if (c->out) {
		v = n == 1   ? *(uint8_t *)value
		    : n == 2 ? *(uint16_t *)value
		    : n == 4 ? *(uint32_t *)value
			     : *(uint64_t *)value;
		for (size_t i = 0; i < n; i++)
			c->out[c->at + i] = (uint8_t)(v >> (8 * i));
	} else {
		for (size_t i = 0; i < n; i++)
			v |= (uint64_t)c->in[c->at + i] << (8 * i);
		if (n == 1)
			*(uint8_t *)value = (uint8_t)v;
		else if (n == 2)
			*(uint16_t *)value = (uint16_t)v;
		else if (n == 4)
			*(uint32_t *)value = (uint32_t)v;
		else
			*(uint64_t *)value = v;
	}
	c->at += n;
}

static void nonce(struct cursor *c, uint8_t value[WIRE_NONCE])
{
	for (int i = 0; i < WIRE_NONCE; i++)
		num(c, &value[i], 1);
}

#define NUM(member) num(c, &m->member, sizeof(m->member))

static bool members(struct cursor *c, struct wire_msg *m)
{
	switch (m->type) {
	case WIRE_HELLO:
		NUM(version);
		nonce(c, m->nonce);
		return true;
	case WIRE_EXEC:
		NUM(flags);
		NUM(timeout_ms);
		NUM(max);
		NUM(rows);
		NUM(cols);
		NUM(count);
		NUM(count2);
		return true;
	case WIRE_DATA:
		NUM(stream);
		return true;
	case WIRE_CREDIT:
		NUM(count);
		return true;
	case WIRE_SIGNAL:
		NUM(code);
		return true;
	case WIRE_RESIZE:
		NUM(rows);
		NUM(cols);
		return true;
	case WIRE_READ:
		NUM(max);
		NUM(size);
		NUM(size2);
		return true;
	case WIRE_WRITE:
		NUM(flags);
		NUM(mode);
		return true;
	case WIRE_MKDIR:
		NUM(mode);
		return true;
	case WIRE_IDENTITY:
		NUM(flags);
		NUM(size);
		NUM(count);
		NUM(count2);
		return m->count <= WIRE_NICS_MAX && m->count2 <= WIRE_KEYS_MAX &&
		       !(m->flags & ~(uint32_t)WIRE_IDENTITY_ALL);
	case WIRE_EOF:
	case WIRE_CANCEL:
	case WIRE_LIST:
	case WIRE_SYMLINK:
	case WIRE_PING:
	case WIRE_PONG:
		return true;
	case WIRE_HELLO_REPLY:
		NUM(version);
		nonce(c, m->nonce);
		NUM(code);
		return true;
	case WIRE_EXIT:
		NUM(how);
		NUM(code);
		NUM(timed_out);
		NUM(size);
		NUM(size2);
		return m->how < WIRE_HOW_COUNT && m->timed_out <= 1 && m->size <= INT64_MAX &&
		       m->size2 <= INT64_MAX;
	case WIRE_DONE:
		NUM(code);
		NUM(size);
		NUM(mode);
		return m->size <= INT64_MAX;
	}
	return false;
}

size_t wire_encode(const struct wire_msg *msg, uint8_t out[WIRE_HEAD_MAX])
{
	struct wire_msg copy = *msg, *m = &copy;
	struct cursor cur = {.out = out, .end = WIRE_HEAD_MAX}, *c = &cur;
	uint8_t type = (uint8_t)m->type;

	num(c, &type, 1);
	NUM(id);
	members(c, m);
	return cur.at;
}

bool wire_decode(const uint8_t *p, size_t len, struct wire_msg *ret)
{
	struct wire_msg msg = {0}, *m = &msg;
	struct cursor cur = {.in = p, .end = len}, *c = &cur;
	uint8_t type = 0;

	num(c, &type, 1);
	NUM(id);
	m->type = (enum wire_type)type;
	if (cur.bad || !members(c, m) || cur.bad || cur.at != len)
		return false;
	*ret = msg;
	return true;
}

const char *wire_next_string(const uint8_t **p, size_t *left)
{
	const uint8_t *end = *left ? memchr(*p, 0, *left) : NULL;
	const char *s = (const char *)*p;

	if (!end)
		return NULL;
	*left -= (size_t)(end + 1 - *p);
	*p = end + 1;
	return s;
}

static void entry_numbers(struct cursor *c, struct wire_entry *entry)
{
	num(c, &entry->mode, 4);
	num(c, &entry->size, 8);
	num(c, &entry->mtime, 8);
}

size_t wire_put_entry(const struct wire_entry *entry, uint8_t out[WIRE_ENTRY_MAX])
{
	struct wire_entry copy = *entry;
	struct cursor c = {.out = out, .end = WIRE_ENTRY_MAX};
	size_t name = strlen(entry->name) + 1, target = strlen(entry->target) + 1;

	entry_numbers(&c, &copy);
	if (c.at + name + target > WIRE_ENTRY_MAX)
		return 0;
	memcpy(out + c.at, entry->name, name);
	memcpy(out + c.at + name, entry->target, target);
	return c.at + name + target;
}

int wire_next_entry(const uint8_t **p, size_t *left, struct wire_entry *ret)
{
	struct wire_entry entry;
	struct cursor c = {.in = *p, .end = *left};
	const uint8_t *at;
	size_t rest;

	entry_numbers(&c, &entry);
	if (c.bad)
		return 0;
	if (entry.size > INT64_MAX)
		return -1;
	at = *p + c.at;
	rest = *left - c.at;
	entry.name = wire_next_string(&at, &rest);
	entry.target = entry.name ? wire_next_string(&at, &rest) : NULL;
	if (!entry.target)
		return *left >= WIRE_ENTRY_MAX ? -1 : 0;
	*p = at;
	*left = rest;
	*ret = entry;
	return 1;
}
