/* A node's equipment changes seldom and is asked for often, so answers are kept for two minutes. */
#include "driver/proxmox/site/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/spec/args.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/lock.h"
#include "util/str.h"

#define CACHE_NS INT64_C(120000000000)

static json_t *cached(struct pve_site *s, const char *path)
{
	auto_unlock struct lock *held = lock_take(&s->mu);
	json_t *entry = json_object_get(s->cache, path);

	if (!entry || now_ns() - json_integer_value(json_object_get(entry, "at")) > CACHE_NS)
		return NULL;
	return json_deep_copy(json_object_get(entry, "data"));
}

int pve_fetch(
	struct pve_site *site, const struct op *op, const char *path, json_t **ret, struct err *e)
{
	*ret = cached(site, path);
	if (*ret)
		return 0;
	if (pve_call(pve_site_api(site), op, "GET", path, NULL, 0, ret, e) < 0)
		return -1;
	auto_unlock struct lock *held = lock_take(&site->mu);
	json_object_set_new(site->cache, path,
		json_pack("{s:I, s:o}", "at", (json_int_t)now_ns(), "data", json_deep_copy(*ret)));
	return 0;
}

void pve_storages_free(struct pve_storages *s)
{
	free(s->iso);
	free(s->import);
	free(s->work);
}

int pve_older_than(struct pve_site *site, const struct op *op, int major, int minor, bool *ret,
	char ret_text[32], struct err *e)
{
	auto_json json_t *version = NULL;
	const char *text;
	int a = 0, b = 0;

	if (pve_fetch(site, op, "/version", &version, e) < 0)
		return -1;
	text = json_string_value(json_object_get(version, "version"));
	snprintf(ret_text, 32, "%.31s", text ? text : "unknown");
	*ret = text && sscanf(text, "%d.%d", &a, &b) == 2 &&
	       (a < major || (a == major && b < minor));
	return 0;
}

int pve_lacks_kvm(struct pve_inst *inst, const struct op *op, bool *ret, struct err *e)
{
	auto_json json_t *status = NULL;
	auto_free char *path = NULL;
	const json_t *hvm;

	if (pve_path(&path, e, "/nodes/%s/status", inst->node) < 0)
		return -1;
	*ret = false;
	if (pve_fetch(inst->site, op, path, &status, e) < 0)
		return e->kind == ERR_PERMISSION ? 0 : -1;
	/* A number, or text with one: Perl hardly tells them apart. */
	hvm = json_object_get(json_object_get(status, "cpuinfo"), "hvm");
	if (json_is_string(hvm))
		*ret = strcmp(json_string_value(hvm), "0") == 0;
	else
		*ret = hvm && !json_is_true(hvm) && json_integer_value(hvm) == 0;
	return 0;
}

static bool takes(const json_t *storage, const char *content)
{
	return pve_has_tag(json_string_value(json_object_get(storage, "content")), content);
}

static bool is_on(const json_t *storage)
{
	const json_t *active = json_object_get(storage, "active");
	const json_t *enabled = json_object_get(storage, "enabled");

	return (!active || json_is_true(active) || json_integer_value(active)) &&
	       (!enabled || json_is_true(enabled) || json_integer_value(enabled));
}

static bool is_of_type(const json_t *storage, const char *type)
{
	const char *text = json_string_value(json_object_get(storage, "type"));

	return text && strcmp(text, type) == 0;
}

/* Types of storage that have a path; all others are block devices or services. */
static bool is_file_based(const json_t *storage)
{
	static const char *const types[] = {"dir", "nfs", "cifs", "btrfs", "cephfs", "glusterfs"};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (is_of_type(storage, types[i]))
			return true;
	return false;
}

static const char *name_of(const json_t *storage)
{
	return json_string_value(json_object_get(storage, "storage"));
}

/* Picks a storage: the one that the instance names; else "local", which every server has; else
 * the first. */
