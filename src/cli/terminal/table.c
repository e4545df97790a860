#include "cli/terminal/table.h"

#include <stdlib.h>
#include <string.h>

#include "util/auto.h"

enum { GAP = 2, COLUMNS_MAX = 16, COLUMN_MIN = 4 };

struct row {
	char **cells;
	enum colour colour;
};

struct table {
	const char *const *heads;
	unsigned columns, n_rows, cap;
	struct row *rows;
};

int table_new(const char *const *heads, struct table **ret, struct err *e)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return err_oom(e);
	t->heads = heads;
	while (heads[t->columns] && t->columns < COLUMNS_MAX)
		t->columns++;
	*ret = t;
	return 0;
}

static void cells_free(struct table *t, char **cells)
{
	for (unsigned i = 0; cells && i < t->columns; i++)
		free(cells[i]);
	free(cells);
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < t->n_rows; i++)
		cells_free(t, t->rows[i].cells);
	free(t->rows);
	free(t);
}

static int make_room(struct table *t, struct err *e)
{
	unsigned cap = t->cap ? 2 * t->cap : 16;
	struct row *rows;

	if (t->n_rows < t->cap)
		return 0;
	rows = realloc(t->rows, cap * sizeof(*rows));
	if (!rows)
		return err_oom(e);
	t->rows = rows;
	t->cap = cap;
	return 0;
}

int table_row(struct table *t, const char *const *cells, struct err *e)
{
	char **copies;

	if (make_room(t, e) < 0)
		return -1;
	copies = calloc(t->columns, sizeof(*copies));
	if (!copies)
		return err_oom(e);
	for (unsigned i = 0; i < t->columns; i++) {
		copies[i] = text_safe(cells[i]);
		if (!copies[i]) {
			cells_free(t, copies);
			return err_oom(e);
		}
	}
	t->rows[t->n_rows++] = (struct row){.cells = copies};
	return 0;
}

void table_colour(struct table *t, enum colour c)
{
	if (t->n_rows)
		t->rows[t->n_rows - 1].colour = c;
}

/* The number of characters, which is near enough to columns for the names that people choose. */
static unsigned text_width(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void measure(const struct table *t, unsigned *widths)
{
	for (unsigned c = 0; c < t->columns; c++) {
		widths[c] = text_width(t->heads[c]);
		for (unsigned r = 0; r < t->n_rows; r++) {
			unsigned w = text_width(t->rows[r].cells[c]);

			if (w > widths[c])
				widths[c] = w;
		}
	}
}

/* Narrows the widest columns until rows fit; not the first, whose content people copy. */
static void fit(const struct table *t, unsigned *widths, unsigned screen)
{
	for (;;) {
		unsigned total = GAP * (t->columns - 1), widest = t->columns > 1 ? 1 : 0;

		for (unsigned c = 0; c < t->columns; c++) {
			total += widths[c];
			if (c > 0 && widths[c] > widths[widest])
				widest = c;
		}
		if (total <= screen || widths[widest] <= COLUMN_MIN)
			return;
		widths[widest]--;
	}
}

/* Prints at most width characters; pads unless it is the last column. */
static void print_cell(const char *s, unsigned width, bool last, FILE *to)
{
	unsigned have = text_width(s), shown = 0, take = have > width ? width - 1 : have;

	for (; *s; s++) {
		shown += ((unsigned char)*s & 0xc0) != 0x80;
		if (shown > take)
			break;
		fputc(*s, to);
	}
	if (have > width)
		fputs("…", to);
	for (unsigned i = have < width ? have : width; i < width + GAP && !last; i++)
		fputc(' ', to);
}

void table_print(const struct table *t, const struct screen *s, FILE *to)
{
	unsigned widths[COLUMNS_MAX];

	measure(t, widths);
	if (s->width)
		fit(t, widths, s->width);
	fputs(colour_on(s->out_colour, COLOUR_BOLD), to);
	for (unsigned c = 0; c < t->columns; c++)
		print_cell(t->heads[c], widths[c], c + 1 == t->columns, to);
	fputs(colour_off(s->out_colour), to);
	fputc('\n', to);
	for (unsigned r = 0; r < t->n_rows; r++) {
		enum colour colour = t->rows[r].colour;

		for (unsigned c = 0; c < t->columns; c++) {
			bool painted = c == 0 && colour != COLOUR_NONE && s->out_colour;

			fputs(colour_on(painted, colour), to);
			print_cell(t->rows[r].cells[c], widths[c], c + 1 == t->columns, to);
			fputs(colour_off(painted), to);
		}
		fputc('\n', to);
	}
}
