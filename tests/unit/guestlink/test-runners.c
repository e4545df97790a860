/* Which runner a guest gets: by what its `uname -m` says, which may be anything. */
#include "guestlink/runners.h"

#include "tap.h"

static char x86[] = "/lib/x86", arm[] = "/lib/arm";

int main(void)
{
	const struct runners both = {{x86, arm}}, one = {{x86, NULL}}, none = {{NULL}};
	struct err e;

	STR_IS(runners_for(&both, "x86_64", &e), x86);
	STR_IS(runners_for(&both, "aarch64", &e), arm);
	STR_IS(runners_for(&one, "x86_64", &e), x86);
	OK(!runners_for(&one, "aarch64", &e) && e.kind == ERR_UNSUPPORTED);
	STR_IS(e.msg, "moat-guest-aarch64 is not installed with moat: apt-get install "
		      "gcc-aarch64-linux-gnu libc6-dev-arm64-cross, then build moat again");
	OK(!runners_for(&none, "x86_64", &e) && e.kind == ERR_UNSUPPORTED);
	OK(!runners_for(&both, "ppc\n64", &e) && e.kind == ERR_UNSUPPORTED);
	STR_IS(e.msg, "moat has no moat-guest for \"ppc\\x0a64\" guests");
	OK(!runners_for(&both, "", &e) && e.kind == ERR_UNSUPPORTED);
	return tap_done();
}
