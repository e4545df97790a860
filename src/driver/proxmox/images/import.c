/*
 * A disk or an OVA gets onto the server, uploaded from here or downloaded by the server. A VM is
 * made of it. A cloud image boots once, to install the guest agent. Then the VM becomes a template.
 * Until that moment everything carries the stamp of the sandbox that needs the template, and is
 * removed with it.
 */
#include "driver/proxmox/images/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/proxmox/api/task.h"
#include "driver/proxmox/api/upload.h"
#include "driver/proxmox/guest/agent.h"
#include "driver/proxmox/network/claims.h"
#include "driver/proxmox/network/net.h"
#include "driver/proxmox/network/sdn.h"
#include "driver/proxmox/site/entry.h"
#include "driver/proxmox/site/node.h"
#include "driver/proxmox/vm/id.h"
#include "driver/proxmox/vm/seed.h"
#include "driver/proxmox/vm/start.h"
#include "store/import/ova.h"
#include "store/import/qemu-img.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

#define BUILD_SECONDS 3600.0
#define FETCHED       "fetched-" /* files in the state directory */
enum { BUILD_RAM_MB = 2048, SHUTDOWN_SECONDS = 300 };

extern const char pve_script_settle[]; /* settle.sh */

struct build {
	struct pve_vm *vm; /* the VM that needs the template */
	struct pve_sandbox *b;
	const struct pve_import *im;
	struct pve_storages st;
	char *filename, *volid; /* the uploaded or downloaded file; its name is the sandbox's own */
	int64_t volume_row;
	json_t *disks; /* array of volume ids, in their order */
	/* for cloud images, which boot once */
	struct pve_sandbox net; /* stands for a sandbox that has only a network */
	struct sandbox_spec *net_spec;
	char *seed_volid;
	int64_t seed_row;
	unsigned vmid;
	int64_t row;
};

static bool is_ova(const struct build *u)
{
	return str_ends(u->im->filename, ".ova");
}

static struct journal *journal_of(const struct build *u)
{
	return u->b->d->env->journal;
}

/* ---- the file ---- */

static int send_file(struct build *u, const struct op *op, const char *path, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct pve_upload up = {.node = u->b->inst->node,
		.storage = u->st.import,
		.content = "import",
		.name = u->filename,
		.fd = fd,
		.sha256 = u->im->sha256,
		.text = "uploading"};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	up.size = (uint64_t)st.st_size;
	return pve_upload(u->b->api, op, &up, e);
}

static int let_download(struct build *u, const struct op *op, struct err *e)
{
	struct pve_once once = {.node = u->b->inst->node, .type = "download", .id = u->filename};

	op_progress(op, 0, 0, "the server downloads %s", u->im->filename);
	if (pve_run_once(u->b->api, op, &once, "POST",
		    json_pack("{s:s, s:s, s:s}", "content", "import", "filename", u->filename,
			    "url", u->im->url),
		    0, e, "/nodes/%s/storage/%s/download-url", u->b->inst->node, u->st.import) == 0)
		return 0;
	/* The server does not say which privilege is missing. */
	if (e->kind == ERR_PERMISSION)
		err_wrap(e,
			"having the server download needs Sys.AccessNetwork on /nodes/%s, or "
			"Sys.Audit and Sys.Modify on /",
			u->b->inst->node);
	return -1;
}

/* A raw disk is mostly holes, which would all be uploaded. */
static int pack_disk(
	struct build *u, const struct op *op, const char *raw, const char *path, struct err *e)
{
	auto_fd int fd = open(raw, O_RDONLY | O_CLOEXEC);
	struct qemu_img img = {.helper_path = u->b->d->env->helper_path, .fd = fd, .format = "raw"};

	if (fd < 0)
		return err_sys(e, errno, "%s", raw);
	op_progress(op, 0, 0, "converting %s", u->im->filename);
	return qemu_img_convert(op, &img, path, e);
}

/* The server cannot unpack archives: this downloads one, unpacks the disk here and uploads that. */
static int unpack_and_send(struct build *u, const struct op *op, struct err *e)
{
	const char *dir = u->b->d->env->paths->state;
	auto_free char *raw = NULL, *path = NULL;
	int rc;

	if (str_printf(&raw, e, "%s/" FETCHED "%s.raw", dir, u->b->id) < 0 ||
		str_printf(&path, e, "%s/" FETCHED "%s.qcow2", dir, u->b->id) < 0)
		return -1;
	rc = ova_fetch_disk(op, u->im->packed, u->b->d->env->download_max, raw, e);
	if (rc == 0)
		rc = pack_disk(u, op, raw, path, e);
	unlink(raw);
	if (rc == 0)
		rc = send_file(u, op, path, e);
	unlink(path);
	return rc;
}

