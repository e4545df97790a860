/* fuzz-terminal.c - a guest's output on its way to a terminal: the first byte chooses the size of
 * the pieces in which it arrives. Nothing of it may steer the terminal. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/screen.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* UTF-8 without control characters other than `besides`, in one byte or two, and without those that
 * change the direction of text. */
static void check_harmless(struct bytes text, const char *besides)
{
	json_t *is_utf8 = json_stringn(text.len ? (const char *)text.p : "", text.len);

	if (!is_utf8)
		abort();
	json_decref(is_utf8);
	for (size_t i = 0; i < text.len; i++) {
		const uint8_t *p = text.p + i;
		size_t left = text.len - i;

		if (*p == 0x7f || (*p < 0x20 && (!*p || !strchr(besides, *p))))
			abort();
		if (left > 1 && p[0] == 0xc2 && p[1] < 0xa0)
			abort();
		if (left > 2 && p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae)
			abort();
		if (left > 2 && p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)
			abort();
	}
}

static void filter(struct bytes in, size_t piece, struct buf *out)
{
	struct tty_filter f = {0};
	struct err e;

	for (size_t at = 0; at < in.len; at += piece) {
		struct bytes part = {in.p + at, in.len - at < piece ? in.len - at : piece};

		if (tty_filter_add(&f, part, out, &e) < 0)
			abort();
	}
	if (tty_filter_add(&f, (struct bytes){0}, out, &e) < 0 || f.tail_len)
		abort();
}

/* Without "\r\n", which is one thing in one piece and two in two. */
static bool has_return(struct bytes in)
{
	return in.len && memchr(in.p, '\r', in.len);
}

static void try_filter(struct bytes in, size_t piece)
{
	auto_buf struct buf whole = {0}, pieces = {0};

	filter(in, in.len ? in.len : 1, &whole);
	filter(in, piece, &pieces);
	check_harmless(buf_bytes(&whole), "\r\n\t");
	check_harmless(buf_bytes(&pieces), "\r\n\t");
	if (has_return(in))
		return;
	if (whole.len != pieces.len ||
		(whole.len && memcmp(buf_data(&whole), buf_data(&pieces), whole.len) != 0))
		abort();
}

static void try_lines(const char *text)
{
	auto_free char *safe = text_safe(text), *printed = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&printed, &len);

	if (!safe || !f)
		abort();
	check_harmless((struct bytes){(uint8_t *)safe, strlen(safe)}, "");
	print_safe_lines(f, text);
	fclose(f);
	check_harmless((struct bytes){(uint8_t *)printed, len}, "\n");
}

/* A row is a line, whatever its cells are. */
static void try_table(const char *text, unsigned width)
{
	static const char *const heads[] = {"FIRST", "SECOND", "THIRD", NULL};
	const char *const cells[] = {text, text + strlen(text) / 2, "x"};
	struct screen s = {.width = width, .out_tty = true};
	auto_free char *printed = NULL;
	struct table *t = NULL;
	FILE *out = stdout;
	size_t len = 0, lines = 0;
	struct err e;

	stdout = open_memstream(&printed, &len);
	if (!stdout || table_new(heads, &t, &e) < 0 || table_row(t, cells, &e) < 0)
		abort();
	table_print(t, &s, stdout);
	table_free(t);
	fclose(stdout);
	stdout = out;
	check_harmless((struct bytes){(uint8_t *)printed, len}, "\n");
	for (size_t i = 0; i < len; i++)
		lines += printed[i] == '\n';
	if (lines != 2)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = NULL;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		abort();
	try_filter((struct bytes){data + 1, size - 1}, data[0] % 8 + 1);
	try_lines(text);
	try_table(text, 40 + data[0]);
	return 0;
}
