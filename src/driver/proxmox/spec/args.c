#include "driver/proxmox/spec/args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/json.h"
#include "wire/sha256.h"
#include "util/str.h"

static bool is_disk_key(const char *key)
{
	static const char *const kinds[] = {"scsi", "virtio", "sata", "ide"};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t n = strlen(kinds[i]);

		if (strncmp(key, kinds[i], n) == 0 && isdigit((unsigned char)key[n]))
			return true;
	}
	return false;
}

const char *pve_first_disk(const json_t *config)
{
	const char *key, *text, *boot = json_string_value(json_object_get(config, "boot")),
				*found = NULL;
	json_t *value;

	json_object_foreach((json_t *)config, key, value) {
		text = json_string_value(value);
		if (!text || !is_disk_key(key) || strstr(text, "media=cdrom"))
			continue;
		/* The disk that the VM boots from, or else the one with the lowest name. */
		if (boot && strstr(boot, key))
			return key;
		if (!found || strcmp(key, found) < 0)
			found = key;
	}
	return found;
}

uint64_t pve_disk_size(const char *text)
{
	static const char units[] = "KMGT";
	const char *at = text ? strstr(text, "size=") : NULL, *unit;
	char *end;
	double n;

	if (!at)
		return 0;
	n = strtod(at + 5, &end);
	unit = *end ? strchr(units, *end) : NULL;
	for (const char *u = units; unit && u <= unit; u++)
		n *= 1024;
	return n > 0 && n < 1e18 ? (uint64_t)n : 0;
}

void pve_dns_name(const char *name, char ret[64])
{
	size_t n = 0;

	for (; *name && n < 63; name++)
		ret[n++] = isalnum((unsigned char)*name) ? *name : '-';
	while (n && ret[n - 1] == '-')
		n--;
	ret[n] = '\0';
	if (!n || ret[0] == '-')
		ret[0] = 'x';
	ret[n ? n : 1] = '\0';
}

void pve_tag_text(const char *text, char ret[128])
{
	size_t n = 0;

	for (; *text && n < 127; text++) {
		char c = (char)tolower((unsigned char)*text);

		ret[n++] = isalnum((unsigned char)c) || strchr("_-+.", c) ? c : '_';
	}
	ret[n] = '\0';
	if (n && strchr("-+.", ret[0]))
		ret[0] = '_';
}

bool pve_has_tag(const char *tags, const char *tag)
{
	size_t n = strlen(tag);

	while (tags && *tags) {
		size_t len = strcspn(tags, ";, ");

		if (len == n && strncasecmp(tags, tag, n) == 0)
			return true;
		tags += len + (tags[len] != '\0');
	}
	return false;
}

void pve_snapshot_name(const char *name, char ret[41])
{
	size_t n = strlen(name);
	bool good = n >= 2 && n <= 40 && isalpha((unsigned char)name[0]) &&
		    strcmp(name, "current") != 0;
	char hex[SHA256_HEX + 1];
	struct sha256 sum;

	for (const char *p = name; *p; p++)
		good = good && (isalnum((unsigned char)*p) || *p == '_' || *p == '-');
	if (good) {
		memcpy(ret, name, n + 1);
		return;
	}
	sha256_start(&sum);
	sha256_add(&sum, name, n);
	sha256_end(&sum, hex);
	snprintf(ret, 41, "moat_%.32s", hex);
}

int pve_nic_text(const struct pve_nic *nic, char **ret, struct err *e)
{
	const char *model = nic->vm->nic_controller == SPEC_NIC_E1000 ? "e1000" : "virtio";
	char mac[MAC_TEXT_MAX] = "", tag[16] = "";

	if (mac_is_set(nic->spec->mac)) {
		mac_text(nic->spec->mac, mac);
		for (char *c = mac; *c; c++)
			*c = (char)toupper((unsigned char)*c);
	}
	if (nic->spec->vlan_tag)
		snprintf(tag, sizeof(tag), ",tag=%u", nic->spec->vlan_tag);
	return str_printf(ret, e, "%s,bridge=%s%s%s%s%s", model, nic->bridge,
		mac[0] ? ",macaddr=" : "", mac, tag,
		nic->vm->firewall || nic->firewalled ? ",firewall=1" : "");
}

