/* Finding UEFI firmware: `moat doctor` and the start of a VM ask the same function. */
#include "driver/qemu/vm/uefi.h"

#include "tap.h"
#include "scratch.h"
#include "util/system/io.h"

int main(void)
{
	const struct uefi *found;
	struct err e;

	scratch_begin();
	if (dir_make(at("usr/share/OVMF"), 0700, &e) < 0)
		abort();
	OK(!uefi_find(scratch));
	put_file(at("usr/share/OVMF/OVMF_CODE_4M.fd"), "");
	tap_ok(!uefi_find(scratch), "the code alone is of no use");
	put_file(at("usr/share/OVMF/OVMF_CODE.fd"), "");
	put_file(at("usr/share/OVMF/OVMF_VARS.fd"), "");
	found = uefi_find(scratch);
	OK(found && strcmp(found->code, "/usr/share/OVMF/OVMF_CODE.fd") == 0 &&
		strcmp(found->vars, "/usr/share/OVMF/OVMF_VARS.fd") == 0);
	put_file(at("usr/share/OVMF/OVMF_VARS_4M.fd"), "");
	found = uefi_find(scratch);
	OK(found && strcmp(found->code, "/usr/share/OVMF/OVMF_CODE_4M.fd") == 0);
	scratch_end();
	return tap_done();
}
