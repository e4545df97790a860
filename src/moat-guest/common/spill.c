/* spill.c - moves the output of a command into the spool. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/ascii.h"
#include "moat-guest/common/ring.h"
#include "moat-guest/common/spool.h"
#include "util/auto.h"

/* Copies what the ring holds; the ring keeps it. */
static int copy_ring(const struct ring *r, struct spool_writer *w)
{
	size_t first = r->cap - r->start < r->len ? r->cap - r->start : r->len;
	int error = spool_add(w, r->p + r->start, first);

	return error ? error : spool_add(w, r->p, r->len - first);
}

static int write_ring(int dir, const char *name, const struct ring *r, uint32_t *ret_parts)
{
	struct spool_writer *w = malloc(sizeof(*w));
	int error = w ? 0 : ENOMEM;

	if (!error) {
		spool_begin(w, dir, name);
		error = r->len ? copy_ring(r, w) : 0;
	}
	if (!error)
		error = spool_end(w);
	else if (w)
		spool_drop(w);
	if (!error)
		*ret_parts = w->parts;
	free(w);
	return error;
}

static bool make_id(char id[ASCII_ID_MAX + 1])
{
	uint8_t random[ASCII_ID_MAX / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return false;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(id + 2 * i, 3, "%02x", random[i]);
	return true;
}

char *spill_out(struct ring *out, struct ring *err)
{
	size_t size = SPOOL_PATH_MAX + ASCII_ID_MAX + 32;
	auto_free char *text = malloc(size);
	uint32_t parts[2] = {0};
	char id[ASCII_ID_MAX + 1];
	auto_fd int dir = -1;

	if (!text || spool_dir() < 0 || !make_id(id) || mkdirat(spool_dir(), id, 0700) < 0)
		return NULL;
	dir = openat(spool_dir(), id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || write_ring(dir, "1", out, &parts[0]) ||
		write_ring(dir, "2", err, &parts[1])) {
		spool_forget(id);
		return NULL;
	}
	ring_free(out);
	ring_free(err);
	snprintf(text, size, "%s/%s %u %u", spool_path(), id, parts[0], parts[1]);
	return take_ptr(&text);
}
