#include "screen/rfb-filter.h"

#include <string.h>

enum {
	SET_PIXEL_FORMAT = 0,
	SET_ENCODINGS = 2,
	UPDATE_REQUEST = 3,
	KEY_EVENT = 4,
	POINTER_EVENT = 5,
	CUT_TEXT = 6,
	CONTINUOUS_UPDATES = 150,
	XVP = 250,
	SET_DESKTOP_SIZE = 251,
	QEMU = 255,

	ENCODINGS_MAX = 1024,
	WHOLE_MAX = 4 + 4 * ENCODINGS_MAX, /* of a message that is kept until it is whole */
};

void rfb_filter_free(struct rfb_filter *f)
{
	buf_free(&f->in);
}

static uint16_t get_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)get_be16(p) << 16 | get_be16(p + 2);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Encodings by which a server would offer what is dropped here: sound, sizes, the clipboard. */
static bool is_barred(uint32_t encoding)
{
	return encoding == (uint32_t)-259 || encoding == (uint32_t)-308 ||
	       encoding == (uint32_t)-257 || encoding == 0xc0a1e5ce;
}

/* Passes the encodings that the viewer knows, without some. */
static int pass_encodings(const uint8_t *p, unsigned n, struct buf *out, struct err *e)
{
	uint8_t msg[WHOLE_MAX] = {SET_ENCODINGS};
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t encoding = get_be32(p + 4 + 4 * i);

		if (!is_barred(encoding))
			put_be32(msg + 4 + 4 * kept++, encoding);
	}
	msg[2] = (uint8_t)(kept >> 8);
	msg[3] = (uint8_t)kept;
	return buf_add(out, msg, 4 + 4 * kept, e);
}

/* A message at the beginning of what has come. */
struct rfb_message {
	uint64_t len; /* 0: more must come, to know it */
	enum { MESSAGE_PASSES, MESSAGE_CONTROLS, MESSAGE_DROPPED, MESSAGE_ENCODINGS } kind;
};

static struct rfb_message qemu_message(struct bytes in)
{
	if (in.len < 4)
		return (struct rfb_message){0};
	if (in.p[1] == 0)
		return (struct rfb_message){12, MESSAGE_CONTROLS};
	/* Sound: a format follows the request to set it. */
	return (struct rfb_message){get_be16(in.p + 2) == 2 ? 10 : 4, MESSAGE_DROPPED};
}

static int find_message(struct bytes in, struct rfb_message *ret, struct err *e)
{
	struct rfb_message none = {0};
	int32_t text;

	switch (in.p[0]) {
	case SET_PIXEL_FORMAT:
		*ret = (struct rfb_message){20, MESSAGE_PASSES};
		return 0;
	case SET_ENCODINGS:
		if (in.len >= 4 && get_be16(in.p + 2) > ENCODINGS_MAX)
			return err_set(e, ERR_INVALID, "the viewer knows more than %d encodings",
				ENCODINGS_MAX);
		*ret = in.len < 4 ? none
				  : (struct rfb_message){4 + 4 * (uint64_t)get_be16(in.p + 2),
					    MESSAGE_ENCODINGS};
		return 0;
	case UPDATE_REQUEST:
		*ret = (struct rfb_message){10, MESSAGE_PASSES};
		return 0;
	case KEY_EVENT:
		*ret = (struct rfb_message){8, MESSAGE_CONTROLS};
		return 0;
	case POINTER_EVENT:
		*ret = (struct rfb_message){6, MESSAGE_CONTROLS};
		return 0;
	case CUT_TEXT:
		if (in.len < 8) {
			*ret = none;
			return 0;
		}
		/* A negative length marks text of another form. */
		text = (int32_t)get_be32(in.p + 4);
		*ret = (struct rfb_message){
			8 + (uint64_t)(text < 0 ? -(int64_t)text : text), MESSAGE_DROPPED};
		return 0;
	case CONTINUOUS_UPDATES:
		*ret = (struct rfb_message){10, MESSAGE_DROPPED};
		return 0;
	case XVP:
		*ret = (struct rfb_message){4, MESSAGE_DROPPED};
		return 0;
	case SET_DESKTOP_SIZE:
		*ret = in.len < 8
			       ? none
			       : (struct rfb_message){8 + 16 * (uint64_t)in.p[6], MESSAGE_DROPPED};
		return 0;
	case QEMU:
		*ret = qemu_message(in);
		return 0;
	}
	return err_set(e, ERR_INVALID, "the viewer sent an unknown message, of type %u", in.p[0]);
}

