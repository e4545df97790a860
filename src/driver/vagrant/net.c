/* Ports of machines appear on the host's loopback, through the SSH connection that the runner uses.
 */
#include "driver/vagrant/net.h"

#include <errno.h>
#include <string.h>

#include "driver/vagrant/sandbox.h"
#include "driver/vagrant/ssh/process.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

#define HOST         "127.0.0.1"
#define DIAL_SECONDS 60.0 /* once there is an SSH connection; making that has its own limits */

static int dial(struct vagrant_vm *vm, const struct op *op, const char *host, unsigned port,
	int *ret_fd, struct err *e)
{
	struct guest *g;
	struct op soon;
	int rc;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	soon = op_within(op, DIAL_SECONDS);
	rc = ssh_process_dial(links_below(&vm->links, g), &soon, host, port, ret_fd, e);
	links_give(&vm->links, g);
	return rc;
}

/* The machine's own address, if we know one: a provider that forwards SSH from this host tells us
 * the host's. */
static bool own_address(struct vagrant_vm *vm, char host[static VAGRANT_HOST_MAX])
{
	auto_unlock struct lock *held = lock_take(&vm->mu);

	memcpy(host, vm->ssh.host, VAGRANT_HOST_MAX);
	return strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0 &&
	       !str_starts(host, "127.");
}

/* A service may listen on one address only: tries those that it may have. */
static int dial_any(
	struct vagrant_vm *vm, const struct op *op, unsigned port, int *ret_fd, struct err *e)
{
	char own[VAGRANT_HOST_MAX];
	const char *const hosts[] = {"127.0.0.1", "::1", own_address(vm, own) ? own : NULL, NULL};

	for (unsigned i = 0; hosts[i]; i++) {
		if (dial(vm, op, hosts[i], port, ret_fd, e) == 0)
			return 0;
		if (e->sys != ECONNREFUSED)
			return -1;
	}
	return -1;
}

int vagrant_net_connect(
	void *arg, const struct op *op, const struct forward *f, int *ret_fd, struct err *e)
{
	struct vagrant_sandbox *b = arg;

	return dial_any(b->vms[f->vm], op, f->port, ret_fd, e);
}

/* Fails if the SSH server allows no forwarding: it says so even for port 0, where nothing listens.
 */
static int probe(struct vagrant_vm *vm, const struct op *op, struct err *e)
{
	auto_fd int fd = -1;

	if (dial(vm, op, "127.0.0.1", 0, &fd, e) == 0 || e->sys == ECONNREFUSED)
		return 0;
	return -1;
}

static int to_json(
	const struct vagrant_sandbox *b, const struct forward *f, json_t **ret, struct err *e)
{
	return json_make(ret, e, "{s:s, s:s, s:i, s:s, s:i}", "vm", b->vms[f->vm]->name, "address",
		"127.0.0.1", "port", (int)f->port, "host", HOST, "host_port", (int)f->host_port);
}

int vagrant_net_forward(struct driver_sandbox *sandbox, const struct op *op, unsigned vm,
	unsigned port, unsigned host_port, json_t **ret, struct err *e)
{
	struct vagrant_sandbox *b = (struct vagrant_sandbox *)sandbox;
	struct forward f = {.vm = vm, .port = port, .host_port = host_port};

	if (probe(b->vms[vm], op, e) < 0)
		return -1;
	if (forwards_add(b->forwards, &f, &f.host_port, e) < 0)
		return -1;
	return to_json(b, &f, ret, e);
}

int vagrant_net_unforward(
	struct driver_sandbox *sandbox, const struct op *op, unsigned host_port, struct err *e)
{
	(void)op;
	return forwards_remove(((struct vagrant_sandbox *)sandbox)->forwards, host_port, e);
}

/* The networks are Vagrant's and its provider's: all that we can tell of are the forwarded ports.
 */
int vagrant_net_show(
	struct driver_sandbox *sandbox, const struct op *op, json_t **ret, struct err *e)
{
	struct vagrant_sandbox *b = (struct vagrant_sandbox *)sandbox;
	struct forward all[FORWARDS_MAX];
	unsigned n = forwards_list(b->forwards, all);
	auto_json json_t *list = json_array();

	(void)op;
	for (unsigned i = 0; i < n; i++) {
		json_t *one;

		if (to_json(b, &all[i], &one, e) < 0)
			return -1;
		if (json_array_append_new(list, one) < 0)
			return err_oom(e);
	}
	return json_make(ret, e, "{s:[], s:[], s:O, s:{s:[], s:[]}}", "vnets", "nics", "forwards",
		list, "refused", "names", "connections");
}
