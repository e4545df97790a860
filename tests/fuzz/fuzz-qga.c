/* fuzz-qga.c - all parsers of what the guest agent sends: the first byte chooses the parser. */
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guestlink/agent/script-output.h"
#include "wire/base64.h"
#include "guestlink/agent/qga-parse.h"
#include "guestlink/agent/wincmd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_reply(struct bytes in)
{
	auto_qga_exit struct qga_exit x = {0};
	auto_json json_t *value = NULL;
	struct err e;

	if (qga_parse_reply(in, &value, &e) == 0 && qga_parse_status(value, 1000, &x, &e) > 0 &&
		(x.out.len > 1002 || x.err.len > 1002))
		abort();
}

static void try_sync(struct bytes in)
{
	size_t drop = 0, end = qga_find_sync(in, 7, &drop);

	if (end > in.len || drop > in.len || (end && drop))
		abort();
	if (end && in.p[end - 1] != '\n')
		abort();
}

static void try_base64(struct bytes in)
{
	struct buf out = {0};
	char *text;

	if (base64_decode((const char *)in.p, in.len, &out)) {
		struct buf again = {0};

		text = malloc(base64_len(out.len) + 1);
		base64_encode(buf_bytes(&out), text);
		if (!base64_decode(text, strlen(text), &again) || again.len != out.len ||
			(out.len && memcmp(buf_data(&again), buf_data(&out), out.len) != 0))
			abort();
		free(text);
		buf_free(&again);
	} else if (out.len) {
		abort();
	}
	buf_free(&out);
}

static void try_end(struct bytes in)
{
	struct buf b = {0};
	struct guest_exit x = {0};
	struct err e;

	if (buf_add(&b, in.p, in.len, &e) < 0)
		abort();
	if (agent_parse_end(&b, "T", &x) && (x.code < 0 || x.code > 255 || b.len > in.len))
		abort();
	buf_free(&b);
}

static int count_entry(void *arg, const struct guest_entry *entry, struct err *e)
{
	(void)e;
	*(size_t *)arg += strlen(entry->name) + strlen(entry->target) + 2;
	return 0;
}

static void try_list(struct bytes in)
{
	size_t used = 0;
	struct err e;

	agent_parse_list(in, count_entry, &used, &e);
	if (used > in.len)
		abort();
}

static void try_windows(struct bytes in)
{
	static const char id[] = "0123456789abcdef";
	struct buf b = {0};
	struct wincmd_end end;
	size_t used = 0;
	struct err e;

	wincmd_parse_list(in, count_entry, &used, &e);
	if (used > in.len)
		abort();
	if (buf_add(&b, in.p, in.len, &e) < 0)
		abort();
	wincmd_parse_end(&b, id, &end);
	if (b.len > in.len || (end.no_cwd && end.no_cwd != ENOENT && end.no_cwd != ENOTDIR))
		abort();
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data + 1, size - 1};

	if (size == 0)
		return 0;
	switch (data[0] % 6) {
	case 0:
		try_reply(in);
		break;
	case 1:
		try_sync(in);
		break;
	case 2:
		try_base64(in);
		break;
	case 3:
		try_end(in);
		break;
	case 5:
		try_windows(in);
		break;
	default:
		try_list(in);
	}
	return 0;
}
