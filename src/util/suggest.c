#include "util/suggest.h"

#include <string.h>

enum { WORD_MAX = 32 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) between two words of at most WORD_MAX. */
static unsigned edits(const char *a, size_t n, const char *b, size_t m)
{
	unsigned d[WORD_MAX + 1][WORD_MAX + 1];

	for (unsigned i = 0; i <= n; i++)
		d[i][0] = i;
	for (unsigned j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1,
				d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	}
	return d[n][m];
}

void suggest_consider(struct suggestion *best, const char *typed, size_t len, const char *known)
{
	size_t known_len = strlen(known);
	unsigned distance, most;

	if (len < 2 || len > WORD_MAX || known_len > WORD_MAX)
		return;
	most = len < 4 ? 1 : 2; /* two edits may change all of a short word */
	distance = edits(typed, len, known, known_len);
	/* The beginning of a known word counts as a typo of it, too. */
	if (distance > most && len >= 3 && strncmp(typed, known, len) == 0)
		distance = most;
	if (distance > most || (best->word && distance >= best->distance))
		return;
	*best = (struct suggestion){known, distance};
}
