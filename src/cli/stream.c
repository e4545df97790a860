#include "cli/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"
#include "wire/base64.h"

enum { KEEP_MAX = 64 * 1024 * 1024 };

void stream_free(struct stream *s)
{
	buf_free(&s->kept[0]);
	buf_free(&s->kept[1]);
}

static bool is_tty(const struct stream *s, int which)
{
	return which ? s->cli->screen.err_tty : s->cli->screen.out_tty;
}

static int write_safely(struct stream *s, int which, struct bytes data, struct err *e)
{
	auto_buf struct buf safe = {0};

	if (tty_filter_add(&s->filters[which], data, &safe, e) < 0)
		return -1;
	return write_out(STDOUT_FILENO + which, buf_bytes(&safe), e);
}

int stream_data(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	struct stream *s = arg;
	int which = stream == CALL_STDERR;

	if (data.len == 0)
		return 0;
	if (s->keep && s->kept[which].len + data.len > KEEP_MAX)
		return err_set(e, ERR_LIMIT, "more output than --json can hold (%d MiB)",
			KEEP_MAX / 1024 / 1024);
	if (s->keep)
		return buf_add(&s->kept[which], data.p, data.len, e);
	if (s->raw || !is_tty(s, which))
		return write_out(STDOUT_FILENO + which, data, e);
	return write_safely(s, which, data, e);
}

int stream_end(struct stream *s, struct err *e)
{
	for (int which = 0; which < 2; which++)
		if (s->filters[which].tail_len && write_safely(s, which, (struct bytes){0}, e) < 0)
			return -1;
	return 0;
}

int stream_to_json(const struct buf *kept, json_t *into, const char *name, struct err *e)
{
	json_t *text = json_stringn(kept->len ? (const char *)buf_data(kept) : "", kept->len);
	auto_free char *encoded = NULL, *key = NULL;

	if (text)
		return json_object_set_new(into, name, text) < 0 ? err_oom(e) : 0;
	encoded = malloc(base64_len(kept->len) + 1);
	if (!encoded)
		return err_oom(e);
	base64_encode(buf_bytes(kept), encoded);
	if (str_printf(&key, e, "%s_base64", name) < 0)
		return -1;
	return json_object_set_new(into, key, json_string(encoded)) < 0 ? err_oom(e) : 0;
}

int read_stdin(size_t max, char **ret, size_t *ret_len, struct err *e)
{
	auto_buf struct buf b = {0};

	for (;;) {
		uint8_t *room = buf_room(&b, 16384);
		ssize_t got = room ? read(STDIN_FILENO, room, 16384) : -1;

		if (!room)
			return err_oom(e);
		if (got < 0)
			return err_sys(e, errno, "standard input");
		if (got == 0)
			break;
		buf_grew(&b, (size_t)got);
		if (b.len > max)
			return err_set(e, ERR_LIMIT, "standard input has more than %zu bytes", max);
	}
	*ret_len = b.len;
	*ret = buf_take_str(&b);
	return *ret ? 0 : err_oom(e);
}
