#include "driver/proxmox/guest/install.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/ascii.h"
#include "driver/proxmox/api/wording.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/str.h"
#include "util/strv.h"
#include "wire/base64.h"

/* A server or a guest that is slower than this with a large call gets small ones. */
#define BRING_SECONDS 20.0
enum {
	RUNNER_SIZE_MAX = 8 * 1024 * 1024,
	NOWHERE = 91, /* exit codes of the scripts */
	PUSH = 92,
	NOT_RUNNABLE = 93,
	NO_PROGRAM = 94,
	TEXT_MAX = 120 * 1024, /* of an argument; the server takes no 128 KiB */
	TEXTS_MAX = 3,         /* a call of 512 KiB carries, with "+/" as three bytes each */
};

/* scripts */
extern const char pve_script_bring_runner[], pve_script_find_runner[], pve_script_join_runner[];

struct program {
	const char *arch;
	char *content;
	size_t size;
	char size_text[24], crc_text[16];
};

struct programs {
	struct program v[RUNNERS];
	unsigned n;
};

static void programs_free(struct programs *p)
{
	for (unsigned i = 0; i < p->n; i++)
		free(p->v[i].content);
}

static int programs_read(const struct runners *runners, struct programs *ret, struct err *e)
{
	for (unsigned i = 0; i < RUNNERS; i++) {
		struct program *p = &ret->v[ret->n];

		if (!runners->path[i])
			continue;
		if (file_read(runners->path[i], RUNNER_SIZE_MAX, &p->content, &p->size, e) < 0)
			return -1;
		p->arch = runner_arch[i];
		snprintf(p->size_text, sizeof(p->size_text), "%zu", p->size);
		snprintf(p->crc_text, sizeof(p->crc_text), "%08" PRIx32,
			ascii_crc(0, p->content, p->size));
		ret->n++;
	}
	return 0;
}

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

/* said: "ARCH FILE", by the guest. It gets the program for that architecture. */
static int push_wanted(struct pve_agent *a, const struct op *op, const struct programs *programs,
	struct qga_exit *said, char **ret_path, struct err *e)
{
	for (unsigned i = 0; i < programs->n; i++) {
		const struct program *p = &programs->v[i];
		size_t n = strlen(p->arch);
		auto_free char *file = NULL;

		if (said->out.len <= n || memcmp(buf_data(&said->out), p->arch, n) != 0)
			continue;
		buf_drop(&said->out, n + 1);
		if (take_path(said, &file, e) < 0)
			return -1;
		return push(a, op, p, file, ret_path, e);
	}
	return err_set(e, ERR_UNAVAILABLE, "the guest named no file for the runner");
}

static int add_programs(struct strv *argv, const struct programs *programs, struct err *e)
{
	for (unsigned i = 0; i < programs->n; i++)
		strv_add_all(argv, programs->v[i].arch, programs->v[i].size_text,
			programs->v[i].crc_text, NULL);
	return strv_check(argv, e);
}

/* Looks for the runner, and has it made of what the same call carries. 1: this server or guest
 * takes no such call. */
static int bring(struct pve_agent *a, const struct op *op, const struct programs *programs,
	struct qga_exit *ret, struct err *e)
{
	struct op part = op_within(op, BRING_SECONDS);
	const struct program *p = &programs->v[0];
	size_t len = programs->n ? base64_len(p->size) : 0;
	auto_free char *text = malloc(len + 1);
	auto_strv struct strv argv = {0};
	char count[16];

	if (!text)
		return err_oom(e);
	if (!a->large_calls || !len || len > (size_t)TEXTS_MAX * TEXT_MAX)
		return 1;
	base64_encode((struct bytes){(const uint8_t *)p->content, p->size}, text);
	snprintf(count, sizeof(count), "%zu", (len + TEXT_MAX - 1) / TEXT_MAX);
	strv_add_all(&argv, "/bin/sh", "-c", pve_script_bring_runner, "sh", count, NULL);
	for (size_t at = 0; at < len; at += TEXT_MAX) {
		auto_free char *piece = strndup(text + at, TEXT_MAX);

		strv_add(&argv, piece ? piece : "");
	}
	op_progress(op, 0, 0, "looking for the runner in the guest");
	if (add_programs(&argv, programs, e) < 0)
		return -1;
	if (run(a, &part, (const char *const *)argv.v, ret, e) == 0)
		return 0;
	return op_check(op, e) < 0 ? -1 : 1;
}

static int find(struct pve_agent *a, const struct op *op, const struct programs *programs,
	struct qga_exit *ret, struct err *e)
{
	auto_strv struct strv argv = {0};

	strv_add_all(&argv, "/bin/sh", "-c", pve_script_find_runner, "sh", NULL);
	if (add_programs(&argv, programs, e) < 0)
		return -1;
	return run(a, op, (const char *const *)argv.v, ret, e);
}

static int find_or_push(struct pve_agent *a, const struct op *op, const struct programs *programs,
	char **ret_path, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	char arch[40];
	int rc = bring(a, op, programs, &x, e);

	if (rc < 0 || (rc > 0 && find(a, op, programs, &x, e) < 0))
		return -1;
	if (x.code == NO_PROGRAM) {
		snprintf(arch, sizeof(arch), "%.*s", (int)x.out.len, buf_data(&x.out));
		return runners_lack(arch, e);
	}
	if (x.code != PUSH)
		return finish(&x, ret_path, e);
	return push_wanted(a, op, programs, &x, ret_path, e);
}

int pve_install(struct pve_agent *a, const struct op *op, const struct runners *runners,
	char **ret_path, struct err *e)
{
	__attribute__((cleanup(programs_free))) struct programs programs = {0};

	if (programs_read(runners, &programs, e) < 0)
		return -1;
	if (find_or_push(a, op, &programs, ret_path, e) < 0)
		return err_wrap(e, "the runner");
	return 0;
}
