/*
 * How it works. Calls of the guest agent, through the server's API, always work. The runner is put
 * into the guest when it is first needed; with it an operation takes two calls (rest.h). A VM that
 * is used often gets a kept line (kept-line.h), which then carries whatever is small. Where the
 * runner cannot run, and in Windows, there is only the agent (agent-transport.h).
 */
#include "driver/proxmox/guest/guest.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "guestlink/agent/agent.h"
#include "guestlink/line/line.h"
#include "driver/proxmox/guest/kept-line.h"
#include "driver/proxmox/guest/agent-transport.h"
#include "driver/proxmox/guest/rest.h"
#include "util/auto.h"
#include "util/system/log.h"

enum {
	/* The most bytes of a request, an input or a file that pass over the kept line. */
	SMALL = 8 * 1024,
	INBOX_MAX = 64 * 1024,
	BULK = 128 * 1024, /* a command with so much input, if that is known, is not interactive */
};

struct pve_guest {
	struct guest base; /* first */
	struct pve_guest_vm vm;
	struct pve_agent agent;
	struct pve_runner *runner;
	struct pve_kept_line *kept_line; /* NULL: no second serial port, or Windows */
	struct pve_disc *disc;           /* NULL: no drive, or no storage for discs */
	struct pve_agent_transport transport;
	struct qga *qga;
	struct guest *plain; /* the link without the runner */
	_Atomic bool use_plain;
};

static struct pve_guest *pve_of(struct guest *g)
{
	return (struct pve_guest *)g;
}

/* 1: the runner is in the guest; 0: it cannot run there. */
static int want_runner(struct pve_guest *p, const struct op *op, struct err *e)
{
	if (p->use_plain)
		return 0;
	if (pve_runner_install(p->runner, op, false, e) == 0)
		return 1;
	if (e->kind != ERR_UNSUPPORTED)
		return err_wrap(e, "VM %s", p->vm.name);
	if (!atomic_exchange(&p->use_plain, true))
		log_err(op, LOG_WARN, e, "%s: the runner cannot run, using the plain guest agent",
			p->vm.name);
	return 0;
}

/* The kept line, or NULL in *ret if there is none. need: open it now. */
static int take_line(
	struct pve_guest *p, const struct op *op, bool need, struct guest **ret, struct err *e)
{
	*ret = NULL;
	return p->kept_line ? pve_kept_line_take(p->kept_line, op, need, ret, e) : 0;
}

static void give_line(struct pve_guest *p, struct guest *line)
{
	if (line)
		pve_kept_line_give(p->kept_line);
}

static size_t strings_size(const char *const *list)
{
	size_t n = 0;

	for (; list && *list; list++)
		n += strlen(*list) + 1;
	return n;
}

/* Puts input that was collected already into an inbox again. */
static int refill(const struct buf *input, struct inbox **ret, struct err *e)
{
	auto_inbox struct inbox *in = NULL;

	if (inbox_new(INBOX_MAX, &in, e) < 0 ||
		(input->len && inbox_put(in, GUEST_INPUT_DATA, 0, 0, buf_bytes(input), e) < 0) ||
		inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e) < 0)
		return -1;
	*ret = take_ptr(&in);
	return 0;
}

/* Whether the command must get its input as it comes. Much input is no dialogue, and the kept
 * line is too slow for it. */
static bool is_interactive(const struct guest_exec *req)
{
	return req->tty || (req->input && !req->capture_max && req->input_size < BULK);
}

static int exec_on_line(struct guest *line, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, const struct buf *input, struct guest_exit *ret, struct err *e)
{
	auto_inbox struct inbox *in = NULL;
	struct guest_io again = *io;

	if (!input)
		return guest_exec(line, op, req, io, ret, e);
	if (refill(input, &in, e) < 0)
		return -1;
	again.in = in;
	again.consumed = NULL;
	return guest_exec(line, op, req, &again, ret, e);
}

static void input_done(struct pve_input *in)
{
	buf_free(&in->ahead);
}
#define auto_input __attribute__((cleanup(input_done)))

