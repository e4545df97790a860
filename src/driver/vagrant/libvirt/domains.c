#include "driver/vagrant/libvirt/domains.h"

#include <stdio.h>
#include <string.h>

#include "driver/vagrant/libvirt/names.h"
#include "util/auto.h"
#include "util/str.h"
#include "util/system/proc.h"

enum { OUTPUT_MAX = 4 * 1024 * 1024 };

/* Runs `virsh WORDS...`; NULL at their end. */
static int virsh(const struct libvirt *l, const char *const *words, char **ret, struct err *e)
{
	auto_proc_result struct proc_result done = {0};
	auto_strv struct strv argv = {0};
	struct proc_req req = {.env = (const char *const *)l->env->v, .out_max = OUTPUT_MAX};
	char *text;

	strv_add_all(&argv, "virsh", "-q", "-c", l->uri, NULL);
	for (; *words; words++)
		strv_add(&argv, *words);
	if (strv_check(&argv, e) < 0)
		return -1;
	req.argv = (const char *const *)argv.v;
	if (proc_run(l->op, &req, &done, e) < 0)
		return -1;
	text = buf_take_str(done.exit_code == 0 ? &done.out : &done.err);
	if (!text)
		return err_oom(e);
	if (done.exit_code == 0) {
		*ret = text;
		return 0;
	}
	err_set(e, ERR_BACKEND, "virsh %s: %.300s", argv.v[4], text);
	free(text);
	return -1;
}

#define VIRSH(l, ret, e, ...) virsh(l, (const char *const[]){__VA_ARGS__, NULL}, ret, e)

static int has_domain(const struct libvirt *l, const char *uuid, struct err *e)
{
	auto_free char *all = NULL;

	return VIRSH(l, &all, e, "list", "--all", "--uuid") < 0 ? -1 : libvirt_has_line(all, uuid);
}

static int name_of(const struct libvirt *l, const char *uuid, char **ret, struct err *e)
{
	if (VIRSH(l, ret, e, "domname", uuid) < 0)
		return -1;
	(*ret)[strcspn(*ret, "\r\n")] = 0;
	return 0;
}

/* The disks of a domain that Vagrant has made for it, and for nothing else: they have names made of
 * its own. A volume that the Vagrantfile only lends to the machine has another. */
static int own_disks(const struct libvirt *l, const char *uuid, struct buf *ret, struct err *e)
{
	auto_free char *name = NULL, *list = NULL;
	char *rest = NULL, type[16], device[16], target[32], file[512];

	if (name_of(l, uuid, &name, e) < 0 ||
		VIRSH(l, &list, e, "domblklist", uuid, "--details") < 0)
		return -1;
	for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *base;

		if (sscanf(line, "%15s %15s %31s %511[^\n]", type, device, target, file) != 4 ||
			strcmp(device, "disk") != 0)
			continue;
		base = strrchr(file, '/');
		base = base ? base + 1 : file;
		if (!libvirt_is_own_disk(base, name, target))
			continue;
		if ((ret->len && buf_add(ret, ",", 1, e) < 0) ||
			buf_add(ret, target, strlen(target), e) < 0)
			return -1;
	}
	return 0;
}

static int destroy(const struct libvirt *l, const char *uuid, struct err *e)
{
	auto_free char *ended = NULL, *gone = NULL, *disks = NULL;
	auto_buf struct buf targets = {0};
	struct err off; /* a domain that is off cannot be ended */
	int rc;

	if (own_disks(l, uuid, &targets, e) < 0)
		return -1;
	VIRSH(l, &ended, &off, "destroy", uuid);
	if (!targets.len) {
		rc = VIRSH(l, &gone, e, "undefine", uuid, "--nvram", "--managed-save",
			"--snapshots-metadata");
	} else {
		disks = buf_take_str(&targets);
		if (!disks)
			return err_oom(e);
		rc = VIRSH(l, &gone, e, "undefine", uuid, "--nvram", "--managed-save",
			"--snapshots-metadata", "--storage", disks);
	}
	if (rc < 0)
		return -1;
	/* A domain that still runs stays in the list without a definition. */
	rc = has_domain(l, uuid, e);
	return rc > 0 ? err_set(e, ERR_BACKEND, "virsh: the domain %s still runs", uuid) : rc;
}

