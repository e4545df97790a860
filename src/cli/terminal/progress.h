/* progress.h - shows progress on stderr: one line that changes on a terminal (unless it is dumb),
 * else a line for each new step; nothing with --quiet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/terminal/screen.h"

enum progress_style { PROGRESS_OFF, PROGRESS_LINES, PROGRESS_LIVE };

struct progress {
	enum progress_style style;
	bool colours;
	bool bytes;     /* done and total count bytes: shown as sizes, with a rate */
	char text[160]; /* escaped */
	uint64_t done, total, text_done; /* text_done: when this text began */
	int64_t started_ns, text_ns, drawn_ns;
	unsigned frame;
	bool drawn; /* the line on the terminal is ours */
};

void progress_init(struct progress *p, const struct screen *s, bool quiet);
/* text comes from the daemon, and is escaped here. */
void progress_update(struct progress *p, const char *text, uint64_t done, uint64_t total);
/* Turns the spinner: call it now and then while nothing is new. */
void progress_tick(struct progress *p);
/* Wipes the moving line, so that other output can be printed. */
void progress_clear(struct progress *p);
