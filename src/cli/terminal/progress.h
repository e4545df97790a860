/*
 * progress.h - news on stderr while something takes long: one moving line on a terminal that is not
 * dumb, a line for each new step otherwise, nothing with --quiet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/screen.h"

enum progress_style { PROGRESS_OFF, PROGRESS_LINES, PROGRESS_LIVE };

struct progress {
	enum progress_style style;
	bool colours;
	bool bytes;     /* done and total are bytes: shown as such, with a rate */
	char text[160]; /* escaped */
	uint64_t done, total;
	int64_t started_ns, drawn_ns;
	unsigned frame;
	bool drawn; /* something is on the line */
};

void progress_init(struct progress *p, const struct screen *s, bool quiet);
/* text comes from the daemon: it is escaped here. */
void progress_update(struct progress *p, const char *text, uint64_t done, uint64_t total);
/* Nothing new, but time passes: turns the spinner. */
void progress_tick(struct progress *p);
/* Wipes the moving line, so that other output can be printed. */
void progress_clear(struct progress *p);
