#include "cli/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/op.h"
#include "util/str.h"

enum { BAR_WIDTH = 24, TEXT_SHOWN_MAX = 100 };
#define REDRAW_NS 80000000

void progress_init(struct progress *p, const struct screen *s, bool quiet)
{
	*p = (struct progress){.colours = s->err_colour, .started_ns = now_ns()};
	p->style = quiet ? PROGRESS_OFF : s->err_tty ? PROGRESS_LIVE : PROGRESS_LINES;
}

static void draw_amount(const struct progress *p)
{
	double seconds = (double)(now_ns() - p->started_ns) / 1e9;
	char done[24], total[24], rate[24];

	if (!p->bytes) {
		if (p->total)
			fprintf(stderr, " %llu/%llu", (unsigned long long)p->done,
				(unsigned long long)p->total);
		return;
	}
	text_size((double)p->done, done);
	text_size((double)p->total, total);
	text_size(seconds > 0.1 ? (double)p->done / seconds : 0, rate);
	if (p->total)
		fprintf(stderr, " %s of %s, %s/s", done, total, rate);
	else
		fprintf(stderr, " %s, %s/s", done, rate);
}

static void draw_bar(const struct progress *p)
{
	double part = (double)p->done / (double)p->total;
	int full = part >= 1 ? BAR_WIDTH : (int)(part * BAR_WIDTH);

	fputs(" [", stderr);
	for (int i = 0; i < BAR_WIDTH; i++)
		fputc(i < full ? '#' : '.', stderr);
	fputc(']', stderr);
}

/* How much text leaves room for the bar: a wrapped line could not be wiped. */
static int text_room(const struct progress *p)
{
	struct winsize ws;
	int width = 80, room;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		width = ws.ws_col;
	room = width - 3 - (p->total ? BAR_WIDTH + 3 : 0) - (p->bytes ? 36 : 12);
	return room < 8 ? 8 : room > TEXT_SHOWN_MAX ? TEXT_SHOWN_MAX : room;
}

static void draw(struct progress *p)
{
	static const char spinner[] = "|/-\\";

	fprintf(stderr, "\r\033[K%s%c%s %.*s", colour_on(p->colours, COLOUR_GREEN),
		spinner[p->frame++ % 4], colour_off(p->colours), text_room(p), p->text);
	if (p->total)
		draw_bar(p);
	draw_amount(p);
	fflush(stderr);
	p->drawn = true;
	p->drawn_ns = now_ns();
}

void progress_update(struct progress *p, const char *text, uint64_t done, uint64_t total)
{
	char safe[sizeof(p->text)];
	bool new_text;

	if (p->style == PROGRESS_OFF)
		return;
	str_escape(text, strlen(text), safe, sizeof(safe));
	new_text = strcmp(safe, p->text) != 0;
	memcpy(p->text, safe, sizeof(safe));
	p->done = done;
	p->total = total;
	if (p->style == PROGRESS_LINES && new_text)
		fprintf(stderr, "%s\n", p->text);
	if (p->style == PROGRESS_LIVE && (new_text || now_ns() - p->drawn_ns > REDRAW_NS))
		draw(p);
}

void progress_tick(struct progress *p)
{
	if (p->style == PROGRESS_LIVE && p->text[0] && now_ns() - p->drawn_ns > REDRAW_NS)
		draw(p);
}

void progress_clear(struct progress *p)
{
	if (!p->drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	p->drawn = false;
}
