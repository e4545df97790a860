/* table.h - prints rows and columns, cut to the terminal's width. */
#pragma once

#include "cli/terminal/screen.h"

struct table;

/* heads: NULL at the end; borrowed. */
int table_new(const char *const *heads, struct table **ret, struct err *e);
void table_free(struct table *t); /* NULL is fine */
static inline void auto_tablep(struct table **t)
{
	table_free(*t);
}
#define auto_table __attribute__((cleanup(auto_tablep)))

/* Adds a row: one cell for every head, copied and escaped. */
int table_row(struct table *t, const char *const *cells, struct err *e);
/* Colours the first column of the last row. */
void table_colour(struct table *t, enum colour c);
/* width 0 of the screen: nothing is cut. */
void table_print(const struct table *t, const struct screen *s, FILE *to);
