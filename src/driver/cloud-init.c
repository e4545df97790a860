#include "driver/cloud-init.h"

#include "util/auto.h"
#include "util/str.h"
#include "wire/wire.h"

enum { SAID_MAX = 800, NONE = 3 };

extern const char guest_script_cloud_init[]; /* cloud-init.sh */

static int add_said(void *arg, int stream, struct bytes data, struct err *e)
{
	struct buf *said = arg;

	if (stream != WIRE_STDOUT || said->len + data.len > SAID_MAX)
		return 0;
	return buf_add(said, data.p, data.len, e);
}

int cloud_init_wait(struct guest *g, const struct op *op, bool required, struct err *e)
{
	const char *argv[] = {"/bin/sh", "-c", guest_script_cloud_init, NULL};
	auto_buf struct buf said = {0};
	struct guest_exec req = {.argv = argv, .capture_max = SAID_MAX};
	struct guest_io io = {.output = add_said, .arg = &said};
	struct guest_exit end = {0};
	char shown[SAID_MAX];

	op_progress(op, 0, 0, "waiting for cloud-init");
	if (guest_exec(g, op, &req, &io, &end, e) < 0)
		return e->kind == ERR_TIMEOUT
			       ? err_set(e, ERR_TIMEOUT, "cloud-init has not finished in time")
			       : -1;
	if (end.stage != GUEST_RAN || end.code == NONE)
		return required ? err_set(e, ERR_BACKEND,
					  "there is no cloud-init in it, though its image says so")
				: 0;
	if (end.code == 0)
		return 0;
	str_escape((const char *)buf_data(&said), said.len, shown, sizeof(shown));
	return err_set(e, ERR_BACKEND, "cloud-init failed: %s", shown);
}
