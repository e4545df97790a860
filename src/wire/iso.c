#include "wire/iso.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Sectors; 16 of the system area come before them. */
enum {
	SECTOR_PVD = 16,
	SECTOR_JOLIET,
	SECTOR_END,
	SECTOR_PATHS, /* tables in little and big endian, for the plain and the Joliet tree */
	SECTOR_ROOT = SECTOR_PATHS + 4,
	SECTOR_ROOT_JOLIET,
	SECTOR_FILES,
};
_Static_assert(SECTOR_FILES *ISO_SECTOR == ISO_HEAD, "the head's size");
_Static_assert(SECTOR_PVD *ISO_SECTOR == ISO_PVD, "the descriptor's place");

enum {
	PATH_TABLE_SIZE = 10, /* it has one entry, the root */
	RECORD = 33,          /* bytes of a directory's record, without the name */
	FLAG_DIRECTORY = 2,
	ROOT_RECORD_AT = 156,
};

uint64_t iso_file_offset(const struct iso_disc *d, size_t i)
{
	uint64_t at = ISO_HEAD;

	for (size_t k = 0; k < i; k++)
		at += (d->files[k].size + ISO_SECTOR - 1) / ISO_SECTOR * ISO_SECTOR;
	return at;
}

static void put_le(uint8_t *p, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void put_be(uint8_t *p, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[bytes - 1 - i] = (uint8_t)(v >> 8 * i);
}

/* Most numbers are stored twice: little and big endian. */
static void put_both(uint8_t *p, uint32_t v, int bytes)
{
	put_le(p, v, bytes);
	put_be(p + bytes, v, bytes);
}

/* Writes text of a fixed length, padded with spaces; Joliet has 16-bit characters. */
static void put_text(uint8_t *p, size_t len, const char *text, bool joliet)
{
	for (size_t i = 0; i < len; i++) {
		char c = *text ? *text : ' ';

		if (joliet) {
			if (i + 1 == len) {
				p[i] = 0;
				break;
			}
			p[i++] = 0;
		}
		p[i] = (uint8_t)c;
		text += *text != 0;
	}
}

struct extent {
	uint32_t sector, size;
	uint8_t flags;
};

/* Writes one record of a directory; returns its length. */
static size_t put_record(uint8_t *p, const struct extent *at, const uint8_t *name, size_t name_len)
{
	size_t len = (RECORD + name_len + 1) & ~(size_t)1;

	p[0] = (uint8_t)len;
	put_both(p + 2, at->sector, 4);
	put_both(p + 10, at->size, 4);
	p[18] = 70; /* 1970-01-01, so that the same files give the same image */
	p[19] = p[20] = 1;
	p[25] = at->flags;
	put_both(p + 28, 1, 2);
	p[32] = (uint8_t)name_len;
	memcpy(p + RECORD, name, name_len);
	return len;
}

static size_t name_of(const char *name, bool joliet, uint8_t out[2 * ISO_NAME_MAX])
{
	size_t n = 0;

	for (size_t i = 0; name[i] && i < ISO_NAME_MAX - 2; i++) {
		if (joliet)
			out[n++] = 0;
		out[n++] = (uint8_t)(joliet ? name[i] : toupper((unsigned char)name[i]));
	}
	if (!joliet) {
		out[n++] = ';';
		out[n++] = '1';
	}
	return n;
}

static void put_root(const struct iso_disc *d, bool joliet, uint8_t *p)
{
	struct extent self = {
		joliet ? SECTOR_ROOT_JOLIET : SECTOR_ROOT, ISO_SECTOR, FLAG_DIRECTORY};
	size_t n = put_record(p, &self, (const uint8_t *)"\0", 1);

	n += put_record(p + n, &self, (const uint8_t *)"\1", 1);
	for (size_t i = 0; i < d->n_files; i++) {
		struct extent file = {(uint32_t)(iso_file_offset(d, i) / ISO_SECTOR),
			(uint32_t)d->files[i].size, 0};
		uint8_t name[2 * ISO_NAME_MAX];

		n += put_record(p + n, &file, name, name_of(d->files[i].name, joliet, name));
	}
}

static void put_descriptor(const struct iso_disc *d, bool joliet, uint8_t *p)
{
	struct extent root = {
		joliet ? SECTOR_ROOT_JOLIET : SECTOR_ROOT, ISO_SECTOR, FLAG_DIRECTORY};
	uint32_t paths = SECTOR_PATHS + (joliet ? 2 : 0);

	p[0] = joliet ? 2 : 1;
	memcpy(p + 1, "CD001\1", 6);
	put_text(p + 8, 32, "", joliet);
	put_text(p + ISO_VOLUME_AT, ISO_VOLUME_MAX, d->volume, joliet);
	put_both(p + 80, (uint32_t)(iso_file_offset(d, d->n_files) / ISO_SECTOR), 4);
	if (joliet)
		memcpy(p + 88, "%/E", 3); /* UCS-2, level 3 */
	put_both(p + 120, 1, 2);
	put_both(p + 124, 1, 2);
	put_both(p + 128, ISO_SECTOR, 2);
	put_both(p + 132, PATH_TABLE_SIZE, 4);
	put_le(p + 140, paths, 4);
	put_be(p + 148, paths + 1, 4);
	put_record(p + ROOT_RECORD_AT, &root, (const uint8_t *)"\0", 1);
	put_text(p + 190, 813 - 190, "", joliet);
	for (size_t at = 813; at < 881; at += 17) { /* dates: none */
		memset(p + at, '0', 16);
		p[at + 16] = 0;
	}
	p[881] = 1;
}

static void put_paths(bool joliet, uint8_t *p)
{
	uint32_t root = joliet ? SECTOR_ROOT_JOLIET : SECTOR_ROOT;

	for (int big = 0; big < 2; big++, p += ISO_SECTOR) {
		p[0] = 1;
		(big ? put_be : put_le)(p + 2, root, 4);
		(big ? put_be : put_le)(p + 6, 1, 2);
	}
}

void iso_head(const struct iso_disc *d, uint8_t ret[ISO_HEAD])
{
	memset(ret, 0, ISO_HEAD);
	for (int joliet = 0; joliet < 2; joliet++) {
		put_descriptor(d, joliet, ret + (SECTOR_PVD + joliet) * ISO_SECTOR);
		put_paths(joliet, ret + (SECTOR_PATHS + 2 * joliet) * ISO_SECTOR);
		put_root(d, joliet, ret + (SECTOR_ROOT + joliet) * ISO_SECTOR);
	}
	memcpy(ret + SECTOR_END * ISO_SECTOR, "\377CD001\1", 7);
}
