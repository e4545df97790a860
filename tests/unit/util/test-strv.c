#include "util/strv.h"

#include <stdbool.h>

#include "tap.h"

int main(void)
{
	auto_strv struct strv s = {0};
	bool good = true;
	char want[16];
	struct err e;

	OK(strv_check(&s, &e) < 0); /* nothing was added, so there is no vector to pass on */
	strv_add(&s, "first");
	strv_addf(&s, "%s=%d", "n", 2);
	strv_add_all(&s, "a", "", "c", NULL);
	OK(strv_check(&s, &e) == 0 && s.n == 5 && !s.v[5]);
	STR_IS(s.v[1], "n=2");
	STR_IS(s.v[3], "");
	for (int i = 0; i < 1000; i++)
		strv_addf(&s, "%d", i);
	for (int i = 0; i < 1000; i++) {
		snprintf(want, sizeof(want), "%d", i);
		good &= strcmp(s.v[5 + i], want) == 0;
	}
	OK(good && s.n == 1005 && !s.v[1005]);
	STR_IS(s.v[0], "first");
	s.failed = 1; /* as if memory had run out: the failure is kept */
	strv_add(&s, "more");
	OK(s.n == 1005 && strv_check(&s, &e) < 0 && e.kind == ERR_INTERNAL);
	strv_free(&s);
	OK(!s.v && s.n == 0);
	return tap_done();
}
