/* parse.c - reads an IDENTITY frame. Pure. */

#include <ctype.h>
#include <string.h>

#include "moat-guest/identity/identity.h"

enum { HOSTNAME_MAX = 64 };

static int hex_value(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "02:00:00:00:00:01" */
static bool parse_mac(const char *s, uint8_t ret[6])
{
	if (!s || strlen(s) != 17)
		return false;
	for (int i = 0; i < 6; i++, s += 3) {
		int high = hex_value(s[0]), low = hex_value(s[1]);

		if (high < 0 || low < 0 || (i < 5 && s[2] != ':'))
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* The hostname becomes the content of files: it must be one word. */
static bool good_hostname(const char *s)
{
	if (!s || strlen(s) > HOSTNAME_MAX)
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '-' && *s != '.')
			return false;
	return true;
}

static bool good_machine_id(const char *s)
{
	if (!s || (*s && strlen(s) != MACHINE_ID_LEN))
		return false;
	for (; *s; s++)
		if (hex_value(*s) < 0)
			return false;
	return true;
}

static bool parse_key(const uint8_t **p, size_t *left, struct identity_key *ret)
{
	ret->kind = wire_next_string(p, left);
	ret->secret = ret->kind ? wire_next_string(p, left) : NULL;
	ret->public = ret->secret ? wire_next_string(p, left) : NULL;
	if (!ret->public || !*ret->secret || !*ret->public)
		return false;
	/* The kind becomes part of a path. */
	for (size_t i = 0; i < WIRE_KEYS_MAX; i++)
		if (strcmp(ret->kind, identity_kinds[i]) == 0)
			return true;
	return false;
}

bool identity_parse(const struct wire_msg *m, const struct frame *f, struct identity *ret)
{
	const uint8_t *p = f->body;
	size_t left = f->body_len;

	*ret = (struct identity){
		.flags = m->flags, .now_ns = m->size, .n_nics = m->count, .n_keys = m->count2};
	ret->hostname = wire_next_string(&p, &left);
	ret->machine_id = ret->hostname ? wire_next_string(&p, &left) : NULL;
	if (!good_hostname(ret->hostname) || !good_machine_id(ret->machine_id) ||
		m->count > WIRE_NICS_MAX || m->count2 > WIRE_KEYS_MAX)
		return false;
	if ((m->flags & WIRE_IDENTITY_HOSTNAME && !*ret->hostname) ||
		(m->flags & WIRE_IDENTITY_MACHINE && !*ret->machine_id))
		return false;
	for (uint32_t i = 0; i < m->count; i++)
		if (!parse_mac(wire_next_string(&p, &left), ret->nics[i].old) ||
			!parse_mac(wire_next_string(&p, &left), ret->nics[i].mac))
			return false;
	for (uint32_t i = 0; i < m->count2; i++)
		if (!parse_key(&p, &left, &ret->keys[i]))
			return false;
	if (left > WIRE_RANDOM_MAX || (m->flags & WIRE_IDENTITY_RANDOM && left < 32))
		return false;
	ret->random = p;
	ret->n_random = left;
	return true;
}
