/* Operations on a VM's screen, keyboard and pointer. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/ops/args.h"
#include "screen/gestures.h"
#include "screen/png.h"
#include "screen/rfb-filter.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"
#include "util/system/io.h"
#include "util/system/log.h"
#include "wire/wire.h"

/* Whether a picture has come to rest is seen by two that are equal, so long apart. */
#define SETTLE_GAP   0.08
#define SETTLE_MAX   60.0
#define UNDO_SECONDS 10.0
#define END_SECONDS  2.0

/* A VM whose screen is worked with; the sandbox is borrowed. */
struct shown {
	struct request *rq;
	struct borrower b;
	unsigned vm;
	struct screens *all;
	struct screen *screen;
};

static void shown_give(struct shown *s)
{
	registry_return(s->rq->daemon->registry, &s->b);
}

/* A failure leaves nothing borrowed. ret stays where it is: the registry knows its borrowers by
 * their place. */
static int shown_take(
	struct request *rq, const char *sandbox, const char *name, struct shown *ret, struct err *e)
{
	*ret = (struct shown){.rq = rq};
	if (borrow_vm(rq, sandbox, name, &ret->b, &ret->vm, e) < 0)
		return -1;
	ret->all = &ret->b.sb->screens;
	if (!ret->b.sb->driver->ops->screenshot)
		err_set(e, ERR_UNSUPPORTED, "the %s driver shows no screens",
			ret->b.sb->driver->ops->name);
	else if (screens_find(
			 ret->all, (unsigned)ret->b.sb->spec->n_vms, ret->vm, &ret->screen, e) == 0)
		return 0;
	shown_give(ret);
	return -1;
}

/* ---- screenshot ---- */

struct shot {
	struct canvas size; /* 0: as the screen is */
	struct canvas of;   /* what region is counted in; 0: the last picture */
	json_t *region;     /* [x0, y0, x1, y1]; NULL: all */
	double settle;      /* seconds */
	bool settled;
	struct canvas screen;
};

static int read_canvas(json_t *j, const char *what, struct canvas *ret, struct err *e)
{
	json_int_t width, height;

	if (!j || json_is_null(j))
		return 0;
	if (json_unpack(j, "[II!]", &width, &height) < 0 || width < 1 || height < 1 ||
		width > PICTURE_SIDE_MAX || height > PICTURE_SIDE_MAX)
		return err_set(e, ERR_INVALID, "%s: is no [WIDTH, HEIGHT] of 1 to %d", what,
			PICTURE_SIDE_MAX);
	*ret = (struct canvas){(unsigned)width, (unsigned)height};
	return 0;
}

static int look(struct shown *s, struct picture *ret, struct err *e)
{
	return s->b.sb->driver->ops->screenshot(s->b.driven, &s->rq->op, s->vm, ret, e);
}

/* Takes pictures until two are equal, or time is up. */
static int look_when_settled(struct shown *s, struct shot *shot, struct picture *ret, struct err *e)
{
	int64_t until = now_ns() + (int64_t)(shot->settle * 1e9);
	auto_picture struct picture last = {0};

	if (look(s, &last, e) < 0)
		return -1;
	while (!shot->settled && now_ns() < until) {
		struct picture next;

		if (op_pause(&s->rq->op, SETTLE_GAP, e) < 0 || look(s, &next, e) < 0)
			return -1;
		shot->settled = picture_equal(&last, &next);
		picture_free(&last);
		last = next;
	}
	*ret = last;
	last = (struct picture){0};
	return 0;
}

