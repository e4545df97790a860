/* tool-output.h - parses the output of recipes and qemu-img, line by line. Pure, bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOOL_OUTPUT_LINE_MAX = 400 }; /* longer lines are cut */

/* Splits bytes into lines that end with \n or \r. Zero-initialised is empty. */
struct tool_output {
	char line[TOOL_OUTPUT_LINE_MAX + 1]; /* the incomplete line; raw bytes without NULs */
	size_t len;
	char last[TOOL_OUTPUT_LINE_MAX + 1]; /* the last complete line that was not blank */
};
/* Adds bytes; calls on_line (which may be NULL) for each complete line that is not blank. */
void tool_output_add(struct tool_output *w, const char *p, size_t n,
	void (*on_line)(void *arg, const char *line), void *arg);
/* Ends the input, which completes the last line. Returns w->last, "" if there was no line. */
const char *tool_output_end(
	struct tool_output *w, void (*on_line)(void *arg, const char *line), void *arg);

/* Parses "progress DONE TOTAL text"; *ret_text points into line. False: it is another line. */
bool tool_output_progress(
	const char *line, uint64_t *ret_done, uint64_t *ret_total, const char **ret_text);
/* Parses qemu-img's "(12.34/100%)" to hundredths of a percent. */
bool tool_output_percent(const char *line, unsigned *ret_hundredths);
