#include "guestlink/line/line.h"

#include <unistd.h>

#include "guestlink/line/hello.h"
#include "guestlink/line/ops.h"
#include "guestlink/line/pump.h"
#include "util/auto.h"
#include "util/system/io.h"
#include "util/thread/thread.h"

/* How many bytes may come for operations that are over. An operation that did not wait for its end
 * adds a window. */
enum { STRAY_MAX = 1024 * 1024 };

void line_fail(struct guest *g, const char *why)
{
	struct err e;

	err_set(&e, ERR_UNAVAILABLE, "%s", why);
	line_end(line_of(g), &e);
}

void line_set_spill(struct guest *g, struct line_spill spill)
{
	line_of(g)->spill = spill;
}

const struct line_spill *line_spill_of(struct guest *g)
{
	struct line *l = line_of(g);

	return l->spill.fetch ? &l->spill : NULL;
}

bool line_failed(const struct guest *g)
{
	return ((const struct line *)g)->failed;
}

void line_ask_for_sign(struct guest *g)
{
	struct op op = op_for_cleanup(1);
	struct err e;

	line_of(g)->asked++; /* before the guest can answer */
	line_send(&op, line_of(g), &(struct wire_msg){.type = WIRE_PING}, (struct bytes){0}, &e);
}

void line_stand_still(struct guest *g, bool still)
{
	struct line *l = line_of(g);
	int64_t now = now_ns(), since = l->still_ns;

	if (still && !since)
		l->still_ns = now;
	if (!still && since) {
		l->still_ns = 0;
		l->stood_ns += now - since;
	}
}

double line_silence(struct guest *g)
{
	return (double)(now_ns() - line_of(g)->heard_ns) / 1e9;
}

/* ---- its life ---- */

static void line_release(struct line *l)
{
	if (!l)
		return;
	op_done(&l->pump_op);
	outbox_done(&l->out);
	buf_free(&l->in);
	lock_done(&l->mu);
	free(l);
}
DEFINE_AUTO(auto_linep, struct line, line_release)

int line_open(const struct op *op, int fd, double patience, struct guest **ret, struct err *e)
{
	__attribute__((cleanup(auto_linep))) struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return err_oom(e);
	l->base.ops = &line_ops;
	l->fd = fd;
	l->patience = patience;
	l->stray_max = STRAY_MAX;
	l->heard_ns = now_ns();
	l->pump_op.cancel_fd = -1;
	lock_init(&l->mu, "line.mu", LOCK_LEAF);
	if (fd_set_nonblock(fd, e) < 0 || op_init(&l->pump_op, "pump", 0, e) < 0 ||
		outbox_init(&l->out, fd, l->pump_op.cancel_fd, "the guest", e) < 0)
		return -1;
	if (hello_exchange(op, &l->out, &l->in, e) < 0 || pump_start(l, e) < 0)
		return -1;
	*ret = &take_ptr(&l)->base;
	return 0;
}

static void end_pump(struct line *l)
{
	if (l->pump_ended)
		return;
	outbox_close(&l->out);
	op_cancel(&l->pump_op);
	thread_join(l->pump);
	l->pump_ended = true;
}

void line_let_go(struct guest *g, struct buf *rest)
{
	struct line *l = line_of(g);
	struct bytes unsent;

	if (l->pump_ended)
		return;
	end_pump(l);
	unsent = outbox_rest(&l->out);
	buf_put(rest, unsent.p, unsent.len);
}

void line_free(struct guest *g)
{
	struct line *l = line_of(g);

	end_pump(l);
	close(l->fd);
	line_release(l);
}