void pve_import_sweep(const struct driver_env *env)
{
	auto_dir DIR *dir = opendir(env->paths->state);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (str_starts(entry->d_name, FETCHED))
			unlinkat(dirfd(dir), entry->d_name, 0);
}

static int put_file(struct build *u, const struct op *op, struct err *e)
{
	if (u->im->path)
		return send_file(u, op, u->im->path, e);
	return u->im->packed ? unpack_and_send(u, op, e) : let_download(u, op, e);
}

/* Fails early: whatever cannot work should be known before a large file is on its way. */
static int check_server(struct build *u, const struct op *op, struct err *e)
{
	const char *node = u->b->inst->node;
	char version[32];
	bool old = false;

	if (!u->st.images)
		return err_set(e, ERR_INVALID,
			"image_storage: node %s has no storage %s that takes disk images", node,
			u->b->inst->image_storage);
	if (!is_ova(u) && pve_older_than(u->b->site, op, PVE_DISKS_SINCE, &old, version, e) < 0)
		return -1;
	if (old)
		return err_set(e, ERR_UNSUPPORTED,
			"%s runs Proxmox VE %s, which imports OVAs at most; built-in systems and "
			"local images need 8.4 or newer",
			u->b->inst->id, version);
	if (!u->st.import)
		return err_set(e, ERR_UNSUPPORTED,
			"no storage of node %s takes disks to import: run `%s` on it (Proxmox VE "
			"8.3 or newer)",
			node, u->st.fix_import);
	if (is_ova(u) && !u->st.work)
		return err_set(e, ERR_UNSUPPORTED,
			"node %s has no storage to unpack OVAs on: run `%s` on it", node,
			u->st.fix_work);
	return 0;
}

static int get_file(struct build *u, const struct op *op, struct err *e)
{
	if (str_printf(&u->filename, e, "%s-%s", u->b->stamp, u->im->filename) < 0 ||
		str_printf(&u->volid, e, "%s:import/%s", u->st.import, u->filename) < 0 ||
		pve_entry_intent(u->b, "volume", u->volid, &u->volume_row, e) < 0 ||
		put_file(u, op, e) < 0)
		return -1;
	return journal_done(journal_of(u), u->volume_row, e);
}

static int drop_volume(
	struct build *u, const struct op *op, const char *volid, int64_t row, struct err *e)
{
	if (pve_volume_delete(u->b->api, op, u->b->inst->node, volid, e) < 0)
		return -1;
	return journal_gone(journal_of(u), row, e);
}

static int compare_keys(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

/* Asks the server which disks are in the OVA: {"scsi0": "local:import/x.ova/disk.vmdk"}. */
static int list_ova_disks(struct build *u, const struct op *op, struct err *e)
{
	auto_json json_t *meta = NULL;
	const char *keys[64], *key;
	json_t *disks, *value;
	size_t n = 0;

	/* The server puts the storage in front of this name itself. */
	if (pve_do(u->b->api, op, "GET", json_pack("{s:s}", "volume", strchr(u->volid, ':') + 1), 0,
		    &meta, e, "/nodes/%s/storage/%s/import-metadata", u->b->inst->node,
		    u->st.import) < 0)
		return -1;
	disks = json_object_get(meta, "disks");
	json_object_foreach(disks, key, value) {
		if (n < ARRAY_LEN(keys))
			keys[n++] = key;
	}
	qsort(keys, n, sizeof(keys[0]), compare_keys);
	for (size_t i = 0; i < n; i++) {
		value = json_object_get(disks, keys[i]);
		if (json_is_object(value))
			value = json_object_get(value, "volid");
		if (json_is_string(value))
			json_array_append(u->disks, value);
	}
	if (json_array_size(u->disks) == 0)
		return err_set(e, ERR_INVALID, "there is no disk in the OVA");
	return 0;
}

/* ---- the VM ---- */

static void set_disks(const struct build *u, json_t *params)
{
	const char *kind = spec_disk_name(u->im->disk);
	char key[32], text[512];
	json_t *disk;
	size_t i;

	json_array_foreach(u->disks, i, disk) {
		snprintf(key, sizeof(key), "%s%zu", kind ? kind : "scsi", i);
		snprintf(text, sizeof(text), "%s:0,import-from=%s%s%s", u->b->inst->image_storage,
			json_string_value(disk), u->st.format ? ",format=" : "",
			u->st.format ? u->st.format : "");
		json_object_set_new(params, key, json_string(text));
	}
	snprintf(text, sizeof(text), "order=%s0", kind ? kind : "scsi");
	json_object_set_new(params, "boot", json_string(text));
}

static int create_with_id(void *arg, unsigned vmid, const struct op *op, struct err *e)
{
	struct build *u = arg;
	char name[64], text[256];
	json_t *params;
	bool no_kvm;

	if (pve_lacks_kvm(u->b->inst, op, &no_kvm, e) < 0)
		return -1;
	pve_dns_name(u->im->name, name);
	snprintf(text, sizeof(text), "Becomes a template of moat. %s", u->b->stamp);
	params = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:s}", "vmid", (int)vmid,
		"name", name, "description", text, "tags", u->b->stamp, "memory", BUILD_RAM_MB,
		"cores", 2, "cpu", pve_cpu(no_kvm), "ostype", u->im->os_type, "scsihw",
		"virtio-scsi-single", "serial0", "socket");
	if (!params)
		return err_oom(e);
	if (no_kvm)
		json_object_set_new(params, "kvm", json_false());
	set_disks(u, params);
	/* By default the server unpacks an OVA on the storage where it is, if that takes disks. */
	if (is_ova(u) && strcmp(u->st.work, u->st.import) != 0)
		json_object_set_new(params, "import-working-storage", json_string(u->st.work));
	if (u->im->uefi) {
		snprintf(text, sizeof(text), "%s:0,efitype=4m,pre-enrolled-keys=0",
			u->b->inst->image_storage);
		json_object_set_new(params, "bios", json_string("ovmf"));
		json_object_set_new(params, "efidisk0", json_string(text));
	}
	if (u->im->user_data) {
		snprintf(text, sizeof(text), "virtio,bridge=%s", u->net.vnets[0].id);
		json_object_set_new(params, "net0", json_string(text));
		snprintf(text, sizeof(text), "%s,media=cdrom", u->seed_volid);
		json_object_set_new(params, "ide2", json_string(text));
		json_object_set_new(params, "agent", json_string("enabled=1"));
	}
	return pve_run(
		u->b->api, op, "POST", params, PVE_PATIENT, e, "/nodes/%s/qemu", u->b->inst->node);
}

