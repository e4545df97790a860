/*
 * A copy wakes up as the VM that was saved: with its randomness, names and addresses, and a clock
 * that stood still. Its NICs are unplugged, as they were when it was saved. The runner, which is in
 * its memory already, changes all that before a client gets in; only then the NICs are plugged in.
 */
#include "driver/qemu/vm/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "driver/qemu/vm/args.h"
#include "driver/qemu/vm/state.h"
#include "driver/qemu/vm/template.h"
#include "wire/wire.h"
#include "net/net.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/system/log.h"
#include "util/str.h"

enum {
	/* What has booted from the disk of another VM. */
	BOOTED = WIRE_IDENTITY_RANDOM | WIRE_IDENTITY_HOSTNAME | WIRE_IDENTITY_MACHINE,
	AS_NEW = WIRE_IDENTITY_CLOCK | WIRE_IDENTITY_RANDOM | WIRE_IDENTITY_HOSTNAME |
		 WIRE_IDENTITY_MACHINE | WIRE_IDENTITY_NICS,
};
enum { KINDS_MAX = 256 };
#define ADDRESS_SECONDS 15.0 /* a guest may not ask for an address at all */
#define ADDRESS_PAUSE   0.02

static int identify(
	struct qemu_vm *vm, const struct op *op, const struct guest_identity *id, struct err *e)
{
	struct guest *g;
	int rc;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	rc = guest_identify(g, op, id, e);
	links_give(&vm->links, g);
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}

/* The addresses of a VM's NICs, or those that they had in the template. */
static struct mac_addr mac_of(const struct qemu_vm *vm, bool in_template, size_t nic)
{
	struct qemu_plan plan = {.vm = vm->spec,
		.net = vm->net ? net_plan(vm->net) : NULL,
		.index = vm->index,
		.mac_base = vm->mac_base,
		.template = in_template};

	return qemu_nic_mac(&plan, nic);
}

/* Makes SSH host keys of these kinds, one a line. The guest makes those that we cannot. */
static size_t make_keys(const struct qemu_vm *vm, char *kinds, struct hostkey keys[HOSTKEYS_MAX])
{
	auto_free char *comment = NULL;
	struct err e;
	size_t n = 0;

	if (str_printf(&comment, &e, "root@%s", vm->spec->name) < 0)
		return 0;
	for (char *kind; n < HOSTKEYS_MAX && (kind = strsep(&kinds, "\n"));)
		n += *kind && hostkey_make(kind, comment, &keys[n], &e) == 0;
	return n;
}

/* The kinds of keys that a template had, or all: the guest takes those that it has a use for. */
static void key_kinds(const struct qemu_vm *vm, char ret[KINDS_MAX])
{
	auto_free char *path = NULL, *text = NULL;
	struct err e;

	snprintf(ret, KINDS_MAX, "%s", vm->copied ? "" : "ed25519\necdsa\nrsa");
	if (vm->copied && str_printf(&path, &e, "%s/" TEMPLATE_HOSTKEYS, vm->template->dir) == 0 &&
		file_read(path, KINDS_MAX - 1, &text, NULL, &e) == 0)
		snprintf(ret, KINDS_MAX, "%s", text);
}

/* Chooses the guest's host name. */
static const char *hostname_of(const struct qemu_vm *vm)
{
	return vm->image->hostname ? vm->image->hostname : vm->spec->name;
}

