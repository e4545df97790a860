#include "cli/terminal/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/auto.h"
#include "util/thread/op.h"
#include "util/str.h"

enum { BAR_WIDTH = 24, TEXT_SHOWN_MIN = 8, TEXT_SHOWN_MAX = 100, AMOUNT_MAX = 96 };
/* The daemon does not say what it counts. From here on it is bytes; of what is less, people want to
 * know a part of the whole if there are many, and the steps themselves if there are few. */
enum { BYTES_FROM = 1 << 20, STEPS_MAX = 100 };
#define REDRAW_NS 80000000

void progress_init(struct progress *p, const struct screen *s, bool quiet)
{
	*p = (struct progress){
		.colours = s->err_colour, .started_ns = now_ns(), .text_ns = now_ns()};
	p->style = quiet ? PROGRESS_OFF : s->err_live ? PROGRESS_LIVE : PROGRESS_LINES;
}

static void format_amount(const struct progress *p, char out[static AMOUNT_MAX])
{
	double seconds = (double)(now_ns() - p->text_ns) / 1e9;
	bool bytes = p->bytes || p->total >= BYTES_FROM || p->done >= BYTES_FROM;
	char done[24], total[24], rate[24];

	out[0] = 0;
	if (!bytes) {
		if (p->total > STEPS_MAX)
			snprintf(out, AMOUNT_MAX, " %.0f %%",
				100.0 * (double)p->done / (double)p->total);
		else if (p->total)
			snprintf(out, AMOUNT_MAX, " %llu/%llu", (unsigned long long)p->done,
				(unsigned long long)p->total);
		return;
	}
	text_size((double)p->done, done);
	text_size((double)p->total, total);
	text_size(seconds > 0.1 ? (double)(p->done - p->text_done) / seconds : 0, rate);
	if (p->total)
		snprintf(out, AMOUNT_MAX, " %s of %s, %s/s", done, total, rate);
	else
		snprintf(out, AMOUNT_MAX, " %s, %s/s", done, rate);
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

/* Columns of the line without the spinner and an empty last column. */
static int line_room(void)
{
	struct winsize ws;
	int width = 80;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		width = ws.ws_col;
	return width > 3 ? width - 3 : 0;
}

/* Draws at most one line, as a wrapped one could not be wiped. First the bar is left out, then the
 * amount. */
static void draw(struct progress *p)
{
	static const char spinner[] = "|/-\\";
	char amount[AMOUNT_MAX];
	int room = line_room(), bar = p->total ? BAR_WIDTH + 3 : 0, after;
	int after_min = p->bytes ? 36 : 12; /* so that the text does not jump */

	format_amount(p, amount);
	after = (int)strlen(amount);
	if (after < after_min)
		after = after_min;
	if (room < bar + after + TEXT_SHOWN_MIN)
		bar = 0;
	if (room < after + TEXT_SHOWN_MIN)
		amount[after = 0] = 0;
	room -= bar + after;
	fprintf(stderr, "\r\033[K%s%c%s %.*s", colour_on(p->colours, COLOUR_GREEN),
		spinner[p->frame++ % 4], colour_off(p->colours),
		room > TEXT_SHOWN_MAX ? TEXT_SHOWN_MAX : room, p->text);
	if (bar)
		draw_bar(p);
	fputs(amount, stderr);
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
	if (new_text || done < p->text_done) {
		p->text_ns = now_ns();
		p->text_done = done; /* a download that goes on begins with what is there */
	}
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
