/*
 * fuzz-talk.c - whole operations on a runner's line, with its pump, whose guest answers with the
 * input and hangs up. The first byte chooses the operation, the second the size of the pieces.
 *
 * Each operation ends, and gives out no more than it was asked for.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guestlink/line/ops.h"
#include "guestlink/line/pump.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/inbox.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { READ_MAX = 64, LIMIT_S = 60 };

/* The guest: a thread that waits for the request. */
struct answer {
	int fd;
	struct bytes in;
	size_t piece;
};

struct taken {
	size_t bytes;
	unsigned refuse; /* calls from now on, until the client is gone; 0: it stays */
};

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static void *answer_main(void *arg)
{
	struct answer *a = arg;
	static uint8_t room[64 * 1024];

	if (recv(a->fd, room, sizeof(room), 0) > 0)
		while (a->in.len) {
			size_t n = a->in.len < a->piece ? a->in.len : a->piece;

			if (send(a->fd, a->in.p, n, MSG_NOSIGNAL) != (ssize_t)n)
				break;
			a->in.p += n;
			a->in.len -= n;
		}
	shutdown(a->fd, SHUT_WR);
	while (recv(a->fd, room, sizeof(room), 0) > 0)
		;
	return NULL;
}

/* line_open, but for the greeting, whose nonce no input could know. */
static struct guest *open_line(int fd)
{
	struct line *l = calloc(1, sizeof(*l));
	struct err e;

	demand(l != NULL);
	l->base.ops = &line_ops;
	l->fd = fd;
	l->stray_max = 4096;
	l->pump_op.cancel_fd = -1;
	lock_init(&l->mu, "line.mu", LOCK_LEAF);
	demand(op_init(&l->pump_op, "pump", 0, &e) == 0 &&
		outbox_init(&l->out, fd, l->pump_op.cancel_fd, "the guest", &e) == 0 &&
		pump_start(l, &e) == 0);
	return &l->base;
}

static int take_output(void *arg, int stream, struct bytes data, struct err *e)
{
	struct taken *t = arg;

	demand(stream >= WIRE_STDOUT && stream <= WIRE_BODY && data.len);
	t->bytes += data.len;
	if (t->refuse && --t->refuse == 0)
		return err_set(e, ERR_CANCELLED, "the client is gone");
	return 0;
}

static int take_entry(void *arg, const struct guest_entry *entry, struct err *e)
{
	(void)arg;
	(void)e;
	demand(!strchr(entry->name, '/') && strcmp(entry->name, "..") != 0 &&
		strcmp(entry->name, ".") != 0 && entry->size <= INT64_MAX);
	return 0;
}

static int try_exec(struct guest *g, const struct op *op, uint8_t how, struct err *e)
{
	static const char *const argv[] = {"true", NULL};
	struct guest_exec req = {.argv = argv, .capture_max = how & 1 ? READ_MAX : 0};
	struct taken t = {.refuse = how & 2 ? 1 : 0};
	struct guest_io io = {.output = take_output, .arg = &t};
	struct guest_exit said = {0};
	int rc = guest_exec(g, op, &req, &io, &said, e);

	demand(!(how & 1) || t.bytes <= 2 * READ_MAX);
	demand(rc < 0 || (said.stdout_bytes <= INT64_MAX && said.stderr_bytes <= INT64_MAX &&
				 strlen(said.message) < sizeof(said.message)));
	return rc;
}

static int try_read(struct guest *g, const struct op *op, struct err *e)
{
	struct taken t = {0};
	struct guest_io io = {.output = take_output, .arg = &t};
	struct guest_stat said;
	int rc = guest_read(g, op, &(struct guest_path){.path = "/f"}, READ_MAX, &io, &said, e);

	demand(t.bytes <= READ_MAX && (rc < 0 || said.size == t.bytes));
	return rc;
}

static int try_write(struct guest *g, const struct op *op, struct err *e)
{
	static const uint8_t content[1000];
	auto_inbox struct inbox *in = NULL;
	struct guest_write req = {.at = {.path = "/f"}};
	struct guest_io io = {0};
	struct guest_stat said;

	demand(inbox_new(1 << 16, &in, e) == 0 &&
		inbox_put(in, GUEST_INPUT_DATA, 0, 0, (struct bytes){content, sizeof(content)},
			e) == 0 &&
		inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e) == 0);
	io.in = in;
	return guest_write(g, op, &req, &io, &said, e);
}

static int operate(struct guest *g, const struct op *op, uint8_t which, struct err *e)
{
	const struct guest_path at = {.path = "/d"};

	switch (which % 8) {
	case 0:
	case 1:
	case 2:
		return try_exec(g, op, which % 8, e);
	case 3:
		return try_read(g, op, e);
	case 4:
		return try_write(g, op, e);
	case 5:
		return guest_list(g, op, &at, take_entry, NULL, e);
	case 6:
		return guest_mkdir(g, op, &at, 0, e);
	default:
		return guest_symlink(g, op, &at, "target", e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct op op = op_for_cleanup(LIMIT_S);
	struct answer a;
	struct guest *g;
	pthread_t guest;
	struct err e;
	int ends[2];

	if (size < 2)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	demand(fd_set_nonblock(ends[0], &e) == 0);
	a = (struct answer){ends[1], {data + 2, size - 2}, 1 + 16u * data[1]};
	demand(pthread_create(&guest, NULL, answer_main, &a) == 0);
	g = open_line(ends[0]);
	demand(operate(g, &op, data[0], &e) == 0 || e.kind != ERR_TIMEOUT);
	guest_free(g);
	demand(pthread_join(guest, NULL) == 0);
	close(ends[1]);
	return 0;
}
