/* What is told of the commands that ran last. */
#include "daemon/registry/commands.h"

#include <string.h>

#include "tap.h"

static struct last_command last_of(struct commands *c, unsigned vm)
{
	struct last_command l;

	commands_last(c, vm, &l);
	return l;
}

int main(void)
{
	static char many[4096];
	struct commands c;

	commands_init(&c);
	tap_ok(!*last_of(&c, 3).text && last_of(&c, 3).running == 0, "nothing at first");
	commands_end(&c, 3);
	commands_begin(&c, 3, (const char *[]){"ls", "-l", "", "a b", NULL});
	STR_IS(last_of(&c, 3).text, "ls -l  a b");
	commands_begin(&c, 3, (const char *[]){"printf", "\033[2J\n", NULL});
	tap_ok(!strchr(last_of(&c, 3).text, '\033') && !strchr(last_of(&c, 3).text, '\n'),
		"bytes that a terminal obeys are escaped: %s", last_of(&c, 3).text);
	tap_ok(last_of(&c, 3).running == 2, "two run");
	commands_end(&c, 3);
	commands_end(&c, 3);
	commands_end(&c, 3);
	tap_ok(last_of(&c, 3).running == 0, "none runs");
	memset(many, 'x', sizeof(many) - 1);
	for (size_t n = 150; n < 165; n++) {
		many[n] = 0;
		commands_begin(&c, 0, (const char *[]){many, many, many, NULL});
		OK(strlen(last_of(&c, 0).text) < sizeof(last_of(&c, 0).text));
		many[n] = 'x';
	}
	tap_ok(!*last_of(&c, 1).text, "others have theirs");
	commands_done(&c);
	return tap_done();
}
