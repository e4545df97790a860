/*
 * A copy wakes up as the VM that was saved: same randomness, names, addresses, and a clock that
 * stood still. Its cards are unplugged, as they were when it was saved. The runner, which is in its
 * memory already, changes all that before anybody else gets in; only then the cards are plugged in.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "driver/qemu-args.h"
#include "driver/qemu-vm.h"
#include "guest/wire.h"
#include "net/net.h"
#include "net/usernet.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/log.h"
#include "util/str.h"

enum {
	AS_NEW = WIRE_IDENTITY_CLOCK | WIRE_IDENTITY_RANDOM | WIRE_IDENTITY_HOSTNAME |
		 WIRE_IDENTITY_MACHINE | WIRE_IDENTITY_CARDS,
};
enum { KINDS_MAX = 256 };
#define ADDRESS_SECONDS 15.0 /* a guest need not want any */
#define ADDRESS_PAUSE   0.02

static int identify(
	struct qemu_vm *vm, const struct op *op, const struct guest_identity *id, struct err *e)
{
	struct guest *g;
	int rc;

	if (ways_take(&vm->ways, op, &g, e) < 0)
		return -1;
	rc = guest_identify(g, op, id, e);
	ways_give(&vm->ways, g);
	return rc < 0 ? qemu_vm_explain(vm, e) : 0;
}

static struct mac_addr own_mac(const struct qemu_vm *vm, size_t nic)
{
	return vm->net ? net_plan_nic(net_plan(vm->net), vm->index, nic)->mac
		       : usernet_mac(vm->spec, vm->mac_base, nic);
}

/* The system makes itself those that we cannot. */
static size_t make_keys(const struct qemu_vm *vm, struct hostkey keys[HOSTKEYS_MAX])
{
	auto_free char *path = NULL, *text = NULL, *comment = NULL;
	struct err e;
	size_t n = 0;
	char *rest;

	if (str_printf(&path, &e, "%s/" TEMPLATE_HOSTKEYS, vm->template->dir) < 0 ||
		str_printf(&comment, &e, "root@%s", vm->spec->name) < 0 ||
		file_read(path, KINDS_MAX, &text, NULL, &e) < 0)
		return 0;
	rest = text;
	for (char *kind; n < HOSTKEYS_MAX && (kind = strsep(&rest, "\n"));)
		n += *kind && hostkey_make(kind, comment, &keys[n], &e) == 0;
	return n;
}

static int as_new_machine(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	char old[SPEC_NICS_MAX][MAC_TEXT_MAX], mac[SPEC_NICS_MAX][MAC_TEXT_MAX];
	struct guest_card cards[SPEC_NICS_MAX];
	struct hostkey keys[HOSTKEYS_MAX] = {0};
	uint8_t random[16];
	char machine_id[2 * sizeof(random) + 1];
	struct guest_identity id = {.flags = AS_NEW,
		.hostname = vm->spec->name,
		.machine_id = machine_id,
		.cards = cards,
		.n_cards = vm->spec->n_nics,
		.keys = keys};
	int rc;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, errno, "getrandom");
	/* A version 4 UUID, as systemd makes them. */
	random[6] = (uint8_t)((random[6] & 0x0f) | 0x40);
	random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
	str_hex(random, sizeof(random), machine_id);
	for (size_t i = 0; i < vm->spec->n_nics; i++) {
		cards[i].old = mac_text(qemu_template_mac(i), old[i]);
		cards[i].mac = mac_text(own_mac(vm, i), mac[i]);
	}
	id.n_keys = make_keys(vm, keys);
	rc = identify(vm, op, &id, e);
	for (size_t i = 0; i < id.n_keys; i++)
		hostkey_free(&keys[i]);
	return rc;
}

/* A VM that booted is itself, but for its name. Where that cannot be set it keeps the image's. */
static int name_only(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct guest_identity id = {.flags = WIRE_IDENTITY_HOSTNAME, .hostname = vm->spec->name};
	struct guest *g;

	if (ways_take(&vm->ways, op, &g, e) < 0)
		return -1;
	if (strcmp(guest_way(g), "runner") == 0 && guest_identify(g, op, &id, e) < 0)
		log_err(op, LOG_WARN, e, "%s/%s has no name", vm->sandbox, vm->spec->name);
	ways_give(&vm->ways, g);
	return 0;
}

int qemu_identify(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct guest_identity renew = {.flags = WIRE_IDENTITY_RENEW};

	if (!vm->copied)
		return name_only(vm, op, e);
	if (as_new_machine(vm, op, e) < 0)
		return -1;
	if (vm->spec->n_nics &&
		(qemu_links_set(vm, op, true, e) < 0 || identify(vm, op, &renew, e) < 0))
		return -1;
	return 0;
}

/* Whether somebody gives out addresses that somebody else may want to use at once. A VM that is
 * alone on a network that leads nowhere can wait for its address itself. */
static bool matters(const struct qemu_vm *vm, size_t nic)
{
	const struct net_plan *plan = vm->net ? net_plan(vm->net) : NULL;

	return plan && (plan->n_nics > 1 || plan->way_out) &&
	       plan->vnets[net_plan_nic(plan, vm->index, nic)->vnet].dhcp;
}

int qemu_await_addresses(struct qemu_vm *vm, const struct op *op, struct err *e)
{
	struct op soon = op_within(op, ADDRESS_SECONDS);
	char mac[SPEC_NICS_MAX][MAC_TEXT_MAX];
	struct guest_card cards[SPEC_NICS_MAX];
	struct guest_identity id = {.flags = WIRE_IDENTITY_ADDRESSED, .cards = cards};

	if (!vm->copied)
		return 0;
	for (size_t i = 0; i < vm->spec->n_nics; i++)
		if (matters(vm, i)) {
			cards[id.n_cards].old = cards[id.n_cards].mac =
				mac_text(own_mac(vm, i), mac[i]);
			id.n_cards++;
		}
	while (id.n_cards && identify(vm, &soon, &id, e) < 0)
		if (e->kind != ERR_BUSY || op_pause(&soon, ADDRESS_PAUSE, e) < 0) {
			if (e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
				return -1;
			log_msg(op, LOG_WARN, "%s/%s has no address yet", vm->sandbox,
				vm->spec->name);
			return 0;
		}
	return 0;
}
