/* Names that a client may choose for a sandbox. */
#include "daemon/registry/name.h"

#include <string.h>

#include "tap.h"

static bool takes(const char *name)
{
	struct err e;

	return name_check(name, &e) == 0;
}

int main(void)
{
	char longest[NAME_LEN_MAX + 2], copy[NAME_SIZE];
	struct err e;

	OK(takes("demo") && takes("d") && takes("Lab_2.old-x") && takes("cafe"));
	OK(!takes("") && !takes("2nd") && !takes("-n") && !takes(".x") && !takes("_x"));
	OK(!takes("a b") && !takes("a:b") && !takes("a/b") && !takes("a\nb") && !takes("\xc3\xa9"));
	OK(name_check("deadbeef01", &e) < 0 && strstr(e.msg, "looks like the id"));
	OK(takes("deadbeef0") && takes("deadbeef0x"));

	memset(longest, 'a', sizeof(longest));
	longest[NAME_LEN_MAX + 1] = 0;
	OK(!takes(longest));
	longest[NAME_LEN_MAX] = 0;
	OK(takes(longest));
	OK(name_of_copy("demo", 12, copy, &e) == 0);
	STR_IS(copy, "demo-12");
	OK(name_of_copy(longest, 256, copy, &e) == 0);
	OK(name_of_copy(
		   "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhh",
		   1, copy, &e) < 0);
	return tap_done();
}
