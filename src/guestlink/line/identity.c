#include "guestlink/line/identity.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "guestlink/line/channel.h"

enum { RANDOM_BYTES = 256 }; /* getrandom never gives fewer than asked for, up to this */

static void put_text(struct buf *b, const char *s)
{
	buf_puts(b, s ? s : "");
	buf_put(b, "", 1);
}

static int make_body(const struct guest_identity *id, struct buf *ret, struct err *e)
{
	uint8_t random[RANDOM_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, errno, "getrandom");
	put_text(ret, id->hostname);
	put_text(ret, id->machine_id);
	for (size_t i = 0; i < id->n_nics; i++) {
		put_text(ret, id->nics[i].old);
		put_text(ret, id->nics[i].mac);
	}
	for (size_t i = 0; i < id->n_keys; i++) {
		put_text(ret, id->keys[i].kind);
		put_text(ret, id->keys[i].secret);
		put_text(ret, id->keys[i].public);
	}
	buf_put(ret, random, sizeof(random));
	return buf_check(ret, e);
}

static int await_end(const struct op *op, struct channel *c, struct channel_end *ret, struct err *e)
{
	for (;;) {
		auto_channel_news struct channel_news news = {0};

		if (channel_take(c, &news, e) < 0)
			return -1;
		if (news.ended) {
			*ret = news.end;
			return 0;
		}
		if (op_wait_fd(op, channel_fd(c), POLLIN, e) < 0)
			return -1;
	}
}

int line_identify(
	struct guest *g, const struct op *op, const struct guest_identity *id, struct err *e)
{
	const struct channel_rules rules = {.end = WIRE_DONE};
	struct wire_msg msg = {.type = WIRE_IDENTITY,
		.flags = id->flags,
		.count = (uint32_t)id->n_nics,
		.count2 = (uint32_t)id->n_keys};
	auto_channel struct channel *c = NULL;
	auto_buf struct buf body = {0};
	struct channel_end end;
	struct timespec now;

	if (make_body(id, &body, e) < 0 || channel_open(g, &rules, &c, e) < 0)
		return -1;
	clock_gettime(CLOCK_REALTIME, &now);
	msg.size = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (channel_send(op, c, msg, buf_bytes(&body), e) < 0 || await_end(op, c, &end, e) < 0)
		return err_wrap(e, "the VM's identity");
	if (end.msg.code)
		return guest_fail(e, end.msg.code, "the VM's identity", end.text);
	return 0;
}