int pve_subnet_params(const struct vnet_spec *vnet, const struct subnet_spec *s, const char *dns,
	json_t **ret, struct err *e)
{
	auto_json json_t *j = NULL;
	char net[NET_TEXT_MAX], a[IPV4_TEXT_MAX], b[IPV4_TEXT_MAX], range[96];
	json_t *ranges;

	if (json_make(&j, e, "{s:s, s:s}", "subnet", ipv4_net_text(s->cidr, net), "type",
		    "subnet") < 0)
		return -1;
	if (s->gateway)
		json_object_set_new(j, "gateway", json_string(ipv4_text(s->gateway, a)));
	json_object_set_new(j, "snat", json_boolean(s->snat));
	if (vnet->dhcp && s->n_dhcp_ranges) {
		json_object_set_new(j, "dhcp-range", ranges = json_array());
		for (size_t i = 0; i < s->n_dhcp_ranges; i++) {
			snprintf(range, sizeof(range), "start-address=%s,end-address=%s",
				ipv4_text(s->dhcp_ranges[i].start, a),
				ipv4_text(s->dhcp_ranges[i].end, b));
			json_array_append_new(ranges, json_string(range));
		}
		if (dns && s->snat)
			json_object_set_new(j, "dhcp-dns-server", json_string(dns));
	}
	*ret = take_ptr(&j);
	return 0;
}

/* ---- the settings of a VM ---- */

static void set_text(json_t *j, const char *key, const char *text)
{
	json_object_set_new(j, key, json_string(text));
}

/* Our tags first, then those of the template; except for tags that moat has put on the template,
 * which say nothing about a clone. */
static int set_tags(json_t *j, const struct pve_vm_plan *p, struct err *e)
{
	const char *old = json_string_value(json_object_get(p->template_config, "tags"));
	auto_buf struct buf b = {0};
	auto_free char *text = NULL;

	if (buf_printf(&b, e, "%s%s%s", p->tags, *p->tags ? ";" : "", p->stamp) < 0)
		return -1;
	while (old && *old && p->spec->source.kind == SPEC_SOURCE_TEMPLATE_TAG) {
		size_t len = strcspn(old, ";, ");

		if (len && !str_starts(old, "moat-") && !(len == 7 && str_starts(old, "inspect")) &&
			buf_printf(&b, e, ";%.*s", (int)len, old) < 0)
			return -1;
		old += len + (old[len] != '\0');
	}
	text = buf_take_str(&b);
	if (!text)
		return err_oom(e);
	set_text(j, "tags", text);
	return 0;
}

static int set_nics(json_t *j, const struct pve_vm_plan *p, struct buf *removed, struct err *e)
{
	const struct vm_spec *vm = p->spec;
	char key[32];
	const char *old;
	json_t *value;

	if (!vm->nics_given)
		return 0;
	for (size_t i = 0; i < vm->n_nics; i++) {
		struct pve_nic nic = {.vm = vm,
			.spec = &vm->nics[i],
			.bridge = p->bridges[i],
			.firewalled = p->firewalled};
		auto_free char *text = NULL;

		if (pve_nic_text(&nic, &text, e) < 0)
			return -1;
		snprintf(key, sizeof(key), "net%zu", i);
		set_text(j, key, text);
	}
	json_object_foreach((json_t *)p->template_config, old, value) {
		if (!str_starts(old, "net") || !isdigit((unsigned char)old[3]) ||
			json_object_get(j, old))
			continue;
		if (buf_printf(removed, e, "%s%s", removed->len ? "," : "", old) < 0)
			return -1;
	}
	return 0;
}