/* The part of the picture that a region of another size means; a pixel at least. */
static int cut_region(const struct shot *shot, struct canvas of, struct picture *p, struct err *e)
{
	struct picture part;
	json_int_t at[4];
	unsigned x0, y0, x1, y1;

	if (json_unpack(shot->region, "[IIII!]", &at[0], &at[1], &at[2], &at[3]) < 0)
		return err_set(e, ERR_INVALID, "region: is no [X0, Y0, X1, Y1]");
	if (at[0] < 0 || at[1] < 0 || at[2] > of.width || at[3] > of.height || at[0] >= at[2] ||
		at[1] >= at[3])
		return err_set(e, ERR_INVALID,
			"region: %lld,%lld to %lld,%lld is no part of a picture of %ux%u",
			(long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3],
			of.width, of.height);
	x0 = (unsigned)((uint64_t)at[0] * p->width / of.width);
	y0 = (unsigned)((uint64_t)at[1] * p->height / of.height);
	x1 = (unsigned)(((uint64_t)at[2] * p->width + of.width - 1) / of.width);
	y1 = (unsigned)(((uint64_t)at[3] * p->height + of.height - 1) / of.height);
	if (picture_crop(p, x0, y0, x1 - x0, y1 - y0, &part, e) < 0)
		return -1;
	picture_free(p);
	*p = part;
	return 0;
}

static int fit(const struct shot *shot, struct picture *p, struct err *e)
{
	struct picture scaled;

	if (!shot->size.width || (shot->size.width == p->width && shot->size.height == p->height))
		return 0;
	if (picture_scale(p, shot->size.width, shot->size.height, &scaled, e) < 0)
		return -1;
	picture_free(p);
	*p = scaled;
	return 0;
}

/* Takes the picture, and remembers its size for coordinates to come. */
static int take_shot(struct shown *s, struct shot *shot, struct picture *ret, struct err *e)
{
	auto_picture struct picture p = {0};
	struct canvas of = shot->of;

	{
		auto_turn struct turn *held = NULL;

		if (turn_take(&s->screen->turn, &s->rq->op, e) < 0)
			return -1;
		held = &s->screen->turn;
		if (look_when_settled(s, shot, &p, e) < 0)
			return -1;
	}
	shot->screen = (struct canvas){p.width, p.height};
	if (!of.width)
		of = screens_canvas(s->all, s->screen);
	if (!of.width)
		of = shot->screen;
	if ((shot->region && cut_region(shot, of, &p, e) < 0) || fit(shot, &p, e) < 0)
		return -1;
	if (!shot->region)
		screens_set_canvas(s->all, s->screen, (struct canvas){p.width, p.height});
	*ret = p;
	p = (struct picture){0};
	return 0;
}

static int read_shot(struct request *rq, const char **sandbox, const char **name, struct shot *ret,
	struct err *e)
{
	json_t *size = NULL, *of = NULL;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s?o, s?o, s?o, s?F}", "sandbox", sandbox,
		    "vm", name, "size", &size, "of", &of, "region", &ret->region, "settle",
		    &ret->settle) < 0 ||
		read_canvas(size, "size", &ret->size, e) < 0 ||
		read_canvas(of, "of", &ret->of, e) < 0)
		return -1;
	if (!isfinite(ret->settle) || ret->settle < 0 || ret->settle > SETTLE_MAX)
		return err_set(e, ERR_INVALID, "settle: not between 0 and %g seconds", SETTLE_MAX);
	if (json_is_null(ret->region))
		ret->region = NULL;
	return 0;
}

int handle_screenshot(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *name = NULL;
	auto_picture struct picture p = {0};
	auto_buf struct buf png = {0};
	struct shot shot = {0};
	struct shown s;
	int rc;

	if (read_shot(rq, &sandbox, &name, &shot, e) < 0 ||
		shown_take(rq, sandbox, name, &s, e) < 0)
		return -1;
	rc = take_shot(&s, &shot, &p, e);
	if (rc < 0)
		registry_explain(rq->daemon->registry, &s.b, e);
	shown_give(&s);
	if (rc < 0 || png_write(&p, &png, e) < 0 ||
		request_output(rq, WIRE_BODY, buf_bytes(&png), e) < 0)
		return -1;
	return json_make(ret, e, "{s:I, s:[ii], s:[ii], s:b}", "size", (json_int_t)png.len,
		"picture", (int)p.width, (int)p.height, "screen", (int)shot.screen.width,
		(int)shot.screen.height, "settled", shot.settled);
}