/* Deals with one message that is whole. */
static int pass(struct rfb_filter *f, const uint8_t *p, const struct rfb_message *m,
	struct buf *out, struct err *e)
{
	if (m->kind == MESSAGE_ENCODINGS)
		return pass_encodings(p, (unsigned)(m->len - 4) / 4, out, e);
	if (m->kind == MESSAGE_DROPPED || (m->kind == MESSAGE_CONTROLS && !f->control))
		return 0;
	if (p[0] == POINTER_EVENT)
		memcpy(f->pointer, p, sizeof(f->pointer));
	return buf_add(out, p, (size_t)m->len, e);
}

/* 1: a message has been dealt with; 0: more must come. */
static int next_message(struct rfb_filter *f, struct buf *out, struct err *e)
{
	struct bytes in = buf_bytes(&f->in);
	struct rfb_message m;

	if (!in.len)
		return 0;
	if (find_message(in, &m, e) < 0)
		return -1;
	if (!m.len)
		return 0;
	if (m.kind == MESSAGE_DROPPED && m.len > in.len) {
		f->skips = m.len - in.len;
		buf_drop(&f->in, in.len);
		return 0;
	}
	if (m.len > in.len)
		return 0;
	if (pass(f, in.p, &m, out, e) < 0)
		return -1;
	buf_drop(&f->in, (size_t)m.len);
	return 1;
}

/* The messages before a connection is established, each of a fixed length. */
static int next_greeting(struct rfb_filter *f, struct buf *out, struct err *e)
{
	static const size_t lengths[] = {[RFB_VERSION] = 12, [RFB_SECURITY] = 1, [RFB_INIT] = 1};
	size_t n = lengths[f->stage];
	struct bytes in = buf_bytes(&f->in);
	/* Shared: otherwise the server would hang up on the other viewers. */
	static const uint8_t shared = 1;
	int rc;

	if (in.len < n)
		return 0;
	if (f->stage == RFB_VERSION && memcmp(in.p, "RFB 003.007\n", 12) != 0 &&
		memcmp(in.p, "RFB 003.008\n", 12) != 0)
		return err_set(e, ERR_INVALID, "the viewer speaks neither RFB 3.7 nor 3.8");
	rc = f->stage == RFB_INIT ? buf_add(out, &shared, 1, e) : buf_add(out, in.p, n, e);
	if (rc < 0)
		return -1;
	f->stage++;
	buf_drop(&f->in, n);
	return 1;
}

int rfb_filter_feed(struct rfb_filter *f, struct bytes in, struct buf *out, struct err *e)
{
	while (in.len) {
		size_t n = in.len < WHOLE_MAX ? in.len : WHOLE_MAX;
		int more = 1;

		if (f->skips) {
			n = n < f->skips ? n : (size_t)f->skips;
			f->skips -= n;
		} else if (buf_add(&f->in, in.p, n, e) < 0) {
			return -1;
		}
		in.p += n;
		in.len -= n;
		while (more > 0)
			more = f->stage == RFB_MESSAGES ? next_message(f, out, e)
							: next_greeting(f, out, e);
		if (more < 0)
			return -1;
	}
	return 0;
}

int rfb_filter_end(const struct rfb_filter *f, struct buf *out, struct err *e)
{
	uint8_t up[sizeof(f->pointer)];

	if (!f->pointer[1])
		return 0;
	memcpy(up, f->pointer, sizeof(up));
	up[1] = 0;
	return buf_add(out, up, sizeof(up), e);
}
