#include "driver/qemu/vm/uefi.h"

#include <limits.h>
#include <stdio.h>

#include "util/auto.h"
#include "util/system/io.h"

static const struct uefi places[] = {
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"},
	{"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"},
	{"/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"},
	{"/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"},
};

static bool is_there(const char *root, const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", root, file);
	return path_exists(path);
}

const struct uefi *uefi_find(const char *root)
{
	for (unsigned i = 0; i < ARRAY_LEN(places); i++)
		if (is_there(root, places[i].code) && is_there(root, places[i].vars))
			return &places[i];
	return NULL;
}
