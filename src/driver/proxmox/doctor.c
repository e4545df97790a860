#include "driver/proxmox/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/proxmox/api/wording.h"
#include "driver/proxmox/pool.h"
#include "driver/proxmox/site/access.h"
#include "driver/proxmox/site/node.h"
#include "driver/proxmox/spec/args.h"
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
	const json_t *privileges; /* NULL: they cannot be seen */
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

/* The certificate that is served is not the first that `pvenode cert info` lists. */
#define SHOW_CERTIFICATE                                                                           \
	"openssl s_client -connect localhost:8006 </dev/null 2>/dev/null | openssl x509 -noout "   \
	"-fingerprint -sha256"

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
			fix = "set \"fingerprint\" to what this shows on the "
			      "server: " SHOW_CERTIFICATE "; or verify_tls to false";
		else if (e.kind == ERR_PERMISSION)
			fix = "check user, user_realm, password or token";
		else if (e.kind == ERR_UNAVAILABLE)
			fix = "check host and port, and that pveproxy runs: `systemctl status "
			      "pveproxy`";
		say(r, "login", CHECK_MISSING, fix, "%s", e.msg);
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
			"set \"fingerprint\" to what this shows on the server: " SHOW_CERTIFICATE,
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

static void check_privileges(const struct report *r, json_t **ret_all)
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
	char missing[700] = "";
	json_t *all = NULL;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &all, &e, "/access/permissions") < 0) {
		say(r, "privileges", CHECK_WARN, "", "cannot be seen: %s", e.msg);
		return;
	}
	*ret_all = all;
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

/* Says what is wrong with a node that is not online. */
static void say_node(const struct report *r, const char *state, const char *names)
{
	if (!state)
		say(r, "node", CHECK_MISSING, "set \"node\" (or PROXMOX_NODE) to one of them",
			"%.40s is not there; there are: %s", r->inst->node, names);
	else if (strcmp(state, "unknown") == 0)
		say(r, "node", CHECK_MISSING, "systemctl restart pvestatd    # on that node",
			"%.40s does not report (pvestatd): the server does not know its memory",
			r->inst->node);
	else
		say(r, "node", CHECK_MISSING,
			"switch the node on, or set \"node\" (or PROXMOX_NODE) to another",
			"%.40s is %.16s; there are: %s", r->inst->node, state, names);
}

static bool check_node(const struct report *r)
{
	auto_json json_t *nodes = NULL;
	struct pve_room room;
	char names[512] = "";
	const char *state = NULL;
	const json_t *n;
	struct err e;
	size_t i;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &nodes, &e, "/nodes") < 0) {
		say(r, "node", CHECK_MISSING, "", "%s", e.msg);
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
		say_node(r, state, names);
		return false;
	}
	if (pve_room_ask(r->inst, r->op, &room, NULL, &e) < 0)
		say(r, "node", CHECK_WARN, "", "%s", e.msg);
	else
		say(r, "node", CHECK_OK, "",
			"%.40s, %" PRId64 " MB left for sandboxes of %" PRId64 " MB memory",
			r->inst->node, room.left_mb > 0 ? room.left_mb : 0, room.total_mb);
	return true;
}

static void check_space(const struct report *r, const char *storage)
{
	auto_json json_t *status = NULL;
	int64_t avail;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &status, &e, "/nodes/%s/storage/%s/status",
		    r->inst->node, storage) < 0) {
		say(r, "space", CHECK_WARN, "", "%s", e.msg);
		return;
	}
	avail = (int64_t)json_number_value(json_object_get(status, "avail")) / GIB;
	say(r, "space", avail < SPACE_GIB ? CHECK_WARN : CHECK_OK,
		"remove templates (`moat image ls --on`), or use a larger storage",
		"%" PRId64 " GiB free on %.60s", avail, storage);
}

/* A storage that the login may not see is not listed. */
static bool may_see_storage(const struct report *r)
{
	char path[128];

	snprintf(path, sizeof(path), "/storage/%.100s", r->inst->image_storage);
	return !r->privileges ||
	       has_privilege(r->privileges, path, "Datastore.Audit|Datastore.AllocateSpace");
}

