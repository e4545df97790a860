#include "compose/text/ports.h"

#include <stdlib.h>
#include <string.h>

#include "compose/text/values.h"
#include "util/auto.h"
#include "util/str.h"

/* So many ports of one item are a mistake. */
#define COUNT_MAX 64

static int bad_port(const char *text, size_t len, struct err *e)
{
	char shown[64];

	str_escape(text, len, shown, sizeof(shown));
	return err_set(e, ERR_INVALID, "\"%s\" is not a port or a range of ports", shown);
}

static int read_number(const char *s, size_t len, unsigned min, unsigned *ret, struct err *e)
{
	char digits[8];
	uint64_t value;

	if (len == 0 || len >= sizeof(digits))
		return bad_port(s, len, e);
	memcpy(digits, s, len);
	digits[len] = '\0';
	if (str_to_u64(digits, min, 65535, &value, e) < 0)
		return bad_port(s, len, e);
	*ret = (unsigned)value;
	return 0;
}

/* "80" or "3000-3005" */
static int read_range(const char *s, size_t len, unsigned min, unsigned *ret_first,
	unsigned *ret_count, struct err *e)
{
	const char *dash = memchr(s, '-', len);
	unsigned first, last;

	if (read_number(s, dash ? (size_t)(dash - s) : len, min, &first, e) < 0)
		return -1;
	last = first;
	if (dash && read_number(dash + 1, len - (size_t)(dash + 1 - s), 1, &last, e) < 0)
		return -1;
	if (last < first || last - first >= COUNT_MAX)
		return err_set(e, ERR_INVALID, "a range has 1 to %d ports", COUNT_MAX);
	*ret_first = first;
	*ret_count = last - first + 1;
	return 0;
}

static int read_protocol(const char *s, bool *ret_udp, struct err *e)
{
	if (strcmp(s, "tcp") != 0 && strcmp(s, "udp") != 0)
		return err_set(e, ERR_INVALID, "the protocol is tcp or udp, not \"%.20s\"", s);
	*ret_udp = s[0] == 'u';
	return 0;
}

static bool is_elsewhere(const char *address, size_t len)
{
	static const char *const here[] = {"127.0.0.1", "localhost", "", NULL};

	for (const char *const *at = here; *at; at++)
		if (strlen(*at) == len && strncmp(address, *at, len) == 0)
			return false;
	return true;
}

static int read_short(const char *s, struct port_range *ret, struct err *e)
{
	const char *slash = strrchr(s, '/'), *colon, *host_colon;
	size_t len = slash ? (size_t)(slash - s) : strlen(s);
	struct port_range r = {0};
	unsigned host_count;

	if (slash && read_protocol(slash + 1, &r.udp, e) < 0)
		return -1;
	colon = memrchr(s, ':', len);
	if (!colon) {
		if (read_range(s, len, 1, &r.port, &r.count, e) < 0)
			return -1;
		*ret = r;
		return 0;
	}
	if (read_range(colon + 1, len - (size_t)(colon + 1 - s), 1, &r.port, &r.count, e) < 0)
		return -1;
	len = (size_t)(colon - s);
	host_colon = memrchr(s, ':', len);
	if (host_colon) {
		r.elsewhere = is_elsewhere(s, (size_t)(host_colon - s));
		len -= (size_t)(host_colon + 1 - s);
		s = host_colon + 1;
	}
	if (len && read_range(s, len, 0, &r.host, &host_count, e) < 0)
		return -1;
	if (len && r.host && host_count != r.count)
		return err_set(e, ERR_INVALID, "%u ports of the host for %u of the service",
			host_count, r.count);
	*ret = r;
	return 0;
}

static int read_long(const json_t *j, struct port_range *ret, struct err *e)
{
	auto_free char *target = NULL, *published = NULL;
	const char *protocol = json_string_value(json_object_get(j, "protocol"));
	const char *address = json_string_value(json_object_get(j, "host_ip"));
	const json_t *host = json_object_get(j, "published");
	struct port_range r = {0};
	unsigned host_count;

	if (!json_object_get(j, "target"))
		return err_set(e, ERR_INVALID, "target is missing: the port of the service");
	if (value_text(json_object_get(j, "target"), &target, e) < 0 ||
		read_range(target, strlen(target), 1, &r.port, &r.count, e) < 0)
		return -1;
	if (protocol && read_protocol(protocol, &r.udp, e) < 0)
		return -1;
	r.elsewhere = address && is_elsewhere(address, strlen(address));
	if (host &&
		(value_text(host, &published, e) < 0 ||
			read_range(published, strlen(published), 0, &r.host, &host_count, e) < 0))
		return -1;
	*ret = r;
	return 0;
}

int port_read(const json_t *j, struct port_range *ret, struct err *e)
{
	auto_free char *text = NULL;

	if (json_is_object(j))
		return read_long(j, ret, e);
	if (value_text(j, &text, e) < 0)
		return -1;
	return read_short(text, ret, e);
}
