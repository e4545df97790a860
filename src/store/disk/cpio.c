/*
 * How it works: an entry is a head of 110 characters (a magic and 13 numbers of 8 hex digits), the
 * name with its NUL, and the content; head with name, and content, are each padded to 4 bytes. An
 * archive ends with an entry named TRAILER!!!. The kernel skips zeros between archives.
 */
#include "store/disk/cpio.h"

#include <inttypes.h>
#include <string.h>

enum { HEAD = 110, NUMBER = 8, SIZE_AT = 6 + 6 * NUMBER, NAME_SIZE_AT = 6 + 11 * NUMBER };
#define MAGIC   "070701"
#define TRAILER "TRAILER!!!"

static void pad(struct buf *b)
{
	static const char zeros[4];

	buf_put(b, zeros, (4 - b->len % 4) % 4);
}

void cpio_put(struct buf *b, const struct cpio_entry *x)
{
	pad(b);
	/* inode, mode, uid, gid, links, mtime, size, four numbers of devices, size of the name,
	 * checksum */
	buf_putf(b,
		MAGIC "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08x%08" PRIx32
		      "%08zx%08x%08x%08x%08x%08zx%08x",
		x->inode, x->mode, x->uid, x->gid, 1u, x->mtime, x->content.len, 0u, 0u, 0u, 0u,
		strlen(x->path) + 1, 0u);
	buf_put(b, x->path, strlen(x->path) + 1);
	pad(b);
	buf_put(b, x->content.p, x->content.len);
	pad(b);
}

void cpio_end(struct buf *b)
{
	cpio_put(b, &(struct cpio_entry){.path = TRAILER});
}

static bool number(const uint8_t *p, size_t *ret)
{
	size_t v = 0;

	for (int i = 0; i < NUMBER; i++) {
		const char *digit = p[i] ? strchr("0123456789abcdef", p[i] | 0x20) : NULL;

		if (!digit)
			return false;
		v = v << 4 | (size_t)(digit - "0123456789abcdef");
	}
	*ret = v;
	return true;
}

/* Takes n bytes and what pads them to 4, counted from the beginning of the archives. */
static bool skip(const struct bytes *in, size_t *at, size_t n)
{
	if (n > in->len - *at)
		return false;
	*at += n;
	*at += (4 - *at % 4) % 4;
	if (*at > in->len)
		*at = in->len;
	return true;
}

static bool same_path(const char *name, size_t size, const char *path)
{
	if (size && !name[size - 1])
		size--;
	while (size && (*name == '/' || (*name == '.' && size > 1 && name[1] == '/'))) {
		name++;
		size--;
	}
	return size == strlen(path) && memcmp(name, path, size) == 0;
}

bool cpio_has(struct bytes in, const char *path)
{
	for (size_t at = 0; at < in.len;) {
		const uint8_t *head = in.p + at;
		size_t name_size, size;

		if (!*head) {
			at++;
			continue;
		}
		if (in.len - at < HEAD || memcmp(head, MAGIC, strlen(MAGIC)) != 0 ||
			!number(head + SIZE_AT, &size) ||
			!number(head + NAME_SIZE_AT, &name_size) ||
			!skip(&in, &at, HEAD + name_size))
			return false;
		if (same_path((const char *)head + HEAD, name_size, path))
			return true;
		if (!skip(&in, &at, size))
			return false;
	}
	return false;
}
