#include "driver/proxmox/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/node.h"
#include "util/auto.h"
#include "util/json.h"

#define GIB ((int64_t)1 << 30)
enum { CLOCK_SECONDS = 30, SPACE_GIB = 20 };

struct report {
	void (*say)(void *arg, const struct check *c);
	void *arg;
	struct pve_inst *inst;
	struct pve_api *api;
	const struct op *op;
};

PRINTF_LIKE(5, 6)
static void say(
	const struct report *r, const char *name, int state, const char *fix, const char *fmt, ...)
{
	struct check c = {.name = name, .state = state};
	int n = snprintf(c.detail, sizeof(c.detail), "%.40s: ", r->inst->id);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c.detail + n, sizeof(c.detail) - (size_t)n, fmt, ap);
	va_end(ap);
	snprintf(c.fix, sizeof(c.fix), "%s", state == CHECK_OK ? "" : fix);
	r->say(r->arg, &c);
}

/* False: the server cannot be asked, which has been reported. */
static bool check_version(const struct report *r)
{
	bool old, no_disks;
	char text[32];
	struct err e;

	/* Asked anew, while pve_older_than may use a kept answer: this shows whether the login
	 * works now. */
	if (pve_do(r->api, r->op, "GET", NULL, PVE_BRIEF, NULL, &e, "/version") < 0 ||
		pve_older_than(r->inst->site, r->op, 8, 2, &old, text, &e) < 0 ||
		pve_older_than(r->inst->site, r->op, PVE_DISKS_SINCE, &no_disks, text, &e) < 0) {
		const char *fix = "";

		if (pve_says_certificate(&e))
			fix = "set \"fingerprint\" to what `pvenode cert info` shows, or "
			      "verify_tls "
			      "to false";
		else if (e.kind == ERR_PERMISSION)
			fix = "check user, user_realm, password or token";
		else if (e.kind == ERR_UNAVAILABLE)
			fix = "check host and port, and that pveproxy runs: `systemctl status "
			      "pveproxy`";
		say(r, "login", CHECK_MISSING, fix, "%.200s", e.msg);
		return false;
	}
	say(r, "login", CHECK_OK, "", "logged in to %s", r->inst->site->base_url);
	say(r, "version", no_disks ? CHECK_WARN : CHECK_OK,
		"apt-get update && apt-get dist-upgrade", "Proxmox VE %s%s%s", text,
		old ? "; 8.2 is needed" : "",
		no_disks ? "; OVAs need 8.3, built-in systems and local images 8.4" : "");
	return true;
}

static void check_certificate(const struct report *r)
{
	const json_t *a = r->inst->site->access;

	if (json_string_value(json_object_get(a, "fingerprint")))
		say(r, "certificate", CHECK_OK, "", "is the pinned one");
	else if (json_is_false(json_object_get(a, "verify_tls")))
		say(r, "certificate", CHECK_WARN,
			"set \"fingerprint\" to what `pvenode cert info` shows on the server",
			"is not verified: whoever answers there gets the password");
	else
		say(r, "certificate", CHECK_OK, "", "is trusted");
}

/* Whether one of the names (separated by '|') is granted on the path or above it. */
static bool has_privilege(const json_t *all, const char *path, const char *names)
{
	const char *at;
	json_t *value, *granted;

	json_object_foreach((json_t *)all, at, value) {
		size_t n = strlen(at);

		if (strcmp(at, "/") != 0 &&
			(strncmp(path, at, n) != 0 || (path[n] != '/' && path[n] != '\0')))
			continue;
		for (const char *p = names; *p;) {
			char name[64];
			size_t len = strcspn(p, "|");

			snprintf(name, sizeof(name), "%.*s", (int)len, p);
			granted = json_object_get(value, name);
			if (granted)
				return true;
			p += len + (p[len] == '|');
		}
	}
	return false;
}

/* A download needs more than the right to put a file on a storage, because it lets a user reach
 * into the server's network. */
static void check_downloads(const struct report *r, const json_t *all)
{
	char node[128];
	bool may;

	snprintf(node, sizeof(node), "/nodes/%.100s", r->inst->node);
	may = has_privilege(all, node, "Sys.AccessNetwork") ||
	      (has_privilege(all, "/", "Sys.Audit") && has_privilege(all, "/", "Sys.Modify"));
	say(r, "downloads", may ? CHECK_OK : CHECK_WARN,
		"pveum role modify Moat --append 1 --privs Sys.AccessNetwork",
		may ? "the server may download built-in systems%s"
		    : "built-in systems need Sys.AccessNetwork on %s",
		may ? "" : node);
}