/* ---- input ---- */

/* What coordinates are counted in: as the client says, or the picture that was handed out last, or
 * the screen. */
static int find_canvas(struct shown *s, json_t *of, struct canvas *ret, struct err *e)
{
	auto_picture struct picture p = {0};

	if (read_canvas(of, "of", ret, e) < 0)
		return -1;
	if (!ret->width)
		*ret = screens_canvas(s->all, s->screen);
	if (ret->width)
		return 0;
	if (look(s, &p, e) < 0)
		return -1;
	*ret = (struct canvas){p.width, p.height};
	return 0;
}

/* Something went wrong on the way: no key and no button stays down. */
static void let_go(struct shown *s, const struct steps *done)
{
	struct op op = op_for_cleanup(UNDO_SECONDS);
	auto_steps struct steps ups = {0};
	struct err e;

	if (steps_release(done, &ups, &e) < 0 ||
		s->b.sb->driver->ops->input(s->b.driven, &op, s->vm, ups.list, ups.n, &e) < 0)
		log_err(&s->rq->op, LOG_DEBUG, &e, "cannot let keys go");
}

static int do_input(struct shown *s, json_t *actions, json_t *of, json_t **ret, struct err *e)
{
	auto_turn struct turn *held = NULL;
	auto_steps struct steps steps = {0};
	struct canvas canvas = {0};
	struct pointer pointer;

	if (turn_take(&s->screen->turn, &s->rq->op, e) < 0)
		return -1;
	held = &s->screen->turn;
	pointer = screens_pointer(s->all, s->screen);
	if (find_canvas(s, of, &canvas, e) < 0 ||
		gestures_plan(actions, &canvas, &pointer, &steps, e) < 0)
		return -1;
	if (steps.n)
		request_touch(s->rq, s->b.sb, TOUCH_CONTROLLED);
	if (steps.n && s->b.sb->driver->ops->input(
			       s->b.driven, &s->rq->op, s->vm, steps.list, steps.n, e) < 0) {
		let_go(s, &steps);
		screens_set_pointer(s->all, s->screen, (struct pointer){0});
		return -1;
	}
	screens_set_pointer(s->all, s->screen, pointer);
	if (!pointer.known)
		return json_make(ret, e, "{s:n}", "pointer");
	return json_make(ret, e, "{s:[ii]}", "pointer", (int)canvas_x(&canvas, &pointer),
		(int)canvas_y(&canvas, &pointer));
}

int handle_input(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *name = NULL;
	json_t *actions, *of = NULL;
	struct shown s;
	int rc;

	if (json_get(rq->args, "args", e, "{s:s, s?s, s:o, s?o}", "sandbox", &sandbox, "vm", &name,
		    "actions", &actions, "of", &of) < 0 ||
		shown_take(rq, sandbox, name, &s, e) < 0)
		return -1;
	rc = do_input(&s, actions, of, ret, e);
	if (rc < 0)
		registry_explain(rq->daemon->registry, &s.b, e);
	shown_give(&s);
	return rc;
}

/* ---- screen ---- */

/* A viewer's connection to a VNC server. */
struct viewing {
	struct request *rq;
	int fd; /* the server's, non-blocking */
	struct rfb_filter filter;
	struct buf to_server; /* not sent yet */
	bool viewer_left;
};

/* Takes one message of the client, once all that came before has been sent. */
static int take_from_viewer(struct viewing *v, struct err *e)
{
	struct guest_io io = request_io(v->rq);
	struct message m = {0};
	int got, rc = 0;

	if (v->to_server.len)
		return 0;
	got = inbox_take(io.in, &m, e);
	if (got <= 0)
		return got;
	if (m.type == GUEST_INPUT_EOF)
		v->viewer_left = true;
	else if (m.type == GUEST_INPUT_DATA)
		rc = rfb_filter_feed(&v->filter, buf_bytes(&m.data), &v->to_server, e);
	io.consumed(io.arg, m.data.len);
	buf_free(&m.data);
	return rc;
}

