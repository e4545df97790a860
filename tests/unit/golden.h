/* golden.h - compares what a test has made with a file of tests/golden. MOAT_GOLDEN=write writes
 * the files anew; read the difference before committing it. */
#pragma once

#include "tap.h"
#include "scratch.h"
#include "util/buf.h"

/* Takes what is in b. */
static void golden_check(struct buf *b, const char *path, const char *name)
{
	const char *mode = getenv("MOAT_GOLDEN");
	auto_free char *got = buf_take_str(b), *want = NULL;

	if (mode && strcmp(mode, "write") == 0)
		put_file(path, got);
	want = get_file(path);
	tap_str(got, want, name);
}
