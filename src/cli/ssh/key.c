#include "cli/ssh/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/proc.h"

enum { PUBLIC_MAX = 4096, KEYGEN_SECONDS = 60 };

/* Makes the keys in a directory of their own, which then gets its name: whoever finds it finds
 * both. */
static int make(const char *dir, struct err *e)
{
	auto_free char *scratch = NULL, *file = NULL, *public = NULL;
	struct op op = op_for_cleanup(KEYGEN_SECONDS);
	int rc;

	if (str_printf(&scratch, e, "%s.XXXXXX", dir) < 0)
		return -1;
	if (!mkdtemp(scratch))
		return err_sys(e, errno, "%s", scratch);
	if (str_printf(&file, e, "%s/id", scratch) < 0 ||
		str_printf(&public, e, "%s/id.pub", scratch) < 0)
		return -1;
	rc = proc_run_ok(&op,
		&(struct proc_req){.argv = (const char *[]){"ssh-keygen", "-q", "-t", "ed25519",
					   "-N", "", "-C", "moat", "-f", file, NULL},
			.out_max = 4096},
		e);
	if (rc == 0 && rename(scratch, dir) == 0)
		return 0;
	unlink(file);
	unlink(public);
	rmdir(scratch);
	if (rc < 0)
		return err_wrap(e, "ssh-keygen (apt-get install openssh-client)");
	return path_exists(dir) ? 0 : err_sys(e, errno, "%s", dir); /* another was faster */
}

int ssh_key(const struct paths *paths, char **ret_file, char **ret_public, struct err *e)
{
	auto_free char *dir = NULL, *file = NULL, *public = NULL, *text = NULL;
	size_t len;

	if (str_printf(&dir, e, "%s/ssh", paths->state) < 0 ||
		str_printf(&file, e, "%s/id", dir) < 0 ||
		str_printf(&public, e, "%s.pub", file) < 0)
		return -1;
	if (!path_exists(dir) && (paths_make(paths, e) < 0 || make(dir, e) < 0))
		return -1;
	if (file_read(public, PUBLIC_MAX, &text, &len, e) < 0)
		return -1;
	text[strcspn(text, "\n")] = 0;
	if (ret_file)
		*ret_file = take_ptr(&file);
	if (ret_public)
		*ret_public = take_ptr(&text);
	return 0;
}
