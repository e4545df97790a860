/*
 * How it works. The guest agent, through the server's API, is the way that always works; with the
 * runner in the guest, which is put there when it is first needed, an operation takes two calls of
 * it (pve-rest.h). A VM that is used often gets a kept channel (pve-channel.h), which is then used
 * for whatever is small. Where the runner cannot run, and in Windows, there is only the agent.
 */
#include "guest/pve-guest.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "guest/agent.h"
#include "guest/line.h"
#include "guest/pve-channel.h"
#include "guest/pve-door.h"
#include "guest/pve-rest.h"
#include "util/auto.h"
#include "util/lock.h"
#include "util/log.h"

enum {
	SMALL = 8 * 1024, /* what passes over the kept channel: bytes of request, input, file */
	INBOX_MAX = 64 * 1024,
	BULK = 128 * 1024, /* input of at least that much, if it is known, is no talk */
};

struct pve_guest {
	struct guest base; /* first */
	struct pve_guest_vm vm;
	struct pve_agent agent;
	struct pve_runner *runner;
	struct pve_channel *channel; /* NULL: the VM has no second serial port */
	struct pve_disc *disc; /* NULL: the VM has no drive, or the server no place for discs */
	struct pve_door door;
	struct qga *qga;
	struct guest *plain; /* the way without the runner */
	pthread_mutex_t mu;
	bool use_plain;
};

static struct pve_guest *pve_of(struct guest *g)
{
	return (struct pve_guest *)g;
}

static bool is_plain(struct pve_guest *p)
{
	auto_unlock pthread_mutex_t *held = lock_take(&p->mu);

	return p->use_plain;
}

static bool become_plain(struct pve_guest *p)
{
	auto_unlock pthread_mutex_t *held = lock_take(&p->mu);
	bool first = !p->use_plain;

	p->use_plain = true;
	return first;
}

/* 1: the runner is there; 0: it never will be. */
static int want_runner(struct pve_guest *p, const struct op *op, struct err *e)
{
	if (is_plain(p))
		return 0;
	if (pve_runner_install(p->runner, op, false, e) == 0)
		return 1;
	if (e->kind != ERR_UNSUPPORTED)
		return err_wrap(e, "VM %s", p->vm.name);
	if (become_plain(p))
		log_err(op, LOG_WARN, e, "%s: the runner cannot run, using the plain guest agent",
			p->vm.name);
	return 0;
}

/* The kept channel, if there is one and the operation suits it. */
static int take_line(
	struct pve_guest *p, const struct op *op, bool need, struct guest **ret, struct err *e)
{
	*ret = NULL;
	return p->channel ? pve_channel_take(p->channel, op, need, ret, e) : 0;
}

static void give_line(struct pve_guest *p, struct guest *line)
{
	if (line)
		pve_channel_give(p->channel);
}

static size_t strings_size(const char *const *list)
{
	size_t n = 0;

	for (; list && *list; list++)
		n += strlen(*list) + 1;
	return n;
}

/* Input that was collected already, as letters again. */
static int refill(const struct buf *input, struct inbox **ret, struct err *e)
{
	auto_inbox struct inbox *in = NULL;

	if (inbox_new(INBOX_MAX, &in, e) < 0 ||
		(input->len && inbox_put(in, GUEST_LETTER_DATA, 0, 0, buf_bytes(input), e) < 0) ||
		inbox_put(in, GUEST_LETTER_EOF, 0, 0, (struct bytes){0}, e) < 0)
		return -1;
	*ret = take_ptr(&in);
	return 0;
}

/* Commands whose input is meant to be talked with as it comes. The channel is too slow for much. */
static bool is_talk(const struct guest_exec *req)
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

