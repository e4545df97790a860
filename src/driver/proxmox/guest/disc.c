#include "driver/proxmox/guest/disc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/ascii.h"
#include "driver/proxmox/api/upload.h"
#include "util/auto.h"
#include "util/thread/turn.h"
#include "util/system/io.h"
#include "wire/iso.h"
#include "util/thread/lock.h"
#include "util/system/log.h"
#include "util/str.h"

enum {
	CLEANUP_S = 60,
	INSERTS = 2, /* some kernels miss the first change after their start */
};
/* After a first disc that failed: the guest may not have been ready yet. */
#define TRY_AGAIN_S   120.0
#define ROOM_AT_FIRST ((uint64_t)PVE_PIECES_MAX)
#define ROOM          ((uint64_t)256 << 20)

struct pve_disc {
	struct pve_agent *agent;
	const struct pve_guest_vm *vm;
	struct turn drive;
	struct lock mu;
	bool proven, doubted;
	int64_t useless_until_ns;
};

int pve_disc_new(struct pve_agent *agent, const struct pve_guest_vm *vm, struct pve_disc **ret,
	struct err *e)
{
	auto_free struct pve_disc *d = calloc(1, sizeof(*d));

	if (!d)
		return err_oom(e);
	d->agent = agent;
	d->vm = vm;
	turn_init(&d->drive);
	lock_init(&d->mu, "pve_disc.mu", LOCK_LEAF);
	*ret = take_ptr(&d);
	return 0;
}

void pve_disc_free(struct pve_disc *d)
{
	if (!d)
		return;
	turn_done(&d->drive);
	lock_done(&d->mu);
	free(d);
}

uint64_t pve_disc_room(struct pve_disc *d)
{
	if (!d)
		return 0;
	auto_unlock struct lock *held = lock_take(&d->mu);
	if (now_ns() < d->useless_until_ns)
		return 0;
	return d->proven ? ROOM : ROOM_AT_FIRST;
}

/* Remembers whether the drive works. True: this is the first time that it did not. */
static bool learn(struct pve_disc *d, bool works)
{
	auto_unlock struct lock *held = lock_take(&d->mu);
	bool news = !works && !d->proven && !d->doubted;

	if (works) {
		d->proven = true;
	} else if (!d->proven) {
		d->doubted = true;
		d->useless_until_ns = now_ns() + (int64_t)(TRY_AGAIN_S * 1e9);
	}
	return news;
}

int pve_disc_hold(struct pve_disc *d, const struct op *op, struct err *e)
{
	return turn_take(&d->drive, op, e);
}

void pve_disc_release(struct pve_disc *d)
{
	turn_give(&d->drive);
}

/* ---- what goes onto a disc ---- */

int pve_disc_content_begin(const struct pve_disc *d, struct pve_disc_content *ret, struct err *e)
{
	auto_free char *path = NULL;
	int fd;

	if (str_printf(&path, e, "%s/disc-XXXXXX", d->vm->scratch_dir) < 0)
		return -1;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	unlink(path);
	*ret = (struct pve_disc_content){.fd = fd};
	sha256_start(&ret->sum);
	return 0;
}

int pve_disc_content_add(struct pve_disc_content *c, struct bytes data, struct err *e)
{
	if (file_write_at(c->fd, data.p, data.len, (off_t)(ISO_HEAD + c->size), e) < 0)
		return -1;
	sha256_add(&c->sum, data.p, data.len);
	c->size += data.len;
	return 0;
}