const char *pve_cpu(bool no_kvm)
{
	/* QEMU's emulation has no model "host". */
	return no_kvm ? "max" : "host";
}

static void set_machine(json_t *j, const struct pve_vm_plan *p)
{
	const struct vm_spec *vm = p->spec;
	bool own = vm->source.kind == SPEC_SOURCE_TEMPLATE_TAG;
	char text[160];

	json_object_set_new(j, "memory", json_integer(vm->ram_mb));
	json_object_set_new(j, "cores", json_integer(vm->vcpus));
	/* A template that the user made has settings that fit its system: they stay, unless the
	 * spec says otherwise. */
	if (vm->cpu || !own)
		set_text(j, "cpu", vm->cpu ? vm->cpu : pve_cpu(p->no_kvm));
	if (!own && p->no_kvm)
		json_object_set_new(j, "kvm", json_false());
	if (!own || vm->os_type != SPEC_OS_L26)
		set_text(j, "ostype", spec_os_name(vm->os_type));
	if (vm->uefi_boot) {
		set_text(j, "bios", "ovmf");
		if (!json_object_get(p->template_config, "efidisk0")) {
			snprintf(text, sizeof(text), "%s:0,efitype=4m,pre-enrolled-keys=0",
				p->image_storage);
			set_text(j, "efidisk0", text);
		}
	}
	if (!own || vm->vga != SPEC_VGA_NONE)
		set_text(j, "vga", vm->vga == SPEC_VGA_STD ? "std" : "none");
	if (!own || vm->tablet)
		json_object_set_new(j, "tablet", json_boolean(vm->tablet));
}

#define DISC_DRIVE "sata5"

const char *pve_disc_drive(const struct vm_spec *vm, const json_t *template_config)
{
	const char *old = json_string_value(json_object_get(template_config, DISC_DRIVE));

	if (json_object_get(vm->native, DISC_DRIVE))
		return NULL;
	return !old || strcmp(old, "none,media=cdrom") == 0 ? DISC_DRIVE : NULL;
}

static void set_devices(json_t *j, const struct pve_vm_plan *p)
{
	const struct vm_spec *vm = p->spec;
	bool agent = vm->is_sandbox || vm->healthcheck;
	char text[512];

	set_text(j, "agent", agent ? "enabled=1" : "enabled=0");
	set_text(j, "serial0", "socket");
	if (agent && !spec_os_is_windows(vm->os_type))
		set_text(j, "serial1", "socket"); /* for the kept line into the guest */
	/* Large files go in on a disc. The drive must be there from the start: it cannot be
	 * plugged in later. */
	if (agent && pve_disc_drive(vm, p->template_config))
		set_text(j, DISC_DRIVE, "none,media=cdrom");
	if (p->seed_volid) {
		snprintf(text, sizeof(text), "%s,media=cdrom", p->seed_volid);
		set_text(j, "ide2", text);
	}
}

int pve_vm_settings(const struct pve_vm_plan *p, json_t **ret, struct err *e)
{
	auto_json json_t *j = json_object();
	auto_buf struct buf removed = {0};
	auto_free char *list = NULL;
	char name[64];

	if (!j)
		return err_oom(e);
	pve_dns_name(p->spec->name, name);
	set_text(j, "name", name);
	set_text(j, "description", p->description);
	json_object_set_new(j, "onboot", json_false());
	json_object_set_new(j, "protection", json_false());
	set_machine(j, p);
	set_devices(j, p);
	if (set_tags(j, p, e) < 0 || set_nics(j, p, &removed, e) < 0)
		return -1;
	if (removed.len) {
		list = buf_take_str(&removed);
		if (!list)
			return err_oom(e);
		set_text(j, "delete", list);
	}
	/* The spec's "native" wins over everything but the stamp; null removes a setting of
	 * ours. */
	if (json_object_update(j, p->spec->native) < 0 || set_tags(j, p, e) < 0)
		return err_oom(e);
	set_text(j, "description", p->description);
	*ret = take_ptr(&j);
	return 0;
}