/* ---- the first boot of a cloud image ---- */

static int make_network(struct build *u, const struct op *op, struct err *e)
{
	auto_json json_t *j = NULL;

	if (json_make(&j, e, "{s:s, s:[{s:{s:s}}], s:s, s:{s:b}}", "driver", PVE_NAME, "vms",
		    "source", "built_in", "debian13", "networks", "auto", "native", "auto_snat",
		    1) < 0 ||
		spec_parse(j, &u->net_spec, e) < 0)
		return -1;
	u->net = (struct pve_sandbox){.d = u->b->d,
		.spec = u->net_spec,
		.inst = u->b->inst,
		.site = u->b->site,
		.api = u->b->api};
	snprintf(u->net.id, sizeof(u->net.id), "%s", u->b->id);
	snprintf(u->net.stamp, sizeof(u->net.stamp), "%s", u->b->stamp);
	snprintf(u->net.range_key, sizeof(u->net.range_key), "%s-build", u->b->id);
	return pve_net_make(&u->net, op, e);
}

static int drop_network(struct build *u, const struct op *op, struct err *e)
{
	if (!u->net.zone[0])
		return 0;
	if (pve_sdn_remove_zone(u->b->site, op, u->net.zone, u->b->stamp, e) < 0 ||
		journal_gone(journal_of(u), u->net.zone_row, e) < 0)
		return -1;
	u->net.zone[0] = '\0';
	return 0;
}

static int send_seed(struct build *u, const struct op *op, struct err *e)
{
	struct cloud_init_spec ci = {.user_data = (char *)u->im->user_data,
		.network_config =
			(char *)"version: 2\nethernets:\n  any:\n    match: {name: \"e*\"}\n"
				"    dhcp4: true\n"};
	struct vm_spec as = {.name = (char *)"template", .cloud_init = &ci};

	if (!u->st.iso)
		return err_set(e, ERR_UNSUPPORTED, "no storage of node %s takes ISO images",
			u->b->inst->node);
	return pve_seed_upload(u->b, op, &as, u->st.iso, "build", &u->seed_volid, &u->seed_row, e);
}

/* Waits until cloud-init is done. The command may run twice, so a lost answer does no harm. */
static int settle(struct build *u, const struct op *op, struct err *e)
{
	const char *const argv[] = {"/bin/sh", "-c", pve_script_settle, NULL};
	struct pve_agent agent = {.api = u->b->api, .node = u->b->inst->node, .vmid = u->vmid};
	auto_qga_exit struct qga_exit x = {0};
	int rc;

	pve_agent_init(&agent);
	rc = pve_agent_await(&agent, op, e);
	if (rc == 0)
		rc = pve_agent_run(&agent, op, argv, NULL, &x, e);
	pve_agent_done(&agent);
	if (rc < 0)
		return err_wrap(e, "waiting for cloud-init");
	/* cloud-init's exit code 2: done, with warnings. */
	if (x.code != 0 && x.code != 2)
		return err_set(e, ERR_BACKEND,
			"cloud-init failed in the new template (exit code %d)", x.code);
	return 0;
}

