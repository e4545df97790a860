/* What proves a download: lists of checksums, keys, gpgv's status; and the table of cloud images.
 */
#include <stdio.h>

#include "store/cloud.h"
#include "store/make/sums.h"
#include "tap.h"
#include "util/auto.h"

#define A16 "aaaaaaaaaaaaaaaa"
#define B16 "BBBBBBBBBBBBBBBB"
#define A64 A16 A16 A16 A16
#define B64 B16 B16 B16 B16

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static void test_lists(void)
{
	char hex[SUM_HEX_MAX + 1];
	struct err e;

	OK(sums_find(text(A64 "  other\n" B64 " *disk.img\n"), "disk.img", 64, hex, &e) == 0);
	STR_IS(hex, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
	OK(sums_find(text(B64 "  disk.img"), "disk.img", 64, hex, &e) == 0);
	OK(sums_find(text(B64 "  disk.img\r\n"), "disk.img", 64, hex, &e) == 0);
	OK(sums_find(text(B64 B64 "  disk.img"), "disk.img", 128, hex, &e) == 0);
	OK(sums_find(text(B64 "  disk.img\n" B64 " *disk.img\n"), "disk.img", 64, hex, &e) == 0);
	OK(sums_find(text(A64 "  disk.img\n" B64 "  disk.img\n"), "disk.img", 64, hex, &e) < 0);
	STR_IS(e.msg, "two checksums for disk.img");
	OK(sums_find(text(A64 "  a/disk.img\n" A64 "  disk.img2\n"), "disk.img", 64, hex, &e) < 0);
	STR_IS(e.msg, "no checksum for disk.img");
	OK(sums_find(text(A64 "  disk.img\n"), "disk.img", 128, hex, &e) < 0);
	OK(sums_find(text("g" A16 "  disk.img\n"), "disk.img", 17, hex, &e) < 0);
	OK(sums_find(text(""), "disk.img", 64, hex, &e) < 0);
}

static void test_keys(void)
{
	auto_buf struct buf key = {0}, plain = {0}, bad = {0};
	struct err e;

	OK(sums_unarmour(text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: 1\n\nAAEC\nAwQ=\n"
			      "=KgX0\n-----END PGP PUBLIC KEY BLOCK-----\n"),
		   &key, &e) == 0);
	OK(key.len == 5 && memcmp(buf_data(&key), "\0\1\2\3\4", 5) == 0);
	OK(sums_unarmour(text("\x99\x02"), &plain, &e) == 0);
	OK(plain.len == 2);
	OK(sums_unarmour(text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!\n"), &bad, &e) < 0);
}

static void test_status(void)
{
	static const char status[] = "[GNUPG:] NEWSIG\n"
				     "[GNUPG:] VALIDSIG SUB 2025-09-01 1 0 4 0 1 8 00 PRIMARY\n";

	OK(sums_signed_by(text(status), "PRIMARY"));
	OK(!sums_signed_by(text(status), "RIMARY"));
	OK(!sums_signed_by(text(status), "SUB"));
	OK(!sums_signed_by(text("[GNUPG:] ERRSIG PRIMARY\n"), "PRIMARY"));
	OK(!sums_signed_by(text("# [GNUPG:] VALIDSIG PRIMARY\n"), "PRIMARY"));
}

static void test_table(void)
{
	const struct cloud_image *ubuntu = cloud_find("ubuntu24.04");
	auto_free char *url = NULL, *mirrored = NULL;
	struct err e;

	OK(ubuntu && !cloud_find("ubuntu") && !cloud_find(""));
	OK(cloud_url("", ubuntu->vendor->host, ubuntu->dir, ubuntu->file, &url, &e) == 0);
	STR_IS(url,
		"https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img");
	OK(cloud_url("http://mirror/x//", ubuntu->vendor->host, ubuntu->dir, "f", &mirrored, &e) ==
		0);
	STR_IS(mirrored, "http://mirror/x/noble/current/f");
}

int main(void)
{
	test_lists();
	test_keys();
	test_status();
	test_table();
	return tap_done();
}