static void check_storages(const struct report *r)
{
	auto_pve_storages struct pve_storages st = {0};
	struct err e;

	if (!may_see_storage(r)) {
		say(r, "storage", CHECK_MISSING,
			"pveum acl modify /storage --users USER --roles Moat (docs/proxmox.md has "
			"the role)",
			"the login may not see %.60s: Datastore.Audit on /storage/%.60s is missing",
			r->inst->image_storage, r->inst->image_storage);
		return;
	}
	if (pve_storages_find(r->inst, r->op, &st, &e) < 0) {
		say(r, "storage", CHECK_MISSING, "check image_storage, iso_storage, import_storage",
			"%s", e.msg);
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
			"%s", e.msg);
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

/* Whether a list of rules lets guests reach a UDP port of the node. A security group may do so,
 * too, and counts. */
static bool lets_in(const json_t *rules, const char *port)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)rules, i, one) {
		const char *type = json_string_value(json_object_get(one, "type"));
		const char *action = json_string_value(json_object_get(one, "action"));
		const char *proto = json_string_value(json_object_get(one, "proto"));
		const char *dport = json_string_value(json_object_get(one, "dport"));

		if (!type || !action || !json_integer_value(json_object_get(one, "enable")))
			continue;
		if (strcmp(type, "group") == 0)
			return true;
		if (strcmp(type, "in") == 0 && strcmp(action, "ACCEPT") == 0 &&
			(!proto || (strcmp(proto, "udp") == 0 &&
					   (!dport || pve_has_tag(dport, port)))))
			return true;
	}
	return false;
}

/* Looks whether the node's own firewall refuses guests the addresses that they ask it for. */
static void check_node_firewall(const struct report *r, const json_t *cluster)
{
	const char *policy = json_string_value(json_object_get(cluster, "policy_in"));
	auto_json json_t *own = NULL, *all = NULL, *rules = NULL;
	struct err e;
	bool open;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &own, &e, "/nodes/%s/firewall/options",
		    r->inst->node) < 0 ||
		pve_do(r->api, r->op, "GET", NULL, 0, &all, &e, "/cluster/firewall/rules") < 0 ||
		pve_do(r->api, r->op, "GET", NULL, 0, &rules, &e, "/nodes/%s/firewall/rules",
			r->inst->node) < 0) {
		say(r, "firewall", CHECK_WARN, "", "is on; its rules cannot be seen: %s", e.msg);
		return;
	}
	open = (policy && strcmp(policy, "ACCEPT") == 0) ||
	       (json_object_get(own, "enable") &&
		       !json_integer_value(json_object_get(own, "enable"))) ||
	       ((lets_in(all, "67") || lets_in(rules, "67")) &&
		       (lets_in(all, "53") || lets_in(rules, "53")));
	say(r, "firewall", open ? CHECK_OK : CHECK_WARN,
		"for port in 67 53; do pvesh create /cluster/firewall/rules --type in --action "
		"ACCEPT --enable 1 --proto udp --dport $port; done",
		open ? "is on, and guests reach DHCP and DNS of the node"
		     : "is on, and the node refuses DHCP (udp 67) or names (udp 53) to guests");
}

static void check_firewall(const struct report *r)
{
	auto_json json_t *options = NULL;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &options, &e, "/cluster/firewall/options") < 0)
		say(r, "firewall", CHECK_WARN, "", "cannot be seen: %s", e.msg);
	else if (!json_integer_value(json_object_get(options, "enable")))
		say(r, "firewall", CHECK_WARN,
			"docs/proxmox.md tells which rules come first; then: pvesh set "
			"/cluster/firewall/options --enable 1",
			"is off: routes of the node lead from one sandbox to another");
	else
		check_node_firewall(r, options);
}

static void check_clock(const struct report *r)
{
	auto_json json_t *j = NULL;
	int64_t off;
	struct err e;

	if (pve_do(r->api, r->op, "GET", NULL, 0, &j, &e, "/nodes/%s/time", r->inst->node) < 0) {
		say(r, "clock", CHECK_WARN, "", "%s", e.msg);
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
		auto_json json_t *privileges = NULL;
		struct report r = {.say = report,
			.arg = arg,
			.inst = insts[i],
			.api = pve_site_api(insts[i]->site),
			.op = op};

		if (!check_version(&r))
			continue;
		check_certificate(&r);
		check_privileges(&r, &privileges);
		r.privileges = privileges;
		if (!check_node(&r))
			continue;
		check_storages(&r);
		check_sdn(&r);
		check_firewall(&r);
		check_clock(&r);
	}
	return op_check(op, e);
}
