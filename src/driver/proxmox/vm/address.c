#include "driver/proxmox/vm/address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "driver/proxmox/network/net.h"
#include "util/json.h"
#include "util/system/log.h"

#define PATIENCE_SECONDS 20.0
#define LOOK_SECONDS     0.5
enum { MAC_LEN = 17 };

struct waiting {
	struct pve_vm *vm;
	char macs[SPEC_NICS_MAX][MAC_LEN + 1];
	unsigned n; /* those that have no address yet */
};

/* "virtio=BC:24:11:00:00:01,bridge=x": the MAC; false: it has none. */
static bool read_mac(const char *nic, char ret[MAC_LEN + 1])
{
	const char *mac = nic ? strchr(nic, '=') : NULL;

	if (!mac || strcspn(mac + 1, ",") != MAC_LEN)
		return false;
	snprintf(ret, MAC_LEN + 1, "%s", mac + 1);
	return true;
}

/* Lists the NICs that DHCP serves; the server has chosen MACs where the spec has none. */
static int list_nics(struct waiting *w, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = w->vm->sandbox;
	const struct vm_spec *spec = w->vm->spec;
	auto_json json_t *config = NULL;
	bool any = false;

	for (size_t i = 0; i < spec->n_nics; i++)
		any |= pve_net_has_dhcp(b, &spec->nics[i]);
	if (!any)
		return 0;
	if (pve_do(b->api, op, "GET", NULL, 0, &config, e, "/nodes/%s/qemu/%u/config",
		    b->inst->node, w->vm->vmid) < 0)
		return -1;
	for (size_t i = 0; i < spec->n_nics; i++) {
		char key[32];

		snprintf(key, sizeof(key), "net%zu", i);
		if (pve_net_has_dhcp(b, &spec->nics[i]) &&
			read_mac(json_string_value(json_object_get(config, key)), w->macs[w->n]))
			w->n++;
	}
	return 0;
}

static bool has_ipv4(const json_t *interface)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(interface, "ip-addresses"), i, one) {
		const char *type = json_string_value(json_object_get(one, "ip-address-type"));
		const char *text = json_string_value(json_object_get(one, "ip-address"));

		/* A guest that DHCP does not answer may give itself a link-local address. */
		if (type && text && strcmp(type, "ipv4") == 0 &&
			strncmp(text, "169.254.", strlen("169.254.")) != 0)
			return true;
	}
	return false;
}

static void forget_mac(struct waiting *w, const char *mac)
{
	for (unsigned i = 0; i < w->n; i++)
		if (strcasecmp(w->macs[i], mac) == 0) {
			w->n--;
			memmove(w->macs[i], w->macs[i + 1], (w->n - i) * sizeof(w->macs[0]));
			return;
		}
}

/* Asks the guest once. What it says is a hostile guest's word; it decides about nothing but our
 * waiting. */
static int ask(struct waiting *w, const struct op *op, struct err *e)
{
	struct pve_sandbox *b = w->vm->sandbox;
	auto_json json_t *told = NULL;
	const json_t *one;
	size_t i;

	if (pve_do(b->api, op, "GET", NULL, 0, &told, e,
		    "/nodes/%s/qemu/%u/agent/network-get-interfaces", b->inst->node,
		    w->vm->vmid) < 0)
		return -1;
	json_array_foreach(json_object_get(told, "result"), i, one) {
		const char *mac = json_string_value(json_object_get(one, "hardware-address"));

		if (mac && has_ipv4(one))
			forget_mac(w, mac);
	}
	return 0;
}

static double patience(const struct pve_vm *vm)
{
	double boot = vm->sandbox->d->env->boot_timeout;

	return boot < PATIENCE_SECONDS ? boot : PATIENCE_SECONDS;
}

int pve_addresses_await(struct pve_vm *vm, const struct op *op, struct err *e)
{
	struct op part = op_within(op, patience(vm));
	struct waiting w = {.vm = vm};
	struct err why;

	if (json_is_false(json_object_get(vm->sandbox->spec->native, "wait_for_addresses")))
		return 0;
	if (list_nics(&w, op, e) < 0)
		return -1;
	for (unsigned tries = 0; w.n; tries++) {
		if (ask(&w, &part, &why) == 0 && !w.n)
			break;
		if (tries == 0)
			op_progress(op, 0, 0, "waiting for the addresses of %s", vm->spec->name);
		if (op_pause(&part, LOOK_SECONDS, &why) == 0)
			continue;
		if (op_check(op, e) < 0)
			return -1;
		log_msg(op, LOG_WARN, "VM %s: the NIC %s has no IPv4 address after %g s",
			vm->spec->name, w.macs[0], patience(vm));
		op_progress(
			op, 0, 0, "%s has no address at %s, going on", vm->spec->name, w.macs[0]);
		return 0;
	}
	return 0;
}
