/*
 * iso.h - ISO 9660 images with a few files in their root directory. Pure: this makes the head of
 * the image and says where each file begins; the caller writes all of it.
 *
 * The Joliet tree, which every system of today reads, has the names as given; the plain tree has
 * them in capital letters.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	ISO_SECTOR = 2048,
	ISO_PVD = 16 * ISO_SECTOR,  /* where the volume descriptor is */
	ISO_HEAD = 25 * ISO_SECTOR, /* the first file begins here */
	ISO_VOLUME_AT = 40,         /* in the descriptor: the volume's name, padded with spaces */
	ISO_VOLUME_MAX = 32,
	ISO_FILES_MAX = 8,
	ISO_NAME_MAX = 30,
};

struct iso_disc {
	const char *volume; /* capital letters and digits */
	struct iso_file {
		const char *name;
		uint64_t size;
	} files[ISO_FILES_MAX];
	size_t n_files;
};

/* Where the content of file i begins; i == n_files: the size of the image. */
uint64_t iso_file_offset(const struct iso_disc *d, size_t i);
void iso_head(const struct iso_disc *d, uint8_t ret[ISO_HEAD]);
