#include "wire/ascii.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/base64-raw.h"

uint32_t ascii_crc(uint32_t crc, const void *p, size_t n)
{
	/* Indexed by four bits: a small table keeps the runner small. */
	static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8,
		0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
	const uint8_t *at = p;

	crc = ~crc;
	while (n--) {
		crc ^= *at++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

/* The check sum covers the number too. */
static uint32_t line_crc(uint16_t number, const uint8_t *p, size_t n)
{
	uint8_t head[2] = {(uint8_t)number, (uint8_t)(number >> 8)};

	return ascii_crc(ascii_crc(0, head, sizeof(head)), p, n);
}

size_t ascii_line(
	enum ascii_side side, uint16_t number, const uint8_t *p, size_t n, char out[ASCII_LINE_MAX])
{
	char mark[ASCII_LINE_HEAD + 1];

	snprintf(mark, sizeof(mark), "%c%08" PRIx32 "%04" PRIx16, side, line_crc(number, p, n),
		number);
	memcpy(out, mark, ASCII_LINE_HEAD);
	base64_put(p, n, out + ASCII_LINE_HEAD);
	out[ASCII_LINE_HEAD + base64_len(n)] = '\n';
	return ASCII_LINE_HEAD + base64_len(n) + 1;
}

uint16_t ascii_next(uint16_t number)
{
	return number == UINT16_MAX ? 1 : (uint16_t)(number + 1);
}

static bool parse_hex(const char *p, size_t n, uint32_t *ret)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

		if (d < 0)
			return false;
		v = v << 4 | (uint32_t)d;
	}
	*ret = v;
	return true;
}

/* Reads a whole line without its newline. A terminal may have added a carriage return. */
static enum ascii_event take_line(struct ascii_reader *r, uint8_t *out, size_t *ret_len)
{
	uint32_t crc = 0, number = 0;
	size_t len = r->len;
	long n;

	if (len && r->line[len - 1] == '\r')
		len--;
	if (len < ASCII_LINE_HEAD + 4 || r->line[0] != (char)r->side ||
		!parse_hex(r->line + 1, 8, &crc) || !parse_hex(r->line + 9, 4, &number))
		return ASCII_NOTHING;
	n = base64_get(r->line + ASCII_LINE_HEAD, len - ASCII_LINE_HEAD, out);
	if (n <= 0 || line_crc((uint16_t)number, out, (size_t)n) != crc)
		return ASCII_NOTHING;
	if (number && (!r->begun || number != r->next)) {
		bool was = r->begun;

		r->begun = false;
		return was ? ASCII_LOST : ASCII_NOTHING;
	}
	r->begun = true;
	r->next = ascii_next((uint16_t)number);
	*ret_len = (size_t)n;
	return number ? ASCII_BYTES : ASCII_BEGIN;
}

enum ascii_event ascii_read(struct ascii_reader *r, const char **p, size_t *left,
	uint8_t out[ASCII_PIECE], size_t *ret_len)
{
	while (*left) {
		enum ascii_event event = ASCII_NOTHING;
		char c = *(*p)++;

		--*left;
		/* A mark begins a new line, even after rubbish without a newline. */
		if (c == (char)r->side) {
			r->len = 0;
			r->skip = false;
		}
		if (c == '\n') {
			if (!r->skip)
				event = take_line(r, out, ret_len);
			r->len = 0;
			r->skip = false;
		} else if (r->len == sizeof(r->line)) {
			r->skip = true;
		} else if (!r->skip) {
			r->line[r->len++] = c;
		}
		if (event != ASCII_NOTHING)
			return event;
	}
	return ASCII_NOTHING;
}

bool ascii_is_id(const char *id)
{
	size_t n = strspn(id, "0123456789abcdef");

	return n && n <= ASCII_ID_MAX && !id[n];
}

size_t ascii_put_head(const struct ascii_head *h, char out[ASCII_HEAD_MAX])
{
	int n = snprintf(out, ASCII_HEAD_MAX, "moat1 %s %" PRIu32 " %" PRIu64 " %08" PRIx32 "\n",
		h->id, h->parts, h->length, h->crc);

	return (size_t)n;
}

/* Reads digits up to the separator; returns what follows the separator. */
static const char *take_number(const char *p, const char *end, char until, uint64_t *ret)
{
	uint64_t v = 0;
	int n = 0;

	for (; p < end && *p >= '0' && *p <= '9'; p++, n++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (!n || n > 15 || p == end || *p != until)
		return NULL;
	*ret = v;
	return p + 1;
}

size_t ascii_get_head(const char *text, size_t len, struct ascii_head *ret)
{
	static const char word[] = "moat1 ";
	const char *p = text, *end;
	struct ascii_head h = {0};
	uint64_t parts;
	size_t n = 0;

	end = text + (len < ASCII_HEAD_MAX ? len : ASCII_HEAD_MAX);
	if (len < sizeof(word) || memcmp(p, word, sizeof(word) - 1) != 0)
		return 0;
	p += sizeof(word) - 1;
	while (p < end && n < ASCII_ID_MAX && *p != ' ')
		h.id[n++] = *p++;
	if (p == end || *p++ != ' ' || !ascii_is_id(h.id))
		return 0;
	p = take_number(p, end, ' ', &parts);
	p = p ? take_number(p, end, ' ', &h.length) : NULL;
	if (!p || parts > UINT32_MAX || end - p < 9 || !parse_hex(p, 8, &h.crc) || p[8] != '\n')
		return 0;
	h.parts = (uint32_t)parts;
	*ret = h;
	return (size_t)(p + 9 - text);
}
