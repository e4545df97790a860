#include "util/inbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/lock.h"

/* Letters without data count too, or a peer could fill memory with empty ones. */
enum { LETTER_COST = 64 };

struct node {
	struct letter letter;
	struct node *next;
};

struct inbox {
	pthread_mutex_t mu;
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
	pthread_mutex_init(&in->mu, NULL);
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
		buf_free(&n->letter.data);
		free(n);
	}
	close(in->event);
	pthread_mutex_destroy(&in->mu);
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
	n->letter = (struct letter){.type = type, .a = a, .b = b};
	if (data.len && buf_add(&n->letter.data, data.p, data.len, e) < 0) {
		free(n);
		return -1;
	}
	{
		auto_unlock pthread_mutex_t *held = lock_take(&in->mu);
		if (!in->closed && in->bytes + data.len + LETTER_COST <= in->max_bytes) {
			*in->last = n;
			in->last = &n->next;
			in->bytes += data.len + LETTER_COST;
			ring_locked(in);
			return 0;
		}
		if (in->closed)
			*e = in->why;
		else
			err_set(e, ERR_LIMIT, "more than %zu bytes are waiting", in->max_bytes);
	}
	buf_free(&n->letter.data);
	free(n);
	return -1;
}

void inbox_close(struct inbox *in, const struct err *why)
{
	auto_unlock pthread_mutex_t *held = lock_take(&in->mu);

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

int inbox_take(struct inbox *in, struct letter *ret, struct err *e)
{
	struct node *n;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&in->mu);
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
		in->bytes -= n->letter.data.len + LETTER_COST;
		if (!in->first && !in->closed)
			hush_locked(in);
	}
	*ret = n->letter;
	free(n);
	return 1;
}