int libvirt_destroy(const struct libvirt *l, const char *uuid, const char *domain, struct err *e)
{
	auto_free char *name = NULL;
	int found;

	/* virsh would take a number or a name for somebody else's domain. */
	if (!libvirt_is_uuid(uuid))
		return err_set(e, ERR_BACKEND, "this is no uuid");
	found = has_domain(l, uuid, e);
	if (found <= 0)
		return found;
	if (name_of(l, uuid, &name, e) < 0)
		return -1;
	if (str_empty(domain) || strcmp(name, domain) != 0)
		return err_set(e, ERR_BACKEND, "this is the domain %s, moat has made %s", name,
			str_empty(domain) ? "none that it knows of" : domain);
	return destroy(l, uuid, e) < 0 ? -1 : 1;
}

/* Vagrant writes the path of the Vagrantfile into a domain, unless that says otherwise; then the
 * name may have the sandbox's id. */
static int was_made_in(const struct libvirt *l, const char *uuid, const char *root, const char *id,
	bool *ret, struct err *e)
{
	auto_free char *xml = NULL, *name = NULL;

	if (VIRSH(l, &xml, e, "dumpxml", uuid) < 0 || name_of(l, uuid, &name, e) < 0)
		return -1;
	*ret = strstr(xml, root) || strstr(name, id);
	return 0;
}

static bool may_be_there(const struct libvirt *l, const char *uuid)
{
	struct err none;

	return has_domain(l, uuid, &none) != 0;
}

int libvirt_destroy_of(
	const struct libvirt *l, const char *root, const char *id, unsigned *ret_n, struct err *e)
{
	auto_free char *all = NULL;
	char *rest = NULL;

	*ret_n = 0;
	if (VIRSH(l, &all, e, "list", "--all", "--uuid") < 0)
		return -1;
	for (char *uuid = strtok_r(all, " \n", &rest); uuid; uuid = strtok_r(NULL, " \n", &rest)) {
		bool ours = false;

		/* Other people's domains may end at any time. */
		if (was_made_in(l, uuid, root, id, &ours, e) < 0 && may_be_there(l, uuid))
			return -1;
		if (!ours)
			continue;
		++*ret_n;
		if (destroy(l, uuid, e) < 0)
			return -1;
	}
	return 0;
}

/* *ret: the uuid of the domain with this name; NULL: there is none. virsh itself would take a name
 * that is a number for somebody else's. */
static int find(const struct libvirt *l, const char *domain, char **ret, struct err *e)
{
	auto_free char *all = NULL;
	char *rest = NULL;

	*ret = NULL;
	if (VIRSH(l, &all, e, "list", "--all", "--uuid") < 0)
		return -1;
	for (char *uuid = strtok_r(all, " \n", &rest); uuid; uuid = strtok_r(NULL, " \n", &rest)) {
		auto_free char *name = NULL;

		if (name_of(l, uuid, &name, e) == 0) {
			if (strcmp(name, domain) == 0)
				return str_dup(uuid, ret, e);
		} else if (may_be_there(l, uuid)) {
			return -1;
		}
	}
	return 0;
}

static int remove_disks_in(
	const struct libvirt *l, const char *pool, const char *domain, struct err *e)
{
	auto_free char *list = NULL;
	char *rest = NULL, disk[300];

	if (VIRSH(l, &list, e, "vol-list", "--pool", pool) < 0)
		return -1;
	for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		auto_free char *gone = NULL;

		if (sscanf(line, "%299s", disk) == 1 && libvirt_is_own_disk(disk, domain, NULL) &&
			VIRSH(l, &gone, e, "vol-delete", "--pool", pool, "--vol", disk) < 0)
			return -1;
	}
	return 0;
}

/* What is there of a machine before it has a domain. */
static int remove_disks(const struct libvirt *l, const char *domain, struct err *e)
{
	auto_free char *pools = NULL;
	char *rest = NULL;

	if (VIRSH(l, &pools, e, "pool-list", "--name") < 0)
		return -1;
	for (char *p = strtok_r(pools, " \n", &rest); p; p = strtok_r(NULL, " \n", &rest))
		if (remove_disks_in(l, p, domain, e) < 0)
			return -1;
	return 0;
}

int libvirt_destroy_named(const struct libvirt *l, const char *domain, const char *root,
	const char *id, struct err *e)
{
	auto_free char *uuid = NULL;
	bool ours = false;

	if (find(l, domain, &uuid, e) < 0)
		return -1;
	if (!uuid)
		return strstr(domain, id) ? remove_disks(l, domain, e) : 0;
	if (was_made_in(l, uuid, root, id, &ours, e) < 0)
		return -1;
	if (!ours)
		return err_set(e, ERR_BACKEND,
			"nothing in the domain %s says that it is of this sandbox", domain);
	return destroy(l, uuid, e) < 0 ? -1 : 1;
}
