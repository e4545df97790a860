/* Uploads are multipart/form-data, streamed from a file, the fields in the order that the server
 * insists on. */
#include "driver/proxmox/api/upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/answer.h"
#include "driver/proxmox/api/login.h"
#include "driver/proxmox/api/outage.h"
#include "driver/proxmox/api/task.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

enum { PIECE = 256 * 1024, UPLOAD_TRIES = 4, HEAD_ROOM = 8 * 1024 };

struct sending {
	const struct pve_upload *up;
	struct bytes before, after; /* what comes before and after the file's content */
};

static int send_file(void *arg, struct pve_conn *c, const struct op *op, struct err *e)
{
	const struct sending *s = arg;
	const struct pve_upload *up = s->up;
	auto_free char *piece = malloc(PIECE);
	uint64_t at = 0;

	if (!piece)
		return err_oom(e);
	if (pve_conn_send(c, op, s->before.p, s->before.len, e) < 0)
		return -1;
	while (at < up->size) {
		uint64_t want = up->size - at < PIECE ? up->size - at : PIECE;
		ssize_t got = pread(up->fd, piece, (size_t)want, (off_t)at);

		if (got < 0)
			return err_sys(e, errno, "reading %s", up->name);
		if (got == 0)
			return err_set(e, ERR_INVALID, "%s became shorter meanwhile", up->name);
		if (pve_conn_send(c, op, piece, (size_t)got, e) < 0)
			return -1;
		at += (uint64_t)got;
		if (up->text)
			op_progress(op, at, up->size, "%s", up->text);
	}
	return pve_conn_send(c, op, s->after.p, s->after.len, e);
}

static int add_field(
	struct buf *b, const char *boundary, const char *name, const char *value, struct err *e)
{
	return buf_printf(b, e, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n",
		boundary, name, value);
}

static int make_parts(const struct pve_upload *up, const char *boundary, struct buf *before,
	struct buf *after, struct err *e)
{
	if (strpbrk(up->name, "\"\r\n/\\"))
		return err_set(e, ERR_INVALID, "%s: not a name for an upload", up->name);
	if (add_field(before, boundary, "content", up->content, e) < 0)
		return -1;
	if (up->sha256 && (add_field(before, boundary, "checksum-algorithm", "sha256", e) < 0 ||
				  add_field(before, boundary, "checksum", up->sha256, e) < 0))
		return -1;
	if (buf_printf(before, e,
		    "--%s\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"%s\"\r\n"
		    "Content-Type: application/octet-stream\r\n\r\n",
		    boundary, up->name) < 0)
		return -1;
	return buf_printf(after, e, "\r\n--%s--\r\n", boundary);
}

static int upload_once(struct pve_api *api, const struct op *op, struct sending *s,
	const char *boundary, json_t **ret, struct err *e)
{
	auto_free char *path = NULL;
	uint64_t refused = 0;

	if (pve_path(&path, e, "/nodes/%s/storage/%s/upload", s->up->node, s->up->storage) < 0)
		return -1;
	for (int i = 0;; i++) {
		__attribute__((cleanup(pve_wipe))) struct buf head = {0};
		auto_http_answer struct http_answer a = {0};
		struct pve_request rq = {.body = send_file, .arg = s};
		uint64_t used;

		if (!buf_room(&head, HEAD_ROOM))
			return err_oom(e);
		if (buf_printf(&head, e, "POST /api2/json%s HTTP/1.1\r\n", path) < 0 ||
			pve_headers(api, op, false, refused, &head, &used, e) < 0 ||
			buf_printf(&head, e,
				"Content-Type: multipart/form-data; boundary=%s\r\n"
				"Content-Length: %" PRIu64 "\r\n\r\n",
				boundary, s->before.len + s->up->size + s->after.len) < 0)
			return -1;
		rq.head = buf_bytes(&head);
		if (pve_exchange(api, op, &rq, &a, e) < 0)
			return -1;
		if (a.status != 401 || i > 0 || api->token)
			return answer_read(&a, ret, e);
		refused = used;
	}
}

int pve_upload(struct pve_api *api, const struct op *op, const struct pve_upload *up, struct err *e)
{
	auto_buf struct buf before = {0}, after = {0};
	struct sending s = {.up = up};
	char boundary[64] = "moat-", hex[33];
	struct outage_wait outage = {.began_ns = now_ns()};

	if (str_random_hex(16, hex, e) < 0)
		return -1;
	strncat(boundary, hex, sizeof(boundary) - strlen(boundary) - 1);
	if (make_parts(up, boundary, &before, &after, e) < 0)
		return -1;
	s.before = buf_bytes(&before);
	s.after = buf_bytes(&after);
	/* Uploading twice does no harm: the same file under the same name is one file. */
	for (int tries = 0;;) {
		auto_json json_t *upid = NULL;
		struct err late;
		bool again;

		if (upload_once(api, op, &s, boundary, &upid, e) == 0) {
			pve_outage_over(api, op, &outage);
			if (pve_task_wait(api, op, upid, NULL, e) == 0)
				return 0;
		}
		if (pve_outage_is(e, true))
			again = pve_outage_wait(api, op, &outage, false, e);
		else
			again = e->kind == ERR_UNAVAILABLE && ++tries < UPLOAD_TRIES &&
				op_pause(op, 0.1 * (1 << tries), &late) == 0;
		if (!again)
			return err_wrap(e, "uploading %s to storage %s", up->name, up->storage);
	}
}

static int delete_once(struct pve_api *api, const struct op *op, const char *node,
	const char *volid, struct err *e)
{
	char storage[64];
	auto_json json_t *upid = NULL;

	snprintf(storage, sizeof(storage), "%.*s", (int)strcspn(volid, ":"), volid);
	if (pve_do(api, op, "DELETE", NULL, PVE_STUBBORN, &upid, e,
		    "/nodes/%s/storage/%s/content/%s", node, storage, volid) < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	return json_is_string(upid) ? pve_task_wait(api, op, upid, NULL, e) : 0;
}

int pve_volume_delete(struct pve_api *api, const struct op *op, const char *node, const char *volid,
	struct err *e)
{
	struct op budget = op_within(op, PVE_BUSY_SECONDS);

	while (delete_once(api, op, node, volid, e) < 0)
		if (!pve_wait_busy(&budget, PVE_PATIENT, e))
			return err_wrap(e, "%s", volid);
	return 0;
}
