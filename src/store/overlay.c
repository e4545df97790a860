/*
 * How it works: an empty qcow2 file is a header, a refcount table, one refcount block and an
 * all-zero L1 table. Writing them takes microseconds where starting qemu-img takes tens of
 * milliseconds, and every VM needs one. Layout in clusters of 64 KiB:
 *
 *   0  header, extension with the base's format, name of the base
 *   1  refcount table: its first entry points at cluster 2
 *   2  refcount block: 1 for each cluster that is here
 *   3  L1 table, as many clusters as the size needs, all zero: read from the base
 */
#include "store/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"

enum {
	CLUSTER_BITS = 16,
	CLUSTER = 1 << CLUSTER_BITS,
	L2_ENTRIES = CLUSTER / 8,
	REFCOUNT_ORDER = 4, /* 16 bits for each */
	HEADER_LEN = 104,   /* in version 3 of the format */
	NAME_MAX_LEN = 1023,
	L1_CLUSTER = 3,
	SECTOR = 512,
};
static const uint64_t size_max = (uint64_t)1 << 46; /* 64 TiB, which takes an L1 table of 1 MiB */

static const uint8_t magic[4] = {'Q', 'F', 'I', 0xfb};
static const uint32_t ext_backing_format = 0xe2792aca;

static void put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_be32(uint8_t *p, uint32_t v)
{
	put_be16(p, (uint16_t)(v >> 16));
	put_be16(p + 2, (uint16_t)v);
}

static void put_be64(uint8_t *p, uint64_t v)
{
	put_be32(p, (uint32_t)(v >> 32));
	put_be32(p + 4, (uint32_t)v);
}

static uint64_t get_be64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

/* Writes the fields that are not zero; the offsets are those of the format. */
static void put_header(uint8_t *p, uint64_t size, uint32_t l1_entries)
{
	memcpy(p, magic, sizeof(magic));
	put_be32(p + 4, 3);
	put_be32(p + 20, CLUSTER_BITS);
	put_be64(p + 24, size);
	put_be32(p + 36, l1_entries);
	put_be64(p + 40, (uint64_t)L1_CLUSTER * CLUSTER);
	put_be64(p + 48, CLUSTER); /* refcount table */
	put_be32(p + 56, 1);       /* of one cluster */
	put_be32(p + 96, REFCOUNT_ORDER);
	put_be32(p + 100, HEADER_LEN);
}

/* Writes the extension, padded to 8 bytes; 8 zero bytes that end the list of extensions; the base's
 * name. */
static void put_base(uint8_t *p, const char *base, const char *format)
{
	size_t format_len = strlen(format), name_at = HEADER_LEN + 8 + (format_len + 7) / 8 * 8 + 8;

	put_be32(p + HEADER_LEN, ext_backing_format);
	put_be32(p + HEADER_LEN + 4, (uint32_t)format_len);
	memcpy(p + HEADER_LEN + 8, format, format_len);
	put_be64(p + 8, name_at);
	put_be32(p + 16, (uint32_t)strlen(base));
	memcpy(p + name_at, base, strlen(base));
}

static int check_format(const char *format, struct err *e)
{
	if (!format || (strcmp(format, "qcow2") != 0 && strcmp(format, "raw") != 0))
		return err_set(e, ERR_INVALID, "unknown disk format \"%s\"", format ? format : "");
	return 0;
}

int overlay_header(const struct overlay_req *req, struct buf *ret, uint64_t *ret_len, struct err *e)
{
	uint64_t size = (req->size + SECTOR - 1) / SECTOR * SECTOR, per_entry, entries, clusters;
	uint8_t *p;

	if (req->size == 0 || req->size > size_max)
		return err_set(
			e, ERR_INVALID, "a disk of %llu bytes", (unsigned long long)req->size);
	if (req->base && check_format(req->base_format, e) < 0)
		return -1;
	if (req->base && (req->base[0] != '/' || strlen(req->base) > NAME_MAX_LEN))
		return err_set(e, ERR_INVALID,
			"base image %s: not an absolute path of at most %d bytes", req->base,
			NAME_MAX_LEN);
	per_entry = (uint64_t)CLUSTER * L2_ENTRIES;
	entries = (size + per_entry - 1) / per_entry;
	clusters = L1_CLUSTER + (entries * 8 + CLUSTER - 1) / CLUSTER;
	p = buf_room(ret, L1_CLUSTER * CLUSTER);
	if (!p)
		return err_oom(e);
	memset(p, 0, L1_CLUSTER * CLUSTER);
	put_header(p, size, (uint32_t)entries);
	if (req->base)
		put_base(p, req->base, req->base_format);
	put_be64(p + CLUSTER, 2 * CLUSTER);
	for (uint64_t i = 0; i < clusters; i++)
		put_be16(p + 2 * CLUSTER + 2 * i, 1);
	buf_grew(ret, L1_CLUSTER * CLUSTER);
	*ret_len = clusters * CLUSTER;
	return 0;
}

int disk_size(const char *path, const char *format, uint64_t *ret, struct err *e)
{
	auto_fd int fd = -1;
	struct stat st;
	uint8_t head[32];

	if (check_format(format, e) < 0)
		return err_wrap(e, "%s", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a file", path);
	if (strcmp(format, "raw") == 0) {
		*ret = ((uint64_t)st.st_size + SECTOR - 1) / SECTOR * SECTOR;
		return 0;
	}
	if (pread(fd, head, sizeof(head), 0) != sizeof(head) ||
		memcmp(head, magic, sizeof(magic)) != 0)
		return err_set(e, ERR_INVALID, "%s is not a qcow2 file", path);
	*ret = get_be64(head + 24);
	return 0;
}

/* Skips pages of zeros: holes read as zeros. */
static int write_sparse(int fd, struct bytes head, uint64_t len, struct err *e)
{
	static const uint8_t zeros[4096];

	for (size_t at = 0; at < head.len;) {
		size_t n = head.len - at < sizeof(zeros) ? head.len - at : sizeof(zeros);
		ssize_t done = (ssize_t)n;

		if (memcmp(head.p + at, zeros, n) != 0)
			done = pwrite(fd, head.p + at, n, (off_t)at);
		if (done < 0 && errno != EINTR)
			return err_sys(e, errno, "write");
		at += done > 0 ? (size_t)done : 0;
	}
	if (ftruncate(fd, (off_t)len) < 0)
		return err_sys(e, errno, "truncate");
	return 0;
}

int overlay_create(const struct overlay_req *req, struct err *e)
{
	struct overlay_req whole = *req;
	auto_buf struct buf head = {0};
	auto_fd int fd = -1;
	uint64_t base_size = 0, len;

	if (req->base && disk_size(req->base, req->base_format, &base_size, e) < 0)
		return -1;
	if (whole.size == 0)
		whole.size = base_size;
	if (whole.size < base_size)
		return err_set(e, ERR_INVALID,
			"a disk of %llu bytes is smaller than its image (%llu bytes)",
			(unsigned long long)whole.size, (unsigned long long)base_size);
	if (overlay_header(&whole, &head, &len, e) < 0)
		return err_wrap(e, "%s", req->path);
	fd = open(req->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "%s", req->path);
	if (write_sparse(fd, buf_bytes(&head), len, e) < 0) {
		unlink(req->path);
		return err_wrap(e, "%s", req->path);
	}
	return 0;
}