void pve_disc_content_end(struct pve_disc_content *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

/* ---- one disc ---- */

struct disc {
	struct pve_disc *d;
	char name[ISO_VOLUME_MAX + 1];
	char *file, *volid;
	int64_t row;
	uint64_t size; /* of the image */
	char sum[SHA256_HEX + 1];
};

static void disc_done(struct disc *k)
{
	free(k->file);
	free(k->volid);
}

static int make_image(struct disc *k, struct pve_disc_content *c, struct err *e)
{
	struct iso_disc iso = {.volume = k->name, .files = {{"moat", c->size}}, .n_files = 1};
	uint8_t head[ISO_HEAD];
	struct sha256 sum = c->sum;

	if (str_random_hex(ISO_VOLUME_MAX / 2, k->name, e) < 0)
		return -1;
	for (char *p = k->name; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	sha256_end(&sum, k->sum);
	iso_head(&iso, head);
	k->size = iso_file_offset(&iso, 1);
	if (ftruncate(c->fd, (off_t)k->size) < 0)
		return err_sys(e, errno, "making a disc for the guest");
	if (file_write_at(c->fd, head, sizeof(head), 0, e) < 0 ||
		str_printf(&k->file, e, "%s-%u-%.12s.iso", k->d->vm->stamp, k->d->vm->vmid,
			k->name) < 0)
		return -1;
	return str_printf(&k->volid, e, "%s:iso/%s", k->d->vm->iso_storage, k->file);
}

static int upload(struct disc *k, const struct op *op, int fd, struct err *e)
{
	const struct pve_guest_vm *vm = k->d->vm;
	struct pve_upload up = {.node = vm->node,
		.storage = vm->iso_storage,
		.content = "iso",
		.name = k->file,
		.fd = fd,
		.size = k->size,
		.text = "sending a disc to the server"};

	return pve_upload(vm->api, op, &up, e);
}

/* Puts a disc into the drive; volid NULL: empties it. */
static int set_drive(struct disc *k, const struct op *op, const char *volid, struct err *e)
{
	const struct pve_guest_vm *vm = k->d->vm;
	auto_free char *text = NULL;

	if (str_printf(&text, e, "%s,media=cdrom", volid ? volid : "none") < 0)
		return -1;
	return pve_do(vm->api, op, "PUT", json_pack("{s:s}", vm->cdrom, text),
		PVE_TWICE | PVE_STUBBORN, NULL, e, "/nodes/%s/qemu/%u/config", vm->node, vm->vmid);
}

static int say_failed(const struct qga_exit *x, struct err *e)
{
	char text[300];

	if (x->code == TAKE_FULL)
		return guest_fail(e, ENOSPC, "the guest's spool", "");
	qga_exit_message(x, text, sizeof(text));
	return err_set(e, ERR_UNAVAILABLE, "the guest cannot read its disc: %s", text);
}

/* Lets the runner copy the disc. 1: the guest sees no such disc, or it could not be asked. */
static int let_copy(struct disc *k, const struct op *op, const struct pve_disc_content *c,
	const struct pve_disc_target *to, struct err *e)
{
	auto_qga_exit struct qga_exit x = {0};
	char offset[24], size[24];
	const char *const argv[] = {to->path, "take", k->name, to->id, offset, size, k->sum, NULL};

	snprintf(offset, sizeof(offset), "%" PRIu64, to->offset);
	snprintf(size, sizeof(size), "%" PRIu64, c->size);
	op_progress(op, 0, 0, "the guest reads its disc");
	if (pve_agent_run(k->d->agent, op, argv, NULL, &x, e) < 0) {
		struct err now;

		return op_check(op, &now) < 0 ? -1 : 1;
	}
	if (x.code == TAKE_NO_DISC) {
		say_failed(&x, e);
		return 1;
	}
	return x.code ? say_failed(&x, e) : 0;
}

/* Puts the disc in, lets the runner copy it, and takes it out. 1: the guest sees no such disc,
 * or the server cannot put it in. */
static int insert(struct disc *k, const struct op *op, const struct pve_disc_content *c,
	const struct pve_disc_target *to, struct err *e)
{
	auto_turn struct turn *held = NULL;
	struct op end = op_for_cleanup(CLEANUP_S);
	struct err late;
	int rc = 1;

	if (turn_take(&k->d->drive, op, e) < 0)
		return -1;
	held = &k->d->drive;
	for (int i = 0; i < INSERTS && rc == 1; i++) {
		if (set_drive(k, op, k->volid, e) < 0)
			return op_check(op, &late) < 0 ? -1 : 1;
		rc = let_copy(k, op, c, to, e);
		if (rc < 0)
			end = op_for_cleanup(CLEANUP_S);
		/* Only logged: the next disc can be put in even if this fails. */
		if (set_drive(k, rc < 0 ? &end : op, NULL, &late) < 0)
			log_err(op, LOG_WARN, &late, "%s: the disc stays in", k->d->vm->name);
	}
	return rc;
}

/* Removes the disc from the server. Its journal entry stays if that fails, or if the upload
 * failed: the file may still appear then, and the sandbox's removal looks once more. */
static void remove_volume(struct disc *k, bool uploaded)
{
	const struct pve_guest_vm *vm = k->d->vm;
	struct op op = op_for_cleanup(CLEANUP_S);
	struct err e;

	if (pve_volume_delete(vm->api, &op, vm->node, k->volid, &e) == 0) {
		if (uploaded)
			vm->iso_gone(vm->arg, k->row);
	} else {
		log_err(&op, LOG_WARN, &e, "%s stays until the sandbox is removed", k->volid);
	}
}

int pve_disc_send(struct pve_disc *d, const struct op *op, struct pve_disc_content *c,
	const struct pve_disc_target *to, bool *ret_try_pieces, struct err *e)
{
	__attribute__((cleanup(disc_done))) struct disc k = {.d = d};
	struct err now;
	bool uploaded;
	int rc;

	*ret_try_pieces = false;
	if (make_image(&k, c, e) < 0 || d->vm->iso_intent(d->vm->arg, k.volid, &k.row, e) < 0)
		return -1;
	rc = upload(&k, op, c->fd, e);
	uploaded = rc == 0;
	if (uploaded)
		rc = insert(&k, op, c, to, e);
	else if (op_check(op, &now) == 0)
		rc = 1;
	remove_volume(&k, uploaded);
	if (rc >= 0 && learn(d, rc == 0))
		log_err(op, LOG_WARN, e, "%s: no discs, large files go in pieces", d->vm->name);
	*ret_try_pieces = rc == 1;
	return rc ? -1 : 0;
}