static int first_boot(struct build *u, const struct op *op, struct err *e)
{
	op_progress(op, 0, 0, "setting up %s, once", u->im->name);
	if (pve_start(u->b, op, u->vmid, e) < 0 || settle(u, op, e) < 0)
		return -1;
	return pve_run(u->b->api, op, "POST",
		json_pack("{s:i, s:b}", "timeout", SHUTDOWN_SECONDS, "forceStop", 1), PVE_TWICE, e,
		"/nodes/%s/qemu/%u/status/shutdown", u->b->inst->node, u->vmid);
}

/* ---- the template ---- */

static int seal(struct build *u, const struct op *op, struct err *e)
{
	json_t *params;
	char tags[320], text[256], id[16];
	struct pve_once once = {.node = u->b->inst->node, .type = "qmtemplate", .id = id};

	snprintf(id, sizeof(id), "%u", u->vmid);
	/* As long as it is no template yet, it is a VM like others on the instance. */
	snprintf(tags, sizeof(tags), "%.80s%smoat-template;%s;%s", u->b->inst->tags,
		*u->b->inst->tags ? ";" : "", u->im->tag, u->b->stamp);
	snprintf(text, sizeof(text), "A template of moat (%s). %s", u->im->filename, u->b->stamp);
	params = json_pack("{s:s, s:s}", "tags", tags, "description", text);
	if (params && u->im->user_data)
		json_object_set_new(params, "delete", json_string("ide2,net0"));
	if (pve_do(u->b->api, op, "PUT", params, PVE_TWICE, NULL, e, "/nodes/%s/qemu/%u/config",
		    u->b->inst->node, u->vmid) < 0 ||
		pve_run_once(u->b->api, op, &once, "POST", NULL, 0, e, "/nodes/%s/qemu/%u/template",
			u->b->inst->node, u->vmid) < 0)
		return -1;
	/* From now on the template belongs to no sandbox. */
	if (journal_gone(journal_of(u), u->row, e) < 0)
		return -1;
	snprintf(tags, sizeof(tags), "inspect;moat-template;%s", u->im->tag);
	snprintf(text, sizeof(text), "A template of moat (%s); `moat image ls --on` lists it.",
		u->im->filename);
	return pve_do(u->b->api, op, "PUT",
		json_pack("{s:s, s:s}", "tags", tags, "description", text), PVE_TWICE, NULL, e,
		"/nodes/%s/qemu/%u/config", u->b->inst->node, u->vmid);
}

static int build(struct build *u, const struct op *op, struct err *e)
{
	if (pve_storages_find(u->b->inst, op, &u->st, e) < 0 || check_server(u, op, e) < 0 ||
		get_file(u, op, e) < 0)
		return -1;
	u->disks = json_array();
	if (is_ova(u) && list_ova_disks(u, op, e) < 0)
		return -1;
	if (!is_ova(u))
		json_array_append_new(u->disks, json_string(u->volid));
	if (u->im->user_data && (make_network(u, op, e) < 0 || send_seed(u, op, e) < 0))
		return -1;
	op_progress(op, 0, 0, "importing %s", u->im->filename);
	if (pve_vm_new(u->b, op, "template", create_with_id, u, &u->vmid, &u->row, e) < 0)
		return -1;
	if (u->im->user_data && first_boot(u, op, e) < 0)
		return -1;
	if (seal(u, op, e) < 0 || drop_volume(u, op, u->volid, u->volume_row, e) < 0)
		return -1;
	if (u->seed_volid && drop_volume(u, op, u->seed_volid, u->seed_row, e) < 0)
		return -1;
	return drop_network(u, op, e);
}

int pve_import(struct pve_vm *vm, const struct op *op, const struct pve_import *im,
	unsigned *ret_template, struct err *e)
{
	struct build u = {.vm = vm, .b = vm->sandbox, .im = im};
	struct op part = op_within(op, BUILD_SECONDS);
	int rc = build(&u, &part, e);

	/* After a failure the journal has entries for what there is: the sandbox's removal deals
	 * with them. */
	if (u.net.site)
		pve_claims_forget(&u.net);
	free(u.net.vnets);
	free(u.net.dns);
	spec_free(u.net_spec);
	pve_storages_free(&u.st);
	json_decref(u.disks);
	free(u.filename);
	free(u.volid);
	free(u.seed_volid);
	if (rc < 0)
		return err_wrap(e, "making template %s", im->name);
	*ret_template = u.vmid;
	return 0;
}