static int as_new_machine(struct qemu_vm *vm, const struct op *op, unsigned flags, struct err *e)
{
	char old[SPEC_NICS_MAX][MAC_TEXT_MAX], mac[SPEC_NICS_MAX][MAC_TEXT_MAX];
	struct guest_nic nics[SPEC_NICS_MAX];
	struct hostkey keys[HOSTKEYS_MAX] = {0};
	uint8_t random[16];
	char machine_id[2 * sizeof(random) + 1], kinds[KINDS_MAX];
	struct guest_identity id = {.flags = flags,
		.hostname = hostname_of(vm),
		.machine_id = machine_id,
		.nics = nics,
		.n_nics = vm->spec->n_nics,
		.keys = keys};
	int rc;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, errno, "getrandom");
	/* A version 4 UUID, as systemd makes them. */
	random[6] = (uint8_t)((random[6] & 0x0f) | 0x40);
	random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
	str_hex(random, sizeof(random), machine_id);
	for (size_t i = 0; i < vm->spec->n_nics; i++) {
		nics[i].old = mac_text(mac_of(vm, vm->copied, i), old[i]);
		nics[i].mac = mac_text(mac_of(vm, false, i), mac[i]);
	}
	key_kinds(vm, kinds);
	id.n_keys = make_keys(vm, kinds, keys);
	rc = identify(vm, op, &id, e);
	for (size_t i = 0; i < id.n_keys; i++)
		hostkey_free(&keys[i]);
	return rc;
}

/* A VM that booted has an identity of its own, but for its name. Where that cannot be set it keeps
 * the image's. */
static int name_only(struct qemu_vm *vm, const struct op *op, bool *ret_runner, struct err *e)
{
	struct guest_identity id = {.flags = WIRE_IDENTITY_HOSTNAME, .hostname = hostname_of(vm)};
	struct guest *g;

	if (links_take(&vm->links, op, &g, e) < 0)
		return -1;
	*ret_runner = guest_has_runner(g);
	if (*ret_runner && guest_identify(g, op, &id, e) < 0)
		log_err(op, LOG_WARN, e, "%s/%s has no name", vm->sandbox, vm->spec->name);
	links_give(&vm->links, g);
	return 0;
}

int qemu_identify(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct guest_identity renew = {.flags = WIRE_IDENTITY_RENEW};
	bool runner;

	if (!vm->copied) {
		if (vm->spec->cloud_init && vm->image->cloud_init == KNOWN_YES)
			return 0; /* cloud-init gives it a name, and whatever else is its own */
		if (name_only(vm, op, &runner, e) < 0)
			return -1;
		return vm->image->used && runner ? as_new_machine(vm, op, BOOTED, e) : 0;
	}
	if (as_new_machine(vm, op, AS_NEW, e) < 0)
		return -1;
	if (vm->spec->n_nics &&
		(qemu_nics_plug(vm, op, true, e) < 0 || identify(vm, op, &renew, e) < 0))
		return -1;
	return 0;
}

/* Whether DHCP gives this NIC an address that others may want to use at once. A VM that is alone on
 * a network that leads nowhere can wait for its address itself. */
static bool matters(const struct qemu_vm *vm, size_t nic)
{
	const struct net_plan *plan = vm->net ? net_plan(vm->net) : NULL;

	return plan && (plan->n_nics > 1 || plan->has_egress) &&
	       plan->vnets[net_plan_nic(plan, vm->index, nic)->vnet].dhcp;
}

int qemu_await_addresses(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op soon = op_within(op, ADDRESS_SECONDS);
	char mac[SPEC_NICS_MAX][MAC_TEXT_MAX];
	struct guest_nic nics[SPEC_NICS_MAX];
	struct guest_identity id = {.flags = WIRE_IDENTITY_ADDRESSED, .nics = nics};

	if (!vm->copied)
		return 0;
	for (size_t i = 0; i < vm->spec->n_nics; i++)
		if (matters(vm, i)) {
			nics[id.n_nics].old = nics[id.n_nics].mac =
				mac_text(mac_of(vm, false, i), mac[i]);
			id.n_nics++;
		}
	while (id.n_nics && identify(vm, &soon, &id, e) < 0)
		if (e->kind != ERR_BUSY || op_pause(&soon, ADDRESS_PAUSE, e) < 0) {
			if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
				return -1;
			log_msg(op, LOG_WARN, "%s/%s has no address yet", vm->sandbox,
				vm->spec->name);
			return 0;
		}
	return 0;
}