static void check_privileges(const struct report *r)
{
	static const struct {
		const char *path, *names;
	} needed[] = {{"/vms", "VM.Allocate"}, {"/vms", "VM.Audit"}, {"/vms", "VM.Clone"},
		{"/vms", "VM.Config.CDROM"}, {"/vms", "VM.Config.CPU"}, {"/vms", "VM.Config.Disk"},
		{"/vms", "VM.Config.HWType"}, {"/vms", "VM.Config.Memory"},
		{"/vms", "VM.Config.Network"}, {"/vms", "VM.Config.Options"},
		{"/vms", "VM.Console"}, {"/vms", "VM.GuestAgent.Unrestricted|VM.Monitor"},
		{"/vms", "VM.PowerMgmt"}, {"/vms", "VM.Snapshot"}, {"/vms", "VM.Snapshot.Rollback"},
		{"/storage", "Datastore.Allocate"}, {"/storage", "Datastore.AllocateSpace"},
		{"/storage", "Datastore.AllocateTemplate"}, {"/storage", "Datastore.Audit"},
		{"/sdn", "SDN.Allocate"}, {"/sdn", "SDN.Audit"}, {"/sdn", "SDN.Use"},
		{"/nodes", "Sys.Audit"}};
	auto_json json_t *all = NULL;
	char missing[160] = "";
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &all, &e, "/access/permissions") < 0) {
		say(r, "privileges", CHECK_WARN, "", "cannot be seen: %.160s", e.msg);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!has_privilege(all, needed[i].path, needed[i].names)) {
			size_t n = strlen(missing);

			snprintf(missing + n, sizeof(missing) - n, "%s%.*s", n ? " " : "",
				(int)strcspn(needed[i].names, "|"), needed[i].names);
		}
	if (missing[0])
		say(r, "privileges", CHECK_MISSING,
			"pveum role add Moat --privs \"...\"; pveum acl modify / --users USER "
			"--roles Moat (docs/proxmox.md has the list)",
			"missing: %s", missing);
	else
		say(r, "privileges", CHECK_OK, "", "all that are needed");
	check_downloads(r, all);
}

static bool check_node(const struct report *r)
{
	auto_json json_t *nodes = NULL, *status = NULL;
	char names[128] = "";
	const char *state = NULL;
	const json_t *n, *memory;
	struct err e;
	size_t i;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &nodes, &e, "/nodes") < 0) {
		say(r, "node", CHECK_MISSING, "", "%.200s", e.msg);
		return false;
	}
	json_array_foreach(nodes, i, n) {
		const char *name = json_string_value(json_object_get(n, "node"));
		size_t len = strlen(names);

		if (name && strcmp(name, r->inst->node) == 0)
			state = json_string_value(json_object_get(n, "status"));
		if (name)
			snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", name);
	}
	if (!state || strcmp(state, "online") != 0) {
		say(r, "node", CHECK_MISSING, "set \"node\" (or PROXMOX_NODE) to one of them",
			"%.40s is %.16s; there are: %s", r->inst->node, state ? state : "not there",
			names);
		return false;
	}
	if (pve_do(r->api, r->op, "GET", NULL, 0, &status, &e, "/nodes/%s/status", r->inst->node) <
		0) {
		say(r, "node", CHECK_WARN, "", "%.200s", e.msg);
		return true;
	}
	memory = json_object_get(status, "memory");
	say(r, "node", CHECK_OK, "", "%.40s, %" PRId64 " of %" PRId64 " GiB memory free",
		r->inst->node, (int64_t)json_number_value(json_object_get(memory, "free")) / GIB,
		(int64_t)json_number_value(json_object_get(memory, "total")) / GIB);
	return true;
}

static void check_space(const struct report *r, const char *storage)
{
	auto_json json_t *status = NULL;
	int64_t avail;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &status, &e, "/nodes/%s/storage/%s/status",
		    r->inst->node, storage) < 0) {
		say(r, "space", CHECK_WARN, "", "%.200s", e.msg);
		return;
	}
	avail = (int64_t)json_number_value(json_object_get(status, "avail")) / GIB;
	say(r, "space", avail < SPACE_GIB ? CHECK_WARN : CHECK_OK,
		"remove templates (`moat image ls --on`), or use a larger storage",
		"%" PRId64 " GiB free on %.60s", avail, storage);
}