static int pick(
	const json_t *all, const char *wanted, const char *content, char **ret, struct err *e)
{
	const char *found = NULL;
	const json_t *s;
	size_t i;

	json_array_foreach((json_t *)all, i, s) {
		const char *name = name_of(s);

		/* An ESXi server can be imported from, but nothing can be put on it. */
		if (!name || !is_on(s) || !takes(s, content) || is_of_type(s, "esxi"))
			continue;
		if (wanted ? strcmp(name, wanted) == 0 : !found || strcmp(name, "local") == 0)
			found = name;
	}
	if (wanted && !found)
		return err_set(
			e, ERR_INVALID, "storage %s does not take content \"%s\"", wanted, content);
	return found ? str_dup(found, ret, e) : 0;
}

/* Picks the storage that an OVA is unpacked on before its disks are imported: where the OVA is,
 * if that storage takes disks; else where the VM's disks are; else any. */
static int pick_work(
	const json_t *all, const struct pve_inst *inst, struct pve_storages *st, struct err *e)
{
	const char *found = NULL;
	const json_t *s;
	int best = 0;
	size_t i;

	json_array_foreach((json_t *)all, i, s) {
		const char *name = name_of(s);
		int rank = 1;

		if (!name || !is_on(s) || !is_file_based(s) || !takes(s, "images"))
			continue;
		if (st->import && strcmp(name, st->import) == 0)
			rank = 3;
		else if (strcmp(name, inst->image_storage) == 0)
			rank = 2;
		if (rank > best) {
			best = rank;
			found = name;
		}
	}
	return found ? str_dup(found, &st->work, e) : 0;
}

/* The command that lets a storage take one more kind of content. It sets the whole list, so it
 * repeats what is in there. */
static void write_fix(const json_t *all, const char *on, const char *content, char ret[160])
{
	const json_t *found = NULL, *s;
	size_t i;

	json_array_foreach((json_t *)all, i, s) {
		const char *name = name_of(s);

		/* CephFS has a path, but never takes disks. */
		if (!name || !is_on(s) || !is_file_based(s) ||
			(strcmp(content, "images") == 0 && is_of_type(s, "cephfs")))
			continue;
		if (!found || strcmp(name, on ? on : "local") == 0)
			found = s;
	}
	if (found)
		snprintf(ret, 160, "pvesm set %.40s --content %.90s,%s", name_of(found),
			json_string_value(json_object_get(found, "content")), content);
	else
		snprintf(ret, 160, "pvesm add dir moat --path /var/lib/moat --content %s",
			strcmp(content, "images") == 0 ? content : "iso,import,images");
}

int pve_storages_find(
	struct pve_inst *inst, const struct op *op, struct pve_storages *ret, struct err *e)
{
	auto_pve_storages struct pve_storages s = {0};
	auto_json json_t *all = NULL;
	auto_free char *path = NULL;
	const json_t *one;
	size_t i;

	if (pve_path(&path, e, "/nodes/%s/storage?format=1", inst->node) < 0 ||
		pve_fetch(inst->site, op, path, &all, e) < 0)
		return -1;
	if (pick(all, inst->iso_storage, "iso", &s.iso, e) < 0 ||
		pick(all, inst->import_storage, "import", &s.import, e) < 0)
		return err_wrap(e, "node %s", inst->node);
	if (pick_work(all, inst, &s, e) < 0)
		return -1;
	write_fix(all, inst->iso_storage, "iso", s.fix_iso);
	write_fix(all, inst->import_storage, "import", s.fix_import);
	write_fix(all, s.import, "images", s.fix_work);
	json_array_foreach(all, i, one) {
		const char *name = name_of(one);
		const char *type = json_string_value(json_object_get(one, "type"));
		const json_t *formats =
			json_object_get(json_object_get(one, "formats"), "supported");
		const json_t *format;
		size_t k;

		if (!name || strcmp(name, inst->image_storage) != 0)
			continue;
		s.images = is_on(one) && takes(one, "images");
		snprintf(s.image_type, sizeof(s.image_type), "%.31s", type ? type : "");
		json_array_foreach((json_t *)formats, k, format) {
			const char *text = json_string_value(format);

			if (text && strcmp(text, "qcow2") == 0)
				s.format = "qcow2";
		}
	}
	*ret = s;
	s = (struct pve_storages){0};
	return 0;
}
