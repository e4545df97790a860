#include "net/holder/record.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/capture/capture.h"
#include "net/holder/holder.h"
#include "net/holder/netns.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/thread/thread.h"

/* A limit: a guest can send without end, and the host's disk is finite. */
#define FILE_MAX (1ull << 30)

struct record {
	const json_t *taps;
	const char *gate;
	struct capture c;
	int gate_number;
	int file;
	uint64_t written;
};

static int listen_inside(void *arg, struct err *e)
{
	struct record *r = arg;
	json_t *tap;
	size_t i;

	json_array_foreach((json_t *)r->taps, i, tap)
		r->c.taps[r->c.n_taps++] = (int)if_nametoindex(json_string_value(tap));
	r->gate_number = (int)if_nametoindex(r->gate);
	r->c.gates = &r->gate_number;
	r->c.n_gates = 1;
	return capture_socket(&r->c.fd, e);
}

static int write_piece(void *arg, struct bytes data, struct err *e)
{
	struct record *r = arg;

	if (r->written + data.len > FILE_MAX)
		return err_set(e, ERR_LIMIT, "the capture is as long as it may get");
	while (data.len) {
		ssize_t n = write(r->file, data.p, data.len);

		if (n < 0)
			return err_sys(e, errno, "capture");
		data.p += n;
		data.len -= (size_t)n;
		r->written += (uint64_t)n;
	}
	return 0;
}

static void *record_main(void *arg)
{
	static const struct op forever = {.deadline_ns = OP_NO_DEADLINE, .cancel_fd = -1};
	struct record *r = arg;
	struct err ignored; /* at the limit the file is complete; a full disk is known elsewhere */

	capture_run(&r->c, &forever, write_piece, r, &ignored);
	close(r->file);
	close(r->c.fd);
	return NULL;
}

/* The thread uses what this allocates until the holder ends; nothing is freed. */
static int start_one(struct holder *h, json_t *j, struct err *e)
{
	struct record *r = calloc(1, sizeof(*r));
	pthread_t thread;
	json_t *taps;
	int vnet;

	if (!r)
		return err_oom(e);
	if (json_get(j, "capture", e, "{s:i, s:s, s:o}", "vnet", &vnet, "gate", &r->gate, "taps",
		    &taps) < 0)
		return -1;
	r->taps = taps;
	r->file = HOLDER_FD_CAPTURES + vnet;
	r->c.taps = calloc(json_array_size(taps) + 1, sizeof(int));
	if (!r->c.taps)
		return err_oom(e);
	if (netns_run(h->netns, listen_inside, r, NULL, e) < 0)
		return -1;
	return thread_start(&thread, "capture", record_main, r, e);
}

int record_start(struct holder *h, struct err *e)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(h->plan, "captures"), i, one)
		if (start_one(h, one, e) < 0)
			return -1;
	return 0;
}
