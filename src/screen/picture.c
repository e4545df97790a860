#include "screen/picture.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

enum { ONE = 4096 }; /* the weights of what a new pixel covers have this sum, on each axis */

void picture_free(struct picture *p)
{
	free(p->rgb);
	*p = (struct picture){0};
}

static size_t size_of(const struct picture *p)
{
	return (size_t)p->width * p->height * 3;
}

int picture_new(unsigned width, unsigned height, struct picture *ret, struct err *e)
{
	struct picture p = {.width = width, .height = height};

	if (!width || !height || width > PICTURE_SIDE_MAX || height > PICTURE_SIDE_MAX)
		return err_set(e, ERR_LIMIT, "a picture of %ux%u pixels: a side has 1 to %d", width,
			height, PICTURE_SIDE_MAX);
	p.rgb = calloc(1, size_of(&p));
	if (!p.rgb)
		return err_oom(e);
	*ret = p;
	return 0;
}

/* Reads a number after white space. */
static int read_number(struct bytes in, size_t *at, unsigned *ret)
{
	size_t i = *at;
	unsigned n = 0;

	while (i < in.len && (in.p[i] == ' ' || in.p[i] == '\n'))
		i++;
	if (i == *at || i == in.len || in.p[i] < '0' || in.p[i] > '9')
		return -1;
	for (; i < in.len && in.p[i] >= '0' && in.p[i] <= '9'; i++) {
		n = n * 10 + (unsigned)(in.p[i] - '0');
		if (n > 1000000)
			return -1;
	}
	*at = i;
	*ret = n;
	return 0;
}

int picture_from_ppm(struct bytes in, struct picture *ret, struct err *e)
{
	unsigned width, height, largest;
	struct picture p;
	size_t at = 2;

	if (in.len < 2 || memcmp(in.p, "P6", 2) != 0 || read_number(in, &at, &width) < 0 ||
		read_number(in, &at, &height) < 0 || read_number(in, &at, &largest) < 0 ||
		largest != 255 || at == in.len)
		return err_set(e, ERR_BACKEND, "the picture is no PPM with 8 bits a colour");
	at++; /* one white space, whatever it is */
	if (picture_new(width, height, &p, e) < 0)
		return -1;
	if (in.len - at != size_of(&p)) {
		picture_free(&p);
		return err_set(e, ERR_BACKEND, "the picture is cut short, or too long");
	}
	memcpy(p.rgb, in.p + at, size_of(&p));
	*ret = p;
	return 0;
}

int picture_crop(const struct picture *p, unsigned x, unsigned y, unsigned width, unsigned height,
	struct picture *ret, struct err *e)
{
	struct picture part;

	if (x >= p->width || y >= p->height || width > p->width - x || height > p->height - y)
		return err_set(e, ERR_INVALID, "%ux%u at %u,%u is not within the screen of %ux%u",
			width, height, x, y, p->width, p->height);
	if (picture_new(width, height, &part, e) < 0)
		return -1;
	for (unsigned row = 0; row < height; row++)
		memcpy(part.rgb + (size_t)row * width * 3,
			p->rgb + ((size_t)(y + row) * p->width + x) * 3, (size_t)width * 3);
	*ret = part;
	return 0;
}

/* A new pixel covers these old ones, on one axis. */
struct cover {
	unsigned first, n;
	uint32_t head, body, tail; /* weights of the first, each between, and the last */
};

/*
 * The pixel covers [to * from_n / to_n, (to + 1) * from_n / to_n): in units of 1 / to_n, from_n of
 * them. Rounding is made up for in the first pixel's weight, so that white stays white.
 */
static struct cover cover_of(unsigned to, unsigned to_n, unsigned from_n)
{
	uint64_t begin = (uint64_t)to * from_n, end = begin + from_n;
	struct cover c = {.first = (unsigned)(begin / to_n)};
	unsigned last = (unsigned)((end - 1) / to_n);

	c.n = last - c.first + 1;
	if (c.n == 1) {
		c.head = ONE;
		return c;
	}
	c.body = (uint32_t)((uint64_t)ONE * to_n / from_n);
	c.tail = (uint32_t)((end - (uint64_t)last * to_n) * ONE / from_n);
	c.head = ONE - c.tail - c.body * (c.n - 2);
	return c;
}

static uint32_t weight_of(const struct cover *c, unsigned i)
{
	return i == 0 ? c->head : i == c->n - 1 ? c->tail : c->body;
}

/* Adds up the rows that one new row covers. */
static void add_rows(const struct picture *p, const struct cover *c, uint32_t *sums)
{
	size_t n = (size_t)p->width * 3;

	memset(sums, 0, n * sizeof(*sums));
	for (unsigned i = 0; i < c->n; i++) {
		const uint8_t *row = p->rgb + (c->first + i) * n;
		uint32_t weight = weight_of(c, i);

		for (size_t k = 0; k < n; k++)
			sums[k] += row[k] * weight;
	}
}

static void write_row(const uint32_t *sums, const struct cover *covers, unsigned width, uint8_t *to)
{
	for (unsigned x = 0; x < width; x++) {
		const struct cover *c = &covers[x];
		const uint32_t *from = sums + (size_t)c->first * 3;
		uint64_t r = 0, g = 0, b = 0;

		for (unsigned i = 0; i < c->n; i++, from += 3) {
			uint64_t weight = weight_of(c, i);

			r += from[0] * weight;
			g += from[1] * weight;
			b += from[2] * weight;
		}
		*to++ = (uint8_t)((r + ONE * ONE / 2) / (ONE * ONE));
		*to++ = (uint8_t)((g + ONE * ONE / 2) / (ONE * ONE));
		*to++ = (uint8_t)((b + ONE * ONE / 2) / (ONE * ONE));
	}
}

int picture_scale(const struct picture *p, unsigned width, unsigned height, struct picture *ret,
	struct err *e)
{
	auto_free uint32_t *sums = malloc((size_t)p->width * 3 * sizeof(*sums));
	auto_free struct cover *covers = NULL;
	struct picture scaled;

	if (!sums)
		return err_oom(e);
	if (picture_new(width, height, &scaled, e) < 0)
		return -1;
	covers = malloc(width * sizeof(*covers));
	if (!covers) {
		picture_free(&scaled);
		return err_oom(e);
	}
	for (unsigned x = 0; x < width; x++)
		covers[x] = cover_of(x, width, p->width);
	for (unsigned y = 0; y < height; y++) {
		struct cover rows = cover_of(y, height, p->height);

		add_rows(p, &rows, sums);
		write_row(sums, covers, width, scaled.rgb + (size_t)y * width * 3);
	}
	*ret = scaled;
	return 0;
}

bool picture_equal(const struct picture *a, const struct picture *b)
{
	return a->width == b->width && a->height == b->height && a->rgb && b->rgb &&
	       memcmp(a->rgb, b->rgb, size_of(a)) == 0;
}