static int exec_interactive(struct pve_guest *p, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct guest *line = NULL;
	int rc;

	if (!p->kept_line || take_line(p, op, true, &line, e) < 0) {
		if (p->kept_line && (req->tty || op_check(op, e) < 0))
			return -1;
		auto_input struct pve_input in = {.disc = p->disc};

		return pve_rest_exec(p->runner, op, req, io, &in, ret, e);
	}
	rc = guest_exec(line, op, req, io, ret, e);
	give_line(p, line);
	return rc;
}

static int exec_captured(struct pve_guest *p, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	bool small = strings_size(req->argv) + strings_size(req->env) < SMALL;
	auto_input struct pve_input in = {.disc = p->disc};
	struct guest *line = NULL;
	int all = 1, rc;

	if (req->input) {
		all = guest_collect(op, io, SMALL, &in.ahead, e);
		if (all < 0)
			return -1;
	}
	in.ended = all;
	if (take_line(p, op, false, &line, e) < 0)
		return -1;
	if (line && small && all) {
		rc = exec_on_line(line, op, req, io, req->input ? &in.ahead : NULL, ret, e);
		give_line(p, line);
		return rc;
	}
	give_line(p, line);
	return pve_rest_exec(p->runner, op, req, io, &in, ret, e);
}

static int exec_command(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_exec(p->plain, op, req, io, ret, e);
	if (is_interactive(req))
		return exec_interactive(p, op, req, io, ret, e);
	return exec_captured(p, op, req, io, ret, e);
}

static int keep_body(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)stream;
	return buf_add(arg, data.p, data.len, e);
}

/* Reads a small file over the kept line. 1: it is too large, or the line has failed. */
static int read_on_line(struct guest *line, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	auto_buf struct buf body = {0};
	struct guest_io keep = {.output = keep_body, .arg = &body};
	uint64_t most = max && max < SMALL ? max : SMALL;

	if (guest_read(line, op, at, most, &keep, ret, e) == 0)
		return body.len ? io->output(io->arg, WIRE_BODY, buf_bytes(&body), e) : 0;
	if (e->sys == EFBIG && most != max)
		return 1;
	return line_failed(line) && op_check(op, e) == 0 ? 1 : -1;
}

static int read_file(struct guest *g, const struct op *op, const struct guest_path *at,
	uint64_t max, const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);
	struct guest *line = NULL;
	int rc = 1;

	if (runner <= 0)
		return runner < 0 ? -1 : guest_read(p->plain, op, at, max, io, ret, e);
	if (take_line(p, op, false, &line, e) < 0)
		return -1;
	if (line)
		rc = read_on_line(line, op, at, max, io, ret, e);
	give_line(p, line);
	return rc == 1 ? pve_rest_read(p->runner, op, at, max, io, ret, e) : rc;
}

/* 1: the line has failed, and the file can be written by agent calls. Not so when appending,
 * which must not be done twice. */
static int write_on_line(struct guest *line, const struct op *op, const struct guest_write *req,
	const struct buf *content, struct guest_stat *ret, struct err *e)
{
	auto_inbox struct inbox *in = NULL;
	struct guest_io io = {0};

	if (refill(content, &in, e) < 0)
		return -1;
	io.in = in;
	if (guest_write(line, op, req, &io, ret, e) == 0)
		return 0;
	return line_failed(line) && !req->append && op_check(op, e) == 0 ? 1 : -1;
}

static int write_file(struct guest *g, const struct op *op, const struct guest_write *req,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e), rc = 1, all;
	auto_input struct pve_input in = {.disc = p->disc};
	struct guest *line = NULL;

	if (runner <= 0)
		return runner < 0 ? -1 : guest_write(p->plain, op, req, io, ret, e);
	all = guest_collect(op, io, SMALL, &in.ahead, e);
	if (all < 0 || take_line(p, op, false, &line, e) < 0)
		return -1;
	in.ended = all;
	if (line && all)
		rc = write_on_line(line, op, req, &in.ahead, ret, e);
	give_line(p, line);
	return rc == 1 ? pve_rest_write(p->runner, op, req, io, &in, ret, e) : rc;
}

