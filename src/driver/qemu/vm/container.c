/*
 * How it works: the kernel and its modules come from the image store, our init and the runner from
 * this moat, as a second archive behind the initramfs. So an old image always has the newest of
 * both. What is particular to a VM, its service and its files, comes through the runner once the VM
 * has its identity: one template serves all services of an image, whatever their variables are.
 */
#include "driver/qemu/vm/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "driver/container.h"
#include "driver/binds.h"
#include "driver/qemu/vm/files.h"
#include "net/net.h"
#include "store/disk/cpio.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/io.h"
#include "wire/service.h"
#include "wire/wire.h"

enum {
	PROGRAM_MAX = 64 << 20,
	INBOX_SPARE = 4096,
	SAID_MAX = 4096,
	START_SECONDS = 120,
	LAST_LINES = 10,
	LINE_SHOWN = 200,
};

static int add_program(
	struct buf *archive, const char *host, const char *path, unsigned inode, struct err *e)
{
	auto_free char *content = NULL;
	size_t len;

	if (!host || file_read(host, PROGRAM_MAX, &content, &len, e) < 0)
		return -1;
	cpio_put(archive, &(struct cpio_entry){.path = path,
				  .mode = S_IFREG | 0755,
				  .inode = inode,
				  .content = {(uint8_t *)content, len}});
	return buf_check(archive, e);
}

int qemu_container_programs(const struct qemu_vm *vm, struct buf *ret, struct err *e)
{
	const struct runners *r = &vm->env->runners;

	if (add_program(ret, runners_init(r, vm->image->arch, e), "moat/init", 1, e) < 0 ||
		add_program(ret, runners_for(r, vm->image->arch, e), "moat/guest", 2, e) < 0)
		return -1;
	cpio_end(ret);
	return buf_check(ret, e);
}

/* ---- asking init ---- */

struct said {
	struct buf out, err;
};

static int add_said(void *arg, int stream, struct bytes data, struct err *e)
{
	struct said *s = arg;
	struct buf *b = stream == WIRE_STDERR ? &s->err : &s->out;

	return b->len + data.len > SAID_MAX ? 0 : buf_add(b, data.p, data.len, e);
}

static void said_free(struct said *s)
{
	buf_free(&s->out);
	buf_free(&s->err);
}

/* Runs our init's tool in the guest. input NULL: none. */
static int run_tool(struct guest *g, const struct op *op, const char *what,
	const struct bytes *input, struct said *said, struct guest_exit *ret, struct err *e)
{
	const char *argv[] = {SERVICE_CTL, what, NULL};
	struct guest_exec req = {.argv = argv, .cwd = "/", .capture_max = SAID_MAX};
	struct guest_io io = {.output = add_said, .arg = said};
	auto_inbox struct inbox *in = NULL;

	if (input) {
		if (inbox_new(input->len + INBOX_SPARE, &in, e) < 0 ||
			inbox_put(in, GUEST_INPUT_DATA, 0, 0, *input, e) < 0 ||
			inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e) < 0)
			return -1;
		io.in = in;
		req.input = true;
		req.input_size = input->len;
	}
	return guest_exec(g, op, &req, &io, ret, e);
}

/* Runs a tool that must succeed. doing: what the error says of it. */
static int ask(struct qemu_vm *vm, const struct op *op, const char *what, const struct bytes *input,
	struct buf *ret_said, struct err *e)
{
	__attribute__((cleanup(said_free))) struct said said = {0};
	struct guest_exit end = {0};
	char shown[SAID_MAX];
	struct guest *g;
	size_t len;
	int rc;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	rc = run_tool(g, op, what, input, &said, &end, e);
	links_give(&vm->links, g);
	if (rc < 0)
		return qemu_vm_explain(vm, e);
	if (end.stage == GUEST_RAN && end.code == SERVICE_DONE)
		return ret_said ? buf_add(ret_said, buf_data(&said.out), said.out.len, e) : 0;
	len = said.err.len;
	while (len && buf_data(&said.err)[len - 1] == '\n')
		len--;
	str_escape((const char *)buf_data(&said.err), len, shown, sizeof(shown));
	return err_set(e, ERR_BACKEND, "%.500s",
		len              ? shown
		: end.message[0] ? end.message
				 : "its init failed");
}

int qemu_container_settle(struct guest *g, const struct op *op, struct err *e)
{
	__attribute__((cleanup(said_free))) struct said said = {0};
	struct guest_exit end = {0};

	if (run_tool(g, op, "status", NULL, &said, &end, e) < 0)
		return -1;
	return end.stage == GUEST_RAN && end.code == SERVICE_DONE
		       ? 0
		       : err_set(e, ERR_BACKEND, "its init does not answer");
}

/* ---- starting ---- */

