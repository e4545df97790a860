#include "driver/proxmox/guest/bulk.h"

#include <errno.h>
#include <sys/mman.h>

#include "wire/ascii.h"
#include "wire/iso.h"

int pve_bulk_begin(struct pve_bulk *b, struct pve_runner *r, struct pve_disc *d, struct err *e)
{
	*b = (struct pve_bulk){.runner = r, .disc = d, .content = {.fd = -1}};
	if (pve_runner_id(b->request.id, e) < 0 || pve_runner_path(r, &b->path, e) < 0)
		return -1;
	return pve_disc_content_begin(d, &b->content, e);
}

void pve_bulk_end(struct pve_bulk *b)
{
	if (b->request.length > b->content.size && b->request.id[0])
		pve_runner_drop(b->runner, b->request.id);
	pve_disc_content_end(&b->content);
	free(b->path);
	b->path = NULL;
}

/* Sends the disc that has been filled. */
static int send_disc(struct pve_bulk *b, const struct op *op, bool *ret_try_pieces, struct err *e)
{
	struct pve_disc_target to = {.path = b->path,
		.id = b->request.id,
		.offset = b->request.length - b->content.size};

	return pve_disc_send(b->disc, op, &b->content, &to, ret_try_pieces, e);
}

/* How many bytes still fit onto the disc. */
static uint64_t room_left(const struct pve_bulk *b)
{
	uint64_t room = pve_disc_room(b->disc);

	if (room < PVE_PIECES_MAX) /* the drive may have failed for another thread meanwhile */
		room = PVE_PIECES_MAX;
	return room > b->content.size ? room - b->content.size : 0;
}

static int next_disc(struct pve_bulk *b, const struct op *op, struct err *e)
{
	bool ignored;

	if (send_disc(b, op, &ignored, e) < 0)
		return err_wrap(e, "a large input needs a disc");
	pve_disc_content_end(&b->content);
	return pve_disc_content_begin(b->disc, &b->content, e);
}

int pve_bulk_add(struct pve_bulk *b, const struct op *op, struct bytes data, struct err *e)
{
	while (data.len) {
		uint64_t room = room_left(b);
		struct bytes part = {data.p, data.len < room ? data.len : (size_t)room};

		if (!room) {
			if (next_disc(b, op, e) < 0)
				return -1;
			continue;
		}
		if (pve_disc_content_add(&b->content, part, e) < 0)
			return -1;
		b->request.crc = ascii_crc(b->request.crc, part.p, part.len);
		b->request.length += part.len;
		data.p += part.len;
		data.len -= part.len;
	}
	return 0;
}

/* The disc does not work: its content goes through the agent. */
static int do_in_pieces(struct pve_bulk *b, const struct op *op, double timeout,
	struct buf *ret_frames, struct err *e)
{
	size_t n = (size_t)b->content.size;
	uint8_t *p = mmap(NULL, ISO_HEAD + n, PROT_READ, MAP_PRIVATE, b->content.fd, 0);
	int rc;

	if (p == MAP_FAILED)
		return err_sys(e, errno, "mmap");
	rc = pve_runner_do(b->runner, op, (struct bytes){p + ISO_HEAD, n}, timeout, ret_frames, e);
	munmap(p, ISO_HEAD + n);
	return rc;
}

int pve_bulk_do(struct pve_bulk *b, const struct op *op, double timeout, struct buf *ret_frames,
	struct err *e)
{
	bool whole = b->content.size == b->request.length, try_pieces = false;

	if (send_disc(b, op, &try_pieces, e) < 0) {
		if (try_pieces && whole && b->content.size <= (uint64_t)PVE_PIECES_MAX)
			return do_in_pieces(b, op, timeout, ret_frames, e);
		return -1;
	}
	b->content.size = 0;
	if (pve_runner_do_spooled(b->runner, op, &b->request, timeout, ret_frames, e) < 0)
		return -1;
	b->request.length = 0; /* nothing of the request is left in the guest */
	return 0;
}
