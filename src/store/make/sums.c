#include "store/make/sums.h"

#include <ctype.h>
#include <string.h>

#include "util/str.h"
#include "wire/base64.h"

/* Takes the next line off *left, without its end. */
static bool next_line(struct bytes *left, struct bytes *ret)
{
	const uint8_t *end;
	size_t n;

	if (left->len == 0)
		return false;
	end = memchr(left->p, '\n', left->len);
	n = end ? (size_t)(end - left->p) : left->len;
	*ret = (struct bytes){left->p, n};
	left->p += n + (end != NULL);
	left->len -= n + (end != NULL);
	if (ret->len && ret->p[ret->len - 1] == '\r')
		ret->len--;
	return true;
}

/* A line is HEX, a blank, a blank or a star, NAME. */
static bool is_sum_of(struct bytes line, const char *file, unsigned digits)
{
	size_t n = strlen(file);

	if (line.len != digits + 2 + n || line.p[digits] != ' ' ||
		!strchr(" *", line.p[digits + 1]) || memcmp(line.p + digits + 2, file, n) != 0)
		return false;
	for (unsigned i = 0; i < digits; i++)
		if (!isxdigit(line.p[i]))
			return false;
	return line.p[digits + 1] != 0;
}

int sums_find(struct bytes list, const char *file, unsigned digits, char ret_hex[SUM_HEX_MAX + 1],
	struct err *e)
{
	char found[SUM_HEX_MAX + 1] = "", hex[SUM_HEX_MAX + 1];
	struct bytes line;

	while (next_line(&list, &line)) {
		if (!is_sum_of(line, file, digits))
			continue;
		for (unsigned i = 0; i < digits; i++)
			hex[i] = (char)tolower(line.p[i]);
		hex[digits] = 0;
		if (*found && strcmp(found, hex) != 0)
			return err_set(e, ERR_INVALID, "two checksums for %s", file);
		memcpy(found, hex, sizeof(hex));
	}
	if (!*found)
		return err_set(e, ERR_INVALID, "no checksum for %s", file);
	memcpy(ret_hex, found, sizeof(found));
	return 0;
}

static bool line_starts(struct bytes line, const char *text)
{
	return line.len >= strlen(text) && memcmp(line.p, text, strlen(text)) == 0;
}

int sums_unarmour(struct bytes key, struct buf *ret, struct err *e)
{
	auto_buf struct buf text = {0};
	struct bytes line, left = key;
	enum { BEFORE, HEADERS, BODY } at = BEFORE;

	if (!line_starts(key, "-----BEGIN PGP"))
		return buf_add(ret, key.p, key.len, e);
	while (next_line(&left, &line)) {
		if (at == BEFORE)
			at = HEADERS;
		else if (at == HEADERS && line.len == 0)
			at = BODY;
		else if (at == BODY && (line.len == 0 || line.p[0] == '=' || line.p[0] == '-'))
			break; /* the checksum, or the end */
		else if (at == BODY && buf_add(&text, line.p, line.len, e) < 0)
			return -1;
	}
	if (!text.len || !base64_decode((const char *)buf_data(&text), text.len, ret))
		return err_set(e, ERR_INVALID, "not a key");
	return 0;
}

bool sums_signed_by(struct bytes status, const char *fingerprint)
{
	size_t n = strlen(fingerprint);
	struct bytes line;

	while (next_line(&status, &line)) {
		if (!line_starts(line, "[GNUPG:] VALIDSIG "))
			continue;
		/* The primary key's fingerprint is the last word. */
		if (line.len > n && line.p[line.len - n - 1] == ' ' &&
			memcmp(line.p + line.len - n, fingerprint, n) == 0)
			return true;
	}
	return false;
}
