/*
 * helper.c - moat-helper: the guard and the holder of a network by themselves. Both are started for
 * each sandbox, and the libraries that the rest of moat is linked with take far longer to load than
 * these two take to begin.
 */
#include <stdio.h>
#include <string.h>

#include "net/holder.h"
#include "util/guard.h"

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (strcmp(part, "guard") == 0)
		return guard_main(argc - 1, argv + 1);
	if (strcmp(part, "net-holder") == 0)
		return holder_main(argc - 1, argv + 1);
	fprintf(stderr, "moat-helper is internal to moat\n");
	return 2;
}
