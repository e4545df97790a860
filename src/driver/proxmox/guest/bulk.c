#include "guest/pve-bulk.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "guest/armour.h"
#include "util/auto.h"
#include "util/iso.h"

int pve_bulk_begin(struct pve_bulk *b, struct pve_runner *r, struct pve_disc *d, struct err *e)
{
	*b = (struct pve_bulk){.runner = r, .disc = d, .cargo = {.fd = -1}};
	if (pve_runner_id(b->request.id, e) < 0 || pve_runner_place(r, &b->place, e) < 0)
		return -1;
	return pve_cargo_begin(d, &b->cargo, e);
}

void pve_bulk_end(struct pve_bulk *b)
{
	if (b->request.length > b->cargo.size && b->request.id[0])
		pve_runner_drop(b->runner, b->request.id);
	pve_cargo_end(&b->cargo);
	free(b->place);
	b->place = NULL;
}

/* The disc that has been filled. */
static int send_disc(struct pve_bulk *b, const struct op *op, bool *ret_try_pieces, struct err *e)
{
	struct pve_disc_target to = {.place = b->place,
		.id = b->request.id,
		.offset = b->request.length - b->cargo.size};

	return pve_disc_send(b->disc, op, &b->cargo, &to, ret_try_pieces, e);
}

/* What still fits onto the disc. */
static uint64_t room_left(const struct pve_bulk *b)
{
	uint64_t room = pve_disc_room(b->disc);

	if (room < PVE_PIECES_MAX) /* it may have failed for somebody else meanwhile */
		room = PVE_PIECES_MAX;
	return room > b->cargo.size ? room - b->cargo.size : 0;
}

static int next_disc(struct pve_bulk *b, const struct op *op, struct err *e)
{
	bool ignored;

	if (send_disc(b, op, &ignored, e) < 0)
		return err_wrap(e, "a large input needs a disc");
	pve_cargo_end(&b->cargo);
	return pve_cargo_begin(b->disc, &b->cargo, e);
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
		if (pve_cargo_add(&b->cargo, part, e) < 0)
			return -1;
		b->request.crc = armour_crc(b->request.crc, part.p, part.len);
		b->request.length += part.len;
		data.p += part.len;
		data.len -= part.len;
	}
	return 0;
}

/* The disc does not work: what is on it goes through the agent. */
static int do_in_pieces(struct pve_bulk *b, const struct op *op, double timeout,
	struct buf *ret_frames, struct err *e)
{
	size_t n = (size_t)b->cargo.size;
	uint8_t *p = mmap(NULL, ISO_HEAD + n, PROT_READ, MAP_PRIVATE, b->cargo.fd, 0);
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
	bool whole = b->cargo.size == b->request.length, try_pieces = false;

	if (send_disc(b, op, &try_pieces, e) < 0) {
		if (try_pieces && whole && b->cargo.size <= (uint64_t)PVE_PIECES_MAX)
			return do_in_pieces(b, op, timeout, ret_frames, e);
		return -1;
	}
	b->cargo.size = 0;
	if (pve_runner_do_taken(b->runner, op, &b->request, timeout, ret_frames, e) < 0)
		return -1;
	b->request.length = 0; /* nothing of it is left there */
	return 0;
}
