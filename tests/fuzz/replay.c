/* replay.c - runs a fuzz target without a fuzzer: on no input, and on the inputs kept for it.
 *
 * Arguments are folders. Every file in them is an input; a target passes by returning. */
#include <dirent.h>
#include <stdint.h>

#include "tap.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"

#define INPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay_file(const char *folder, const char *name)
{
	auto_free char *path = NULL, *data = NULL;
	struct err e;
	size_t size;

	if (str_printf(&path, &e, "%s/%s", folder, name) < 0 ||
		file_read(path, INPUT_MAX, &data, &size, &e) < 0) {
		tap_ok(0, "%s: %s", name, e.msg);
		return;
	}
	LLVMFuzzerTestOneInput((const uint8_t *)data, size);
	tap_ok(1, "%s", name);
}

static void replay_folder(const char *folder)
{
	auto_dir DIR *d = opendir(folder);

	tap_ok(d != NULL, "%s", folder);
	for (struct dirent *entry; d && (entry = readdir(d));)
		if (entry->d_name[0] != '.')
			replay_file(folder, entry->d_name);
}

int main(int argc, char **argv)
{
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	tap_ok(1, "no input");
	for (int i = 1; i < argc; i++)
		replay_folder(argv[i]);
	return tap_done();
}
