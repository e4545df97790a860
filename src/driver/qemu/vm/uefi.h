/* uefi.h - finds the UEFI firmware of this machine. Any thread. */
#pragma once

struct uefi {
	const char *code; /* the firmware itself, never written */
	const char *vars; /* its variables as they are at first: each VM gets a copy */
};

/* NULL: none of the places where distributions have it has both files. root: in front of each path;
 * "" but in tests. */
const struct uefi *uefi_find(const char *root);
