#include "driver/proxmox/guest/install.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/ascii.h"
#include "driver/proxmox/api/wording.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"

enum {
	RUNNER_SIZE_MAX = 8 * 1024 * 1024,
	NOWHERE = 91, /* exit codes of the scripts */
	PUSH = 92,
	NOT_RUNNABLE = 93,
};

extern const char pve_script_find_runner[], pve_script_join_runner[]; /* scripts */

struct program {
	char *content;
	size_t size;
	char size_text[24], crc_text[16];
};

static int run(struct pve_agent *a, const struct op *op, const char *const *argv,
	struct qga_exit *ret, struct err *e)
{
	if (pve_agent_run(a, op, argv, NULL, ret, e) == 0)
		return 0;
	/* The agent answers, but it may not start programs, or there is no shell. */
	if (e->sys == PVE_BROKEN_PIPE || pve_says_agent_forbidden(e))
		e->kind = ERR_UNSUPPORTED;
	return -1;
}

static int take_path(struct qga_exit *x, char **ret, struct err *e)
{
	auto_free char *path = buf_take_str(&x->out);

	if (!path)
		return err_oom(e);
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			*path = 0;
	if (*path != '/' || strlen(path) > 256)
		return err_set(e, ERR_UNAVAILABLE, "the guest named no file for the runner");
	*ret = take_ptr(&path);
	return 0;
}

static int finish(struct qga_exit *x, char **ret_path, struct err *e)
{
	char words[300];

	if (x->code == 0)
		return take_path(x, ret_path, e);
	qga_exit_message(x, words, sizeof(words));
	if (x->code == NOWHERE)
		return err_set(e, ERR_UNSUPPORTED,
			"no directory of the guest allows to run programs from it");
	return err_set(e, ERR_UNSUPPORTED, "the guest cannot run moat-guest: %s", words);
}

static int push(struct pve_agent *a, const struct op *op, const struct program *p, const char *file,
	char **ret_path, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	char parts[16];
	const char *const argv[] = {"/bin/sh", "-c", pve_script_join_runner, "sh", p->size_text,
		p->crc_text, file, parts, NULL};
	struct bytes rest = {(const uint8_t *)p->content, p->size};
	unsigned n = 0;

	while (rest.len) {
		struct bytes piece = {rest.p, pve_agent_piece(rest)};
		auto_free char *name = NULL;

		op_progress(op, p->size - rest.len, p->size, "installing the runner in the guest");
		if (str_printf(&name, e, "%s.%u", file, n++) < 0 ||
			pve_agent_write(a, op, name, piece, e) < 0)
			return -1;
		rest.p += piece.len;
		rest.len -= piece.len;
	}
	snprintf(parts, sizeof(parts), "%u", n);
	if (run(a, op, argv, &x, e) < 0)
		return -1;
	return finish(&x, ret_path, e);
}

static int find_or_push(struct pve_agent *a, const struct op *op, const struct program *p,
	char **ret_path, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	auto_free char *file = NULL;
	const char *const argv[] = {
		"/bin/sh", "-c", pve_script_find_runner, "sh", p->size_text, p->crc_text, NULL};

	if (run(a, op, argv, &x, e) < 0)
		return -1;
	if (x.code != PUSH)
		return finish(&x, ret_path, e);
	if (take_path(&x, &file, e) < 0)
		return -1;
	return push(a, op, p, file, ret_path, e);
}

int pve_install(struct pve_agent *a, const struct op *op, const char *runner_path, char **ret_path,
	struct err *e)
{
	struct program p = {0};
	int rc;

	if (!runner_path)
		return err_set(e, ERR_UNSUPPORTED, "moat-guest is not installed beside moat");
	if (file_read(runner_path, RUNNER_SIZE_MAX, &p.content, &p.size, e) < 0)
		return -1;
	snprintf(p.size_text, sizeof(p.size_text), "%zu", p.size);
	snprintf(p.crc_text, sizeof(p.crc_text), "%08" PRIx32, ascii_crc(0, p.content, p.size));
	rc = find_or_push(a, op, &p, ret_path, e);
	free(p.content);
	return rc < 0 ? err_wrap(e, "the runner") : 0;
}