static void check_storages(const struct report *r)
{
	auto_pve_storages struct pve_storages st = {0};
	struct err e;

	if (pve_storages_find(r->inst, r->op, &st, &e) < 0) {
		say(r, "storage", CHECK_MISSING, "check image_storage, iso_storage, import_storage",
			"%.200s", e.msg);
		return;
	}
	say(r, "storage", st.images ? CHECK_OK : CHECK_MISSING,
		"set \"image_storage\" (or PROXMOX_IMAGE_STORAGE) to a storage with content "
		"\"images\"",
		"%.60s %s", r->inst->image_storage,
		st.images ? "takes disk images" : "takes no disk images, or is not there");
	say(r, "iso", st.iso ? CHECK_OK : CHECK_MISSING, st.fix_iso,
		st.iso ? "%.60s takes ISO images" : "no storage takes ISO images%s",
		st.iso ? st.iso : "");
	say(r, "import", st.import ? CHECK_OK : CHECK_WARN, st.fix_import,
		st.import
			? "%.60s takes disks to import"
			: "no storage takes disks to import: OVAs and built-in systems need one%s",
		st.import ? st.import : "");
	say(r, "ova", st.work ? CHECK_OK : CHECK_WARN, st.fix_work,
		st.work ? "%.60s is where OVAs are unpacked"
			: "no storage with files takes disk images: OVAs are unpacked on one%s",
		st.work ? st.work : "");
	if (st.images)
		check_space(r, r->inst->image_storage);
}

static void check_sdn(const struct report *r)
{
	auto_json json_t *zones = NULL, *ipams = NULL, *there = NULL;
	bool dhcp_works = false;
	const json_t *z;
	struct err e;
	size_t i;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &zones, &e, "/cluster/sdn/zones") < 0 ||
		pve_do(r->api, r->op, "GET", NULL, 0, &ipams, &e, "/cluster/sdn/ipams") < 0 ||
		pve_do(r->api, r->op, "GET", NULL, 0, &there, &e, "/nodes/%s/sdn/zones",
			r->inst->node) < 0) {
		say(r, "sdn", CHECK_MISSING,
			"apt-get install libpve-network-perl; add \"source "
			"/etc/network/interfaces.d/*\" to /etc/network/interfaces",
			"%.200s", e.msg);
		return;
	}
	json_array_foreach(there, i, z) {
		const char *name = json_string_value(json_object_get(z, "zone"));
		const char *status = json_string_value(json_object_get(z, "status"));

		if (name && status && strcmp(status, "error") == 0)
			say(r, "sdn", CHECK_WARN, "ifreload -a; journalctl -u pvedaemon",
				"zone %.16s is in error on the node", name);
		dhcp_works |= status && strcmp(status, "available") == 0;
	}
	say(r, "sdn", CHECK_OK, "", "%zu zones", json_array_size(zones));
	/* The API does not tell whether dnsmasq is installed; a network that works shows it. */
	say(r, "dnsmasq", CHECK_OK, "",
		dhcp_works ? "networks work on the node%s"
			   : "cannot be seen from here; DHCP needs it: apt-get install dnsmasq && "
			     "systemctl disable --now dnsmasq%s",
		"");
}

static void check_clock(const struct report *r)
{
	auto_json json_t *j = NULL;
	int64_t off;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &j, &e, "/nodes/%s/time", r->inst->node) < 0) {
		say(r, "clock", CHECK_WARN, "", "%.200s", e.msg);
		return;
	}
	off = (int64_t)json_number_value(json_object_get(j, "time")) - (int64_t)time(NULL);
	say(r, "clock", off > CLOCK_SECONDS || off < -CLOCK_SECONDS ? CHECK_WARN : CHECK_OK,
		"timedatectl set-ntp true", "the server's is %" PRId64 " s %s ours",
		off < 0 ? -off : off, off < 0 ? "behind" : "ahead of");
}

int pve_doctor(struct driver *base, const struct op *op, const json_t *access,
	void (*report)(void *arg, const struct check *c), void *arg, struct err *e)
{
	struct pve_driver *d = (struct pve_driver *)base;
	auto_free struct pve_inst **insts = NULL;

	if (pve_access_read(d, access, &insts, e) < 0)
		return -1;
	if (!insts[0]) {
		struct check c = {.name = "servers", .state = CHECK_MISSING};

		snprintf(c.detail, sizeof(c.detail), "no Proxmox server is configured");
		snprintf(c.fix, sizeof(c.fix),
			"export PROXMOX_HOST=... PROXMOX_USER=... PROXMOX_PASSWORD=... "
			"PROXMOX_NODE=..., or PROXMOX_CONFIG_FILE");
		report(arg, &c);
	}
	for (size_t i = 0; insts[i]; i++) {
		struct report r = {.say = report,
			.arg = arg,
			.inst = insts[i],
			.api = pve_site_api(insts[i]->site),
			.op = op};

		if (!check_version(&r))
			continue;
		check_certificate(&r);
		check_privileges(&r);
		if (!check_node(&r))
			continue;
		check_storages(&r);
		check_sdn(&r);
		check_clock(&r);
	}
	return op_check(op, e);
}