/* Always by agent calls: a directory may be too large for the kept line. */
static int list_directory(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_list(p->plain, op, at, each, arg, e);
	return pve_rest_list(p->runner, op, at, each, arg, e);
}

static int make_directory(struct guest *g, const struct op *op, const struct guest_path *at,
	uint32_t mode, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e), rc = -1;
	struct guest *line = NULL;

	if (runner <= 0)
		return runner < 0 ? -1 : guest_mkdir(p->plain, op, at, mode, e);
	if (take_line(p, op, false, &line, e) < 0)
		return -1;
	if (line)
		rc = guest_mkdir(line, op, at, mode, e);
	bool again = !line || (rc < 0 && line_failed(line) && op_check(op, e) == 0);
	give_line(p, line);
	return again ? pve_rest_mkdir(p->runner, op, at, mode, e) : rc;
}

static int make_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_symlink(p->plain, op, at, target, e);
	return pve_rest_symlink(p->runner, op, at, target, e);
}

static void free_guest(struct guest *g)
{
	struct pve_guest *p = pve_of(g);

	pve_kept_line_free(p->kept_line);
	pve_disc_free(p->disc);
	guest_free(p->plain);
	qga_close(p->qga);
	pve_runner_free(p->runner);
	pve_agent_done(&p->agent);
	free(p);
}

static bool has_runner(const struct guest *g)
{
	return !((const struct pve_guest *)g)->use_plain;
}

static const struct guest_ops ops = {
	.exec = exec_command,
	.read = read_file,
	.write = write_file,
	.list = list_directory,
	.mkdir = make_directory,
	.symlink = make_symlink,
	.free = free_guest,
	.has_runner = has_runner,
};

static int prepare(struct pve_guest *p, struct err *e)
{
	struct pve_kept_line_vm vm = {.agent = &p->agent, .name = p->vm.name};

	p->transport = (struct pve_agent_transport){.agent = &p->agent, .windows = p->vm.windows};
	p->use_plain = p->vm.windows;
	if (pve_runner_new(&p->agent, p->vm.runners, &p->runner, e) < 0 ||
		pve_agent_transport_open(&p->transport, &p->qga, e) < 0 ||
		agent_open(p->qga, p->vm.windows, &p->plain, e) < 0)
		return -1;
	if (p->vm.iso_storage && p->vm.cdrom && !p->vm.windows &&
		pve_disc_new(&p->agent, &p->vm, &p->disc, e) < 0)
		return -1;
	vm.runner = p->runner;
	return p->vm.serial1 && !p->vm.windows ? pve_kept_line_new(&vm, &p->kept_line, e) : 0;
}

int pve_guest_open(
	const struct pve_guest_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct pve_guest *p = calloc(1, sizeof(*p));

	if (!p)
		return err_oom(e);
	p->base.ops = &ops;
	p->vm = *vm;
	p->agent = (struct pve_agent){
		.api = vm->api, .node = vm->node, .vmid = vm->vmid, .large_calls = vm->large_calls};
	pve_agent_init(&p->agent);
	if (prepare(p, e) < 0 || pve_agent_await(&p->agent, op, e) < 0) {
		err_wrap(e, "VM %s", vm->name);
		free_guest(&p->base);
		return -1;
	}
	*ret = &p->base;
	return 0;
}

void pve_guest_forget(struct guest *g)
{
	struct pve_guest *p = pve_of(g);

	if (p->kept_line)
		pve_kept_line_forget(p->kept_line);
	pve_runner_forget(p->runner);
}

int pve_guest_hold(struct guest *g, const struct op *op, struct err *e)
{
	struct pve_guest *p = pve_of(g);

	return p->disc ? pve_disc_hold(p->disc, op, e) : 0;
}

void pve_guest_release(struct guest *g)
{
	struct pve_guest *p = pve_of(g);

	if (p->disc)
		pve_disc_release(p->disc);
}
