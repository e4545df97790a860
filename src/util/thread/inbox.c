#include "util/thread/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/lock.h"

/* Messages without data count, too: a peer could fill the memory with empty ones. */
enum { MESSAGE_COST = 64 };

struct node {
	struct message message;
	struct node *next;
};

struct inbox {
	struct lock mu;
	struct node *first, **last;
	size_t bytes, max_bytes;
	bool closed;
	struct err why;
	int event;
};

int inbox_new(size_t max_bytes, struct inbox **ret, struct err *e)
{
	struct inbox *in = calloc(1, sizeof(*in));

	if (!in)
		return err_oom(e);
	in->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->event < 0) {
		free(in);
		return err_sys(e, errno, "eventfd");
	}
	lock_init(&in->mu, "inbox.mu", LOCK_LEAF);
	in->last = &in->first;
	in->max_bytes = max_bytes;
	*ret = in;
	return 0;
}

void inbox_free(struct inbox *in)
{
	struct node *n, *next;

	if (!in)
		return;
	for (n = in->first; n; n = next) {
		next = n->next;
		buf_free(&n->message.data);
		free(n);
	}
	close(in->event);
	lock_done(&in->mu);
	free(in);
}

static void ring_locked(struct inbox *in)
{
	uint64_t one = 1;

	/* Can only fail when the counter is full, and then the fd is readable already. */
	if (write(in->event, &one, sizeof(one)) < 0)
		return;
}

static void hush_locked(struct inbox *in)
{
	uint64_t count;

	if (read(in->event, &count, sizeof(count)) < 0)
		return;
}

int inbox_put(struct inbox *in, int type, uint64_t a, uint64_t b, struct bytes data, struct err *e)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return err_oom(e);
	n->message = (struct message){.type = type, .a = a, .b = b};
	if (data.len && buf_add(&n->message.data, data.p, data.len, e) < 0) {
		free(n);
		return -1;
	}
	{
		auto_unlock struct lock *held = lock_take(&in->mu);
		if (!in->closed && in->bytes + data.len + MESSAGE_COST <= in->max_bytes) {
			*in->last = n;
			in->last = &n->next;
			in->bytes += data.len + MESSAGE_COST;
			ring_locked(in);
			return 0;
		}
		if (in->closed)
			*e = in->why;
		else
			err_set(e, ERR_LIMIT, "more than %zu bytes are waiting", in->max_bytes);
	}
	buf_free(&n->message.data);
	free(n);
	return -1;
}

void inbox_close(struct inbox *in, const struct err *why)
{
	auto_unlock struct lock *held = lock_take(&in->mu);

	if (in->closed)
		return;
	in->closed = true;
	in->why = *why;
	ring_locked(in);
}

int inbox_fd(const struct inbox *in)
{
	return in->event;
}

int inbox_take(struct inbox *in, struct message *ret, struct err *e)
{
	struct node *n;

	{
		auto_unlock struct lock *held = lock_take(&in->mu);
		n = in->first;
		if (!n && in->closed) {
			*e = in->why;
			return -1;
		}
		if (!n) {
			hush_locked(in);
			return 0;
		}
		in->first = n->next;
		if (!in->first)
			in->last = &in->first;
		in->bytes -= n->message.data.len + MESSAGE_COST;
		if (!in->first && !in->closed)
			hush_locked(in);
	}
	*ret = n->message;
	free(n);
	return 1;
}
