/* screen.h - what stdout and stderr are (terminals, colours, width), and text that is safe to print
 * on them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "util/buf.h"

struct screen {
	bool out_tty, err_tty;
	bool err_live;               /* a terminal whose last line can be redrawn */
	bool out_colour, err_colour; /* a terminal, and NO_COLOR does not forbid it */
	unsigned width; /* columns of the terminal; 0: stdout is no terminal, do not cut */
};

void screen_init(struct screen *s);

/* Escape sequences, or "" without colours. */
enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_DIM, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW };
const char *colour_on(bool colours, enum colour c);
const char *colour_off(bool colours);

/* Escapes text that may come from a guest; malloc'd. NULL, which prints as nothing: out of
 * memory. */
char *text_safe(const char *s);
/* Prints text of several lines, escaped, those after the first indented. */
void print_safe_lines(FILE *f, const char *s);
/* 1536 -> "1.5 KiB". */
void text_size(double bytes, char out[static 24]);
/* Seconds -> "45s", "12m", "3h", "8d". */
void text_age(double seconds, char out[static 24]);

/* Makes a guest's output harmless for a terminal: control bytes other than newline and tab become
 * \xNN. An incomplete character at the end of a piece is kept for the next piece. */
struct tty_filter {
	char tail[4];
	size_t tail_len;
};
int tty_filter_add(struct tty_filter *f, struct bytes in, struct buf *out, struct err *e);

/* Writes all to a blocking fd. */
int write_out(int fd, struct bytes data, struct err *e);
/* Prints a JSON document and a newline on stdout: indented on a terminal, compact otherwise. */
int print_json(const struct screen *s, const json_t *j, struct err *e);
/* Fails if something that was printed did not reach stdout. */
int check_stdout(struct err *e);
