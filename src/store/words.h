/* words.h - what recipes and qemu-img print while they work, read line by line. Pure, bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_LINE_MAX = 400 }; /* what is longer is cut */

/* Collects bytes into lines that end with \n or \r. Zero-initialised is empty. */
struct words {
	char line[WORDS_LINE_MAX + 1]; /* so far; raw bytes but for NULs */
	size_t len;
	char last[WORDS_LINE_MAX + 1]; /* the last complete line that was not blank */
};
/* Calls on_line (which may be NULL) for each line that is completed, blank ones left out. */
void words_add(struct words *w, const char *p, size_t n,
	void (*on_line)(void *arg, const char *line), void *arg);
/* The end of input completes a line too. The result is w->last, "" if nothing was said. */
const char *words_end(struct words *w, void (*on_line)(void *arg, const char *line), void *arg);

/* "progress DONE TOTAL text"; *ret_text points into line. False: some other line. */
bool words_progress(
	const char *line, uint64_t *ret_done, uint64_t *ret_total, const char **ret_text);
/* qemu-img's "    (12.34/100%)": hundredths of a percent. */
bool words_percent(const char *line, unsigned *ret_hundredths);