static int put_files(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const struct service_spec *s = vm->spec->service;
	auto_buf struct buf archive = {0};
	struct bytes all;

	if (!vm->spec->n_files && !(s && s->n_binds))
		return 0;
	op_progress(op, 0, 0, "putting files into %s", vm->spec->name);
	if (s && s->n_binds && binds_pack(s, &archive, e) < 0)
		return -1;
	if (qemu_files_pack(vm, &archive, e) < 0)
		return -1;
	all = buf_bytes(&archive);
	return ask(vm, op, "unpack", &all, NULL, e) < 0 ? err_wrap(e, "files and binds") : 0;
}

/* How many of its NICs get an address by DHCP, and what "gateway" means to it. */
static unsigned count_addresses(const struct qemu_vm *vm, uint32_t *ret_gateway)
{
	const struct net_plan *plan = vm->net ? net_plan(vm->net) : NULL;
	unsigned n = 0;

	*ret_gateway = 0;
	if (!plan)
		return (unsigned)vm->spec->n_nics; /* QEMU's own network serves DHCP */
	for (size_t i = 0; i < vm->spec->n_nics; i++) {
		const struct net_vnet *v = &plan->vnets[net_plan_nic(plan, vm->index, i)->vnet];

		n += v->dhcp;
		if (!*ret_gateway && v->n_subnets)
			*ret_gateway = v->subnets[0].server;
	}
	return n;
}

int qemu_service_start(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	const struct service_spec *s = vm->spec->service;
	struct op soon = op_within(op, START_SECONDS);
	auto_buf struct buf record = {0};
	uint32_t gateway;
	unsigned addresses = count_addresses(vm, &gateway);
	struct bytes all;

	if (!vm->container || vm->serviced)
		return 0;
	if (container_record(vm->container, s, addresses, gateway, &record, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	all = buf_bytes(&record);
	/* Before the files, some of which may be for them. */
	if ((s && s->n_tmpfs && ask(vm, &soon, "mounts", &all, NULL, e) < 0) ||
		put_files(vm, op, e) < 0)
		return err_wrap(e, "VM %s", vm->spec->name);
	if (ask(vm, &soon, "start", &all, NULL, e) < 0)
		return err_wrap(e, "the service of VM %s cannot be started", vm->spec->name);
	vm->serviced = true;
	return 0;
}

/* ---- its end ---- */

/* The last lines of its log, each on a line of its own. They are the guest's words. */
static void last_lines(struct qemu_vm *vm, const struct op *op, char *out, size_t size)
{
	auto_buf struct buf log = {0};
	const char *text, *from;
	struct err ignored;
	size_t at = 0, len;

	out[0] = 0;
	if (ask(vm, op, "log", NULL, &log, &ignored) < 0)
		return;
	text = from = (const char *)buf_data(&log);
	len = log.len;
	while (len && text[len - 1] == '\n')
		len--;
	for (size_t i = len, lines = 0; i > 0; i--)
		if (text[i - 1] == '\n' && ++lines == LAST_LINES) {
			from = text + i;
			break;
		}
	while (len && from < text + len && at < size) {
		const char *end = memchr(from, '\n', (size_t)(text + len - from));
		size_t n = (size_t)((end ? end : text + len) - from);
		char shown[LINE_SHOWN];

		str_escape(from, n, shown, sizeof(shown));
		at += (size_t)snprintf(out + at, size - at, "\n  %s", shown);
		from += n + (end != NULL);
	}
}

static int judge(struct qemu_vm *vm, const struct op *op, struct buf *status, struct err *e)
{
	char stage[16] = "", lines[700], text[100];
	int code = 0;

	snprintf(text, sizeof(text), "%.*s", (int)status->len, (const char *)buf_data(status));
	if (sscanf(text, "%15s %d", stage, &code) != 2)
		return err_set(e, ERR_BACKEND, "the init of VM %s talks nonsense", vm->spec->name);
	if (strcmp(stage, "ended") != 0 || code == 0)
		return 0;
	last_lines(vm, op, lines, sizeof(lines));
	return err_set(e, ERR_BACKEND, "the service of VM %s ended with exit code %d%s%s",
		vm->spec->name, code, lines[0] ? "; its last lines:" : "", lines);
}

int qemu_service_check(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	auto_buf struct buf status = {0};

	if (!vm->container)
		return 0;
	return ask(vm, op, "status", NULL, &status, e) < 0 ? -1 : judge(vm, op, &status, e);
}

int qemu_service_await(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	auto_buf struct buf status = {0};

	op_progress(op, 0, 0, "waiting for the end of the service of %s", vm->spec->name);
	return ask(vm, op, "wait", NULL, &status, e) < 0 ? -1 : judge(vm, op, &status, e);
}

int qemu_service_log(
	struct guest *g, const struct op *op, bool follow, const struct guest_io *io, struct err *e)
{
	const char *argv[] = {SERVICE_CTL, follow ? "follow" : "log", NULL};
	struct guest_exec req = {.argv = argv, .cwd = "/"};
	struct guest_exit end = {0};

	if (guest_exec(g, op, &req, io, &end, e) < 0)
		return -1;
	if (end.stage == GUEST_RAN && end.code == SERVICE_DONE)
		return 0;
	return err_set(e, ERR_BACKEND, "the VM's init does not answer: exit code %d %s", end.code,
		end.message);
}
