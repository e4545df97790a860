#include "driver/proxmox/api/exchange.h"

#include "driver/proxmox/api/outage.h"
#include "util/thread/lock.h"

#define HURRY_LOOK   1.0
#define KEEP_SECONDS 3 /* the server closes idle connections after 5 */
enum { KEEP_MAX = 64, REQUESTS_MAX = 90 };

/* Takes a kept connection that the server has not closed, or opens one. */
static int take_conn(struct pve_api *api, const struct op *op, struct pve_conn **ret, struct err *e)
{
	for (;;) {
		auto_buf struct buf rubbish = {0};
		struct pve_conn *c;
		struct err ignored;
		bool fresh;

		{
			auto_unlock struct lock *held = lock_take(&api->mu);
			c = api->idle;
			if (c) {
				api->idle = c->next;
				api->n_idle--;
			}
		}
		if (!c)
			return pve_conn_open(api, op, ret, e);
		fresh = now_ns() - c->idle_since_ns < KEEP_SECONDS * INT64_C(1000000000) &&
			c->requests < REQUESTS_MAX;
		if (fresh && pve_conn_recv_now(c, &rubbish, 1, &ignored) == 0) {
			*ret = c;
			return 0;
		}
		pve_conn_close(c);
	}
}

static void give_conn(struct pve_api *api, struct pve_conn *c, bool keep)
{
	if (keep) {
		auto_unlock struct lock *held = lock_take(&api->mu);

		if (api->n_idle < KEEP_MAX) {
			c->requests++;
			c->idle_since_ns = now_ns();
			c->next = api->idle;
			api->idle = c;
			api->n_idle++;
			return;
		}
	}
	pve_conn_close(c);
}

/* Waits for bytes of an answer; a server that is silent for too long is an error. */
static ssize_t receive(
	struct pve_api *api, struct pve_conn *c, const struct op *op, struct buf *in, struct err *e)
{
	for (int64_t began = now_ns();;) {
		struct op part = op_within(op, HURRY_LOOK);
		ssize_t got = pve_conn_recv(c, &part, in, SIZE_MAX, e);
		double most = pve_outage_silence(api);

		if (got >= 0 || e->kind != ERR_TIMEOUT || op_check(op, e) < 0)
			return got;
		if ((double)(now_ns() - began) / 1e9 >= most)
			return err_set(
				e, ERR_UNAVAILABLE, "the server has been silent for %g s", most);
	}
}

static int read_answer(struct pve_api *api, struct pve_conn *c, const struct op *op,
	struct http_answer *a, struct err *e)
{
	auto_buf struct buf in = {0};

	for (;;) {
		ssize_t got = receive(api, c, op, &in, e);

		if (got < 0)
			return a->has_head && e->kind == ERR_UNAVAILABLE ? http_body_end(a, e) : -1;
		got = http_take(&in, a, e);
		if (got < 0)
			return -1;
		if (got > 0) {
			a->keep = a->keep && in.len == 0;
			return 0;
		}
	}
}

int pve_exchange(struct pve_api *api, const struct op *op, const struct pve_request *rq,
	struct http_answer *a, struct err *e)
{
	struct pve_conn *c;
	bool sent = false;
	int rc;

	if (take_conn(api, op, &c, e) < 0)
		return -1;
	atomic_fetch_add(&api->requests, 1);
	rc = pve_conn_send(c, op, rq->head.p, rq->head.len, e);
	if (rc == 0 && rq->body)
		rc = rq->body(rq->arg, c, op, e);
	/* A server never acts on a request of which it has only a part. */
	sent = rc == 0;
	if (sent) {
		rc = read_answer(api, c, op, a, e);
	} else if (rq->body && e->kind == ERR_UNAVAILABLE) {
		/* A server that refuses an upload answers before it has all of it. */
		struct err ignored;

		rc = read_answer(api, c, op, a, &ignored);
	}
	give_conn(api, c, rc == 0 && sent && a->keep);
	if (rc < 0) {
		e->sys = sent ? PVE_NO_ANSWER : PVE_NOT_SENT;
		err_wrap(e, "%s", api->host);
	}
	return rc;
}