static int exec_talk(struct pve_guest *p, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct guest *line = NULL;
	int rc;

	if (!p->channel || take_line(p, op, true, &line, e) < 0) {
		if (p->channel && (req->tty || op_check(op, e) < 0))
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

static int pve_exec(struct guest *g, const struct op *op, const struct guest_exec *req,
	const struct guest_io *io, struct guest_exit *ret, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_exec(p->plain, op, req, io, ret, e);
	if (is_talk(req))
		return exec_talk(p, op, req, io, ret, e);
	return exec_captured(p, op, req, io, ret, e);
}

static int keep_body(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)stream;
	return buf_add(arg, data.p, data.len, e);
}

/* Small files over the channel. 1: not this one. */
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

static int pve_read(struct guest *g, const struct op *op, const struct guest_path *at, uint64_t max,
	const struct guest_io *io, struct guest_stat *ret, struct err *e)
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

/* 1: not over the channel. What cannot be done twice is not tried again. */
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

static int pve_write(struct guest *g, const struct op *op, const struct guest_write *req,
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

/* Always by agent calls: a directory may be large. */
static int pve_list(struct guest *g, const struct op *op, const struct guest_path *at,
	int (*each)(void *arg, const struct guest_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_list(p->plain, op, at, each, arg, e);
	return pve_rest_list(p->runner, op, at, each, arg, e);
}

static int pve_mkdir(struct guest *g, const struct op *op, const struct guest_path *at,
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

static int pve_symlink(struct guest *g, const struct op *op, const struct guest_path *at,
	const char *target, struct err *e)
{
	struct pve_guest *p = pve_of(g);
	int runner = want_runner(p, op, e);

	if (runner <= 0)
		return runner < 0 ? -1 : guest_symlink(p->plain, op, at, target, e);
	return pve_rest_symlink(p->runner, op, at, target, e);
}

static void pve_free(struct guest *g)
{
	struct pve_guest *p = pve_of(g);

	pve_channel_free(p->channel);
	pve_disc_free(p->disc);
	guest_free(p->plain);
	qga_close(p->qga);
	pve_runner_free(p->runner);
	pve_agent_done(&p->agent);
	pthread_mutex_destroy(&p->mu);
	free(p);
}

static const char *pve_way(const struct guest *g)
{
	return is_plain((struct pve_guest *)g) ? "agent" : "runner";
}

static const struct guest_ops pve_ops = {
	.name = "runner",
	.exec = pve_exec,
	.read = pve_read,
	.write = pve_write,
	.list = pve_list,
	.mkdir = pve_mkdir,
	.symlink = pve_symlink,
	.free = pve_free,
	.way = pve_way,
};

static int prepare(struct pve_guest *p, struct err *e)
{
	struct pve_channel_vm vm = {.agent = &p->agent, .name = p->vm.name};

	p->door = (struct pve_door){.agent = &p->agent, .windows = p->vm.windows};
	p->use_plain = p->vm.windows;
	if (pve_runner_new(&p->agent, p->vm.runner_path, &p->runner, e) < 0 ||
		pve_door_open(&p->door, &p->qga, e) < 0 ||
		agent_open(p->qga, p->vm.windows, &p->plain, e) < 0)
		return -1;
	if (p->vm.iso_storage && p->vm.cdrom && !p->vm.windows &&
		pve_disc_new(&p->agent, &p->vm, &p->disc, e) < 0)
		return -1;
	vm.runner = p->runner;
	return p->vm.serial1 && !p->vm.windows ? pve_channel_new(&vm, &p->channel, e) : 0;
}

int pve_guest_open(
	const struct pve_guest_vm *vm, const struct op *op, struct guest **ret, struct err *e)
{
	struct pve_guest *p = calloc(1, sizeof(*p));

	if (!p)
		return err_oom(e);
	p->base.ops = &pve_ops;
	p->vm = *vm;
	p->agent = (struct pve_agent){.api = vm->api, .node = vm->node, .vmid = vm->vmid};
	if (pve_agent_init(&p->agent, e) < 0) {
		free(p);
		return -1;
	}
	pthread_mutex_init(&p->mu, NULL);
	if (prepare(p, e) < 0 || pve_agent_await(&p->agent, op, e) < 0) {
		err_wrap(e, "VM %s", vm->name);
		pve_free(&p->base);
		return -1;
	}
	*ret = &p->base;
	return 0;
}

void pve_guest_forget(struct guest *g)
{
	struct pve_guest *p = pve_of(g);

	if (p->channel)
		pve_channel_forget(p->channel);
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
