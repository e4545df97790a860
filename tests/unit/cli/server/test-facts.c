#include <string.h>

#include "cli/server/facts.h"
#include "tap.h"
#include "util/auto.h"

#define PRINT                                                                                      \
	"AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:"  \
	"77:88:99"

static int parse(const char *text, struct server_facts *ret, struct err *e)
{
	return facts_parse((struct bytes){(const uint8_t *)text, strlen(text)}, ret, e);
}

static void test_good(void)
{
	struct server_facts f;
	struct err e;

	OK(parse("node=proxmox9\nfingerprint=" PRINT "\npassword=0123456789abcdef0123\n", &f, &e) ==
		0);
	STR_IS(f.node, "proxmox9");
	STR_IS(f.fingerprint, PRINT);
	STR_IS(f.password, "0123456789abcdef0123");
	/* Other lines are somebody else's, and the last needs no end. */
	OK(parse("hello\n\npassword=x\nnode=a-1\nfingerprint=AA:00", &f, &e) == 0);
	STR_IS(f.node, "a-1");
}

static void test_a_guest_that_lies(void)
{
	static const char *const wrong[][2] = {
		{"", "node= is missing"},
		{"node=a\nfingerprint=AA\n", "password= is missing"},
		{"node=a;reboot\nfingerprint=AA\npassword=x\n", "node= is not what"},
		{"node=\nfingerprint=AA\npassword=x\n", "node= is not what"},
		{"node=a\nfingerprint=AA\npassword=$(id)\n", "password= is not what"},
		{"node=a\nfingerprint=AA`id`\npassword=x\n", "fingerprint= is not what"},
		{"node=a\nfingerprint=AA\npassword=x\npassword='\n", "password= is not what"},
		{"node=a\r\nfingerprint=AA\npassword=x\n", "node= is not what"},
		{"node=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
			"node= is not what"},
	};
	struct server_facts f;
	struct err e;

	for (unsigned i = 0; i < ARRAY_LEN(wrong); i++)
		tap_ok(parse(wrong[i][0], &f, &e) == -1 && strstr(e.msg, wrong[i][1]), "%s",
			wrong[i][1]);
	OK(facts_parse((struct bytes){(const uint8_t *)"node=a\0b\n", 9}, &f, &e) == -1);
}

int main(void)
{
	test_good();
	test_a_guest_that_lies();
	return tap_done();
}
