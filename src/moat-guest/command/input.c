#include "moat-guest/command/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moat-guest/command/pty.h"

static void input_ready(struct watch *w, uint32_t events);

void input_init(struct input *in, struct job *job, int fd, bool tty)
{
	*in = (struct input){.watch = {.fd = fd, .ready = input_ready}, .job = job, .tty = tty};
}

static void forget(struct input *in)
{
	free(in->p);
	in->p = NULL;
	in->start = in->len = 0;
}

void input_close(struct input *in)
{
	watch_close(in->job->runner, &in->watch);
	forget(in);
}

/* Writes what fits. Returns how many bytes were written, or dropped because nobody reads them. */
static size_t write_some(struct input *in, const uint8_t *p, size_t len)
{
	ssize_t n;

	if (in->watch.fd < 0 || !len)
		return len;
	n = write(in->watch.fd, p, len);
	if (n > 0) {
		in->mid_line = p[n - 1] != '\n';
		return (size_t)n;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (!in->tty) /* a terminal still gives output */
		watch_close(in->job->runner, &in->watch);
	return len;
}

/* A terminal has no end of file, only a character that the line discipline takes for one; in the
 * middle of a line the first of these merely hands that line over. */
static void end_input(struct input *in)
{
	uint8_t marks[2];

	in->eof = false;
	if (!in->tty) {
		watch_close(in->job->runner, &in->watch);
		return;
	}
	marks[0] = marks[1] = pty_eof_char(in->watch.fd);
	if (write(in->watch.fd, marks, in->mid_line ? 2 : 1) < 0)
		return; /* nobody is there to read it */
	in->mid_line = false;
}

static void update_watch(struct input *in)
{
	if (!in->len) {
		forget(in);
		if (in->eof)
			end_input(in);
	}
	watch_set(in->job->runner, &in->watch, in->len ? EPOLLOUT : 0);
}

static void input_ready(struct watch *w, uint32_t events)
{
	struct input *in = (struct input *)w;
	size_t n = write_some(in, in->p + in->start, in->len);

	(void)events;
	in->start += n;
	in->len -= n;
	job_consume(in->job, n, in->len == 0);
	update_watch(in);
}

void input_data(struct input *in, const uint8_t *p, size_t len)
{
	size_t n = in->len ? 0 : write_some(in, p, len);

	if (n < len && !in->p)
		in->p = malloc(WIRE_WINDOW);
	if (n < len && !in->p) { /* no memory: a broken pipe is better than a wrong input */
		input_close(in);
		n = len;
	}
	if (n < len) {
		memmove(in->p, in->p + in->start, in->len);
		in->start = 0;
		memcpy(in->p + in->len, p + n, len - n); /* fits: the host keeps to the window */
		in->len += len - n;
	}
	job_consume(in->job, n, in->len == 0);
	update_watch(in);
}

void input_eof(struct input *in)
{
	in->eof = true;
	update_watch(in);
}
