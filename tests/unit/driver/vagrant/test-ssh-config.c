#include "driver/vagrant/ssh-config.h"

#include "tap.h"
#include "util/auto.h"

static void test_alias(void)
{
	char path[] = "/var/cache/a b/moat-4b7f939591";
	struct vagrant_dir d = {.path = path};
	auto_free char *plain = NULL, *odd = NULL;
	struct err e;

	OK(vagrant_ssh_alias(&d, "web", &plain, &e) == 0);
	STR_IS(plain, "moat-4b7f939591-web");
	/* An alias is neither a pattern nor two names. */
	OK(vagrant_ssh_alias(&d, "we*b ?!\n", &odd, &e) == 0);
	STR_IS(odd, "moat-4b7f939591-we-b----");
}

static void test_config(void)
{
	char path[] = "/var/cache/a b/moat-1";
	struct vagrant_dir d = {.path = path};
	struct vagrant_ssh ssh = {.host = "192.168.121.7",
		.user = "vagrant",
		.port = 2222,
		.keys = {"/home/me/50%/key"},
		.n_keys = 1};
	auto_free char *text = NULL;
	struct err e;

	OK(vagrant_ssh_config(&d, "moat-1-web", &ssh, &text, &e) == 0);
	STR_IS(text, "# Made by moat.\n"
		     "Host moat-1-web\n"
		     "  HostName \"192.168.121.7\"\n"
		     "  User \"vagrant\"\n"
		     "  IdentityFile \"/home/me/50%%/key\"\n"
		     "  HostKeyAlias \"moat-1-web\"\n"
		     "  UserKnownHostsFile \"/var/cache/a b/moat-1/known-hosts\"\n"
		     "  Port 2222\n"
		     "  IdentitiesOnly yes\n"
		     "  StrictHostKeyChecking accept-new\n"
		     "  LogLevel ERROR\n");
}

/* Text of a Vagrantfile must not become other settings. */
static void test_no_way_out_of_a_value(void)
{
	static const char *const bad[] = {"a\" b", "a\\", "a\nProxyCommand evil", "\x01"};
	char path[] = "/d/moat-1";
	struct vagrant_dir d = {.path = path};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		struct vagrant_ssh ssh = {.host = "h", .port = 22};
		auto_free char *text = NULL;
		struct err e;

		snprintf(ssh.user, sizeof(ssh.user), "%s", bad[i]);
		OK(vagrant_ssh_config(&d, "moat-1-web", &ssh, &text, &e) == 0);
		OK(!strstr(text, "User \"") && !strstr(text, "Proxy"));
	}
}

int main(void)
{
	test_alias();
	test_config();
	test_no_way_out_of_a_value();
	return tap_done();
}
