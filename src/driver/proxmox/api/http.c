#include "driver/proxmox/api/http.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "util/str.h"

void http_answer_free(struct http_answer *a)
{
	buf_free(&a->body);
}

static int rubbish(struct err *e, const char *what)
{
	return err_set(e, ERR_UNAVAILABLE, "not an HTTP answer: %s", what);
}

/* The value of a header in [line, end), or NULL if it is another header. */
static const char *header_value(const char *line, const char *end, const char *name)
{
	size_t n = strlen(name);

	if ((size_t)(end - line) <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	for (line += n + 1; line < end && (*line == ' ' || *line == '\t');)
		line++;
	return line;
}

/* Whether a comma-separated value holds the word. */
static bool has_word(const char *v, const char *end, const char *word)
{
	size_t n = strlen(word);

	while (v < end) {
		const char *comma = memchr(v, ',', (size_t)(end - v));
		const char *stop = comma ? comma : end;

		while (v < stop && *v == ' ')
			v++;
		if ((size_t)(stop - v) >= n && strncasecmp(v, word, n) == 0 &&
			(v + n == stop || v[n] == ' '))
			return true;
		v = stop + 1;
	}
	return false;
}

static int read_length(const char *v, const char *end, uint64_t *ret, struct err *e)
{
	uint64_t n = 0;

	if (v == end)
		return rubbish(e, "an empty length");
	for (; v < end && *v != ' '; v++) {
		if (!isdigit((unsigned char)*v) || n > HTTP_BODY_MAX)
			return rubbish(e, "a length that is none");
		n = n * 10 + (uint64_t)(*v - '0');
	}
	if (n > HTTP_BODY_MAX)
		return err_set(e, ERR_LIMIT, "the answer is larger than %zu bytes", HTTP_BODY_MAX);
	*ret = n;
	return 0;
}

static int read_header(const char *line, const char *end, struct http_answer *a, bool *saw_keep,
	bool *saw_close, struct err *e)
{
	const char *v;

	if ((v = header_value(line, end, "content-length"))) {
		if (read_length(v, end, &a->length, e) < 0)
			return -1;
		a->has_length = true;
	} else if ((v = header_value(line, end, "transfer-encoding"))) {
		a->chunked = has_word(v, end, "chunked");
	} else if ((v = header_value(line, end, "connection"))) {
		*saw_keep |= has_word(v, end, "keep-alive");
		*saw_close |= has_word(v, end, "close");
	}
	return 0;
}

static int status_line(const char *line, const char *end, struct http_answer *a, struct err *e)
{
	if (end - line < 12 || strncmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
		!isdigit((unsigned char)line[9]) || !isdigit((unsigned char)line[10]) ||
		!isdigit((unsigned char)line[11]))
		return rubbish(e, "no status line");
	a->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
	line += 12;
	while (line < end && *line == ' ')
		line++;
	str_escape(line, (size_t)(end - line), a->reason, sizeof(a->reason));
	return 0;
}

int http_head(struct bytes in, struct http_answer *a, struct err *e)
{
	const char *text = (const char *)in.p, *end, *line;
	bool saw_keep = false, saw_close = false, first = true;

	end = in.len ? memmem(text, in.len, "\r\n\r\n", 4) : NULL;
	if (!end || (size_t)(end - text) > HTTP_HEAD_MAX) {
		if (in.len > HTTP_HEAD_MAX)
			return rubbish(e, "a head without an end");
		return 0;
	}
	*a = (struct http_answer){.head_len = (size_t)(end - text) + 4};
	for (line = text; line <= end; first = false) {
		const char *stop = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);

		if (first ? status_line(line, stop, a, e) < 0
			  : read_header(line, stop, a, &saw_keep, &saw_close, e) < 0)
			return -1;
		line = stop + 2;
	}
	/* The server closes the connection after every error, whatever its answer says. */
	a->keep = a->status < 400 && (saw_keep || !saw_close) && (a->has_length || a->chunked);
	if (a->status < 200 || a->status == 204 || a->status == 304) {
		a->has_length = true;
		a->length = 0;
	}
	a->complete = !a->chunked && a->has_length && a->length == 0;
	return 1;
}

static int take(struct http_answer *a, const uint8_t *p, size_t n, struct err *e)
{
	if (a->body.len + n > HTTP_BODY_MAX)
		return err_set(e, ERR_LIMIT, "the answer is larger than %zu bytes", HTTP_BODY_MAX);
	return n ? buf_add(&a->body, p, n, e) : 0;
}

/* Takes bytes of a chunked body. a->at: bytes of the present chunk that are still to come, its
 * CRLF included; 0: the size of the next chunk comes. */
static ssize_t chunked_body(struct bytes in, struct http_answer *a, struct err *e)
{
	size_t used = 0;

	while (!a->complete) {
		const uint8_t *p = in.p + used;
		size_t left = in.len - used, size = 0, digits = 0, n;
		const uint8_t *nl;

		if (a->at > 2) {
			n = a->at - 2 < left ? a->at - 2 : left;
			if (take(a, p, n, e) < 0)
				return -1;
			a->at -= n;
			used += n;
			if (a->at > 2)
				return (ssize_t)used;
			continue;
		}
		if (a->at == 2) {
			if (left < 2)
				return (ssize_t)used;
			if (memcmp(p, "\r\n", 2) != 0)
				return rubbish(e, "a chunk without an end");
			a->at = 0;
			used += 2;
			continue;
		}
		nl = left ? memchr(p, '\n', left) : NULL;
		if (!nl && left < 256)
			return (ssize_t)used;
		for (; digits < left && isxdigit(p[digits]); digits++) {
			if (size > HTTP_BODY_MAX)
				return rubbish(e, "a chunk without limits");
			size = size * 16 + (size_t)(p[digits] <= '9' ? p[digits] - '0'
								     : (p[digits] | 32) - 'a' + 10);
		}
		if (!nl || digits == 0)
			return rubbish(e, "no chunk size");
		used += (size_t)(nl + 1 - p);
		if (size > 0)
			a->at = size + 2;
		else
			a->complete = true; /* a trailer would cost us the connection, no more */
	}
	return (ssize_t)used;
}

ssize_t http_body(struct bytes in, struct http_answer *a, struct err *e)
{
	size_t n = in.len;

	if (a->complete)
		return 0;
	if (a->chunked)
		return chunked_body(in, a, e);
	if (a->has_length && n > a->length - a->body.len)
		n = (size_t)(a->length - a->body.len);
	if (take(a, in.p, n, e) < 0)
		return -1;
	a->complete = a->has_length && a->body.len == a->length;
	return (ssize_t)n;
}

int http_take(struct buf *in, struct http_answer *a, struct err *e)
{
	ssize_t used;

	while (!a->has_head) {
		int head = http_head(buf_bytes(in), a, e);

		if (head <= 0)
			return head;
		buf_drop(in, a->head_len);
		a->has_head = a->status >= 200;
	}
	used = http_body(buf_bytes(in), a, e);
	if (used < 0)
		return -1;
	buf_drop(in, (size_t)used);
	return a->complete;
}

int http_body_end(struct http_answer *a, struct err *e)
{
	a->keep = false;
	if (!a->complete && (a->chunked || a->has_length))
		return err_set(
			e, ERR_UNAVAILABLE, "the connection ended in the middle of an answer");
	a->complete = true;
	return 0;
}