static int send_to_server(struct viewing *v, struct err *e)
{
	ssize_t n;

	if (!v->to_server.len)
		return 0;
	n = send(v->fd, buf_data(&v->to_server), v->to_server.len, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_sys(e, errno, "the VNC server");
	if (n > 0)
		buf_drop(&v->to_server, (size_t)n);
	return 0;
}

/* Waits for the viewer to read: meanwhile the server holds back what it would send. */
static int take_from_server(struct viewing *v, struct err *e)
{
	uint8_t piece[64 * 1024];
	ssize_t n = recv(v->fd, piece, sizeof(piece), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the VM's VNC server has hung up");
	return request_output(v->rq, WIRE_BODY, (struct bytes){piece, (size_t)n}, e);
}

static int carry(struct viewing *v, struct err *e)
{
	while (!v->viewer_left) {
		struct pollfd fds[2] = {
			{.fd = v->fd, .events = v->to_server.len ? POLLIN | POLLOUT : POLLIN},
			{.fd = v->to_server.len ? -1 : inbox_fd(v->rq->in), .events = POLLIN},
		};

		if (op_wait_fds(&v->rq->op, fds, 2, e) < 0)
			return -1;
		if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR) && take_from_server(v, e) < 0) ||
			send_to_server(v, e) < 0 || take_from_viewer(v, e) < 0)
			return -1;
	}
	return 0;
}

/* A viewer that had control leaves. The server reads nothing more of a closed socket, so it gets
 * time to take what was said last. It lets go of keys by itself, but not of buttons. */
static void end_control(struct viewing *v)
{
	struct op op = op_for_cleanup(END_SECONDS);
	uint8_t rest[4096];
	struct err ignored;

	if (rfb_filter_end(&v->filter, &v->to_server, &ignored) < 0 ||
		send_to_server(v, &ignored) < 0 || shutdown(v->fd, SHUT_WR) < 0)
		return;
	while (op_check(&op, &ignored) == 0 && op_wait_fd(&op, v->fd, POLLIN, &ignored) == 0) {
		ssize_t n = recv(v->fd, rest, sizeof(rest), 0);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
	}
}

static int view(struct shown *s, bool control, struct err *e)
{
	struct bell *changes = registry_changes(s->rq->daemon->registry);
	struct viewing v = {.rq = s->rq, .filter = {.control = control}};
	auto_fd int fd = -1;
	int rc;

	if (screens_enter(s->all, s->screen, control, e) < 0)
		return -1;
	/* Control is for people, whatever brings them the picture. */
	if (control)
		touches_add(&s->b.sb->touches, TOUCH_CONTROLLED,
			*s->rq->session->person ? s->rq->session->person : "viewer");
	bell_ring(changes);
	rc = s->b.sb->driver->ops->screen_open(s->b.driven, &s->rq->op, s->vm, &fd, e);
	if (rc == 0) {
		v.fd = fd;
		rc = carry(&v, e);
		if (control)
			end_control(&v);
	}
	buf_free(&v.to_server);
	rfb_filter_free(&v.filter);
	screens_leave(s->all, s->screen, control);
	bell_ring(changes);
	return rc;
}

int handle_screen(struct request *rq, json_t **ret, struct err *e)
{
	const char *sandbox, *name = NULL;
	int control = 0, rc;
	struct shown s;

	(void)ret;
	if (json_get(rq->args, "args", e, "{s:s, s?s, s?b}", "sandbox", &sandbox, "vm", &name,
		    "control", &control) < 0)
		return -1;
	if (rq->input != INPUT_STREAM)
		return err_set(e, ERR_INVALID, "screen needs \"input\":\"stream\"");
	if (shown_take(rq, sandbox, name, &s, e) < 0)
		return -1;
	rc = view(&s, control, e);
	if (rc < 0) {
		s.b.sb->driver->ops->explain(s.b.driven, s.vm, e);
		registry_explain(rq->daemon->registry, &s.b, e);
	}
	shown_give(&s);
	return rc;
}
