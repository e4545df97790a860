/*
 * iso.h - ISO 9660 images with a few files in their root directory. Pure: what comes in front of
 * the files' content is made here, and where each begins; the caller writes it all.
 *
 * Names are as given for every system that reads Joliet, which is all of today's; the plain tree
 * has them in capital letters.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	ISO_SECTOR = 2048,
	ISO_PVD = 16 * ISO_SECTOR,  /* where the descriptor is */
	ISO_HEAD = 25 * ISO_SECTOR, /* the first file begins here */
	ISO_VOLUME_AT = 40,         /* in the descriptor: the name of the disc, with spaces after */
	ISO_VOLUME_MAX = 32,
	ISO_FILES_MAX = 8,
	ISO_NAME_MAX = 30,
};
#define ISO_FILE_MAX UINT32_MAX /* bytes of one file */

struct iso_disc {
	const char *volume; /* capital letters and digits */
	struct iso_file {
		const char *name;
		uint64_t size;
	} files[ISO_FILES_MAX];
	size_t n_files;
};

/* Where a file's content begins; i == n_files: the size of the image. */
uint64_t iso_place(const struct iso_disc *d, size_t i);
void iso_head(const struct iso_disc *d, uint8_t ret[ISO_HEAD]);
