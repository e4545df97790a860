#include "screen/png.h"

#include <string.h>
#include <zlib.h>

/*
 * Each row is told as its difference from the row above: screens have mostly rows that are like
 * that. The lowest level is a third larger than the highest, in a tenth of the time.
 */
enum { FILTER_UP = 2, LEVEL = 1 };

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* A chunk whose content is in the buffer already, from start on, after 8 bytes for its head. */
static int finish_chunk(struct buf *b, size_t start, const char *name, struct err *e)
{
	uint8_t *head = buf_data(b) + start, sum[4];
	size_t n = b->len - start - 8;

	put_be32(head, (uint32_t)n);
	memcpy(head + 4, name, 4);
	put_be32(sum, (uint32_t)crc32(0, head + 4, (uInt)(n + 4)));
	return buf_add(b, sum, sizeof(sum), e);
}

static int add_chunk(struct buf *b, const char *name, struct bytes content, struct err *e)
{
	static const uint8_t head[8];
	size_t start = b->len;

	if (buf_add(b, head, sizeof(head), e) < 0 || buf_add(b, content.p, content.len, e) < 0)
		return -1;
	return finish_chunk(b, start, name, e);
}

/* Hands bytes to zlib, for which there is room enough. */
static int squeeze(z_stream *z, const uint8_t *p, size_t n, int flush, struct err *e)
{
	int rc;

	z->next_in = (Bytef *)p;
	z->avail_in = (uInt)n;
	rc = deflate(z, flush);
	if (rc != (flush == Z_FINISH ? Z_STREAM_END : Z_OK) || z->avail_in)
		return err_set(e, ERR_INTERNAL, "zlib: %s", z->msg ? z->msg : "no room");
	return 0;
}

static int squeeze_rows(const struct picture *p, z_stream *z, struct err *e)
{
	static const uint8_t black[PICTURE_SIDE_MAX * 3];
	size_t n = (size_t)p->width * 3;
	const uint8_t *above = black;
	uint8_t row[1 + sizeof(black)];

	row[0] = FILTER_UP;
	for (unsigned y = 0; y < p->height; y++) {
		const uint8_t *this = p->rgb + y * n;

		for (size_t i = 0; i < n; i++)
			row[1 + i] = (uint8_t)(this[i] - above[i]);
		if (squeeze(z, row, n + 1, Z_NO_FLUSH, e) < 0)
			return -1;
		above = this;
	}
	return squeeze(z, NULL, 0, Z_FINISH, e);
}

static int add_image_data(const struct picture *p, struct buf *ret, struct err *e)
{
	size_t start = ret->len;
	z_stream z = {0};
	uLong bound;
	uint8_t *room;
	int rc;

	if (deflateInit(&z, LEVEL) != Z_OK)
		return err_oom(e);
	bound = deflateBound(&z, ((uLong)p->width * 3 + 1) * p->height);
	room = buf_room(ret, bound + 8);
	if (!room) {
		deflateEnd(&z);
		return err_oom(e);
	}
	z.next_out = room + 8;
	z.avail_out = (uInt)bound;
	rc = squeeze_rows(p, &z, e);
	if (rc == 0)
		buf_grew(ret, 8 + (size_t)z.total_out);
	deflateEnd(&z);
	return rc < 0 ? -1 : finish_chunk(ret, start, "IDAT", e);
}

int png_write(const struct picture *p, struct buf *ret, struct err *e)
{
	/* 8 bits a colour, red, green and blue; the only ways there are to compress, to filter and
	 * to order the rows. */
	uint8_t head[13] = {[8] = 8, [9] = 2};

	put_be32(head, p->width);
	put_be32(head + 4, p->height);
	if (buf_add(ret, "\x89PNG\r\n\x1a\n", 8, e) < 0 ||
		add_chunk(ret, "IHDR", (struct bytes){head, sizeof(head)}, e) < 0 ||
		add_image_data(p, ret, e) < 0)
		return -1;
	return add_chunk(ret, "IEND", (struct bytes){0}, e);
}
