/* The runner's pure parts: passwd and group, paths, the ring, the search for HELLO. */

#include <errno.h>
#include <unistd.h>

#include "moat-guest/identity/identity.h"
#include "moat-guest/common/uplink.h"
#include "moat-guest/common/ring.h"
#include "moat-guest/common/users.h"
#include "tap.h"

#define TEXT(s) ((struct user_text){s, sizeof(s) - 1})

static void test_passwd(void)
{
	struct user_text text = TEXT("root:x:0:0:root:/root:/bin/bash\n"
				     "broken line\n"
				     "nobody\n"
				     "huge:x:99999999999:1::/:/bin/sh\n"
				     ":x:7:7:no name:/:\n"
				     "bob:x:1000:1001:Bob,,,:/home/bob:/bin/zsh\n"
				     "bobby:x:1002:1002::/home/bobby:\n"
				     "last:x:5:6:::/bin/false");
	struct user u = {.home = "/", .shell = "/bin/sh"};

	OK(passwd_find(text, "bob", 0, &u));
	OK(u.uid == 1000 && u.gid == 1001);
	STR_IS(u.home, "/home/bob");
	STR_IS(u.shell, "/bin/zsh");
	OK(passwd_find(text, NULL, 0, &u));
	STR_IS(u.name, "root");
	OK(!passwd_find(text, "bo", 0, &u));
	OK(!passwd_find(text, "", 0, &u));
	OK(!passwd_find(text, "huge", 0, &u));
	OK(!passwd_find(text, NULL, 7, &u));
	u = (struct user){.home = "/", .shell = "/bin/sh"};
	OK(passwd_find(text, "last", 0, &u));
	STR_IS(u.home, "/");
	STR_IS(u.shell, "/bin/false");
	OK(!passwd_find(TEXT(""), "root", 0, &u));
}

static void test_group(void)
{
	struct user_text text = TEXT("root:x:0:\nwheel:x:10:bob,alice\nbobs:x:11:bobby\n"
				     "again:x:10:bob\nodd:x:nan:bob\nlast:x:12:alice,bob");
	struct user u = {.name = "bob"};

	group_gather(text, &u);
	OK(u.n_groups == 2 && u.groups[0] == 10 && u.groups[1] == 12);
	OK(group_exists(text, 11));
	OK(!group_exists(text, 13));
	u = (struct user){.name = ""};
	group_gather(text, &u);
	OK(u.n_groups == 0);
}

static void test_paths(void)
{
	struct user u = {.home = "/home/bob"};
	char path[64];

	OK(user_path(&u, "", "a/b", path, sizeof(path)) == 0);
	STR_IS(path, "/home/bob/a/b");
	OK(user_path(&u, "sub", "a", path, sizeof(path)) == 0);
	STR_IS(path, "/home/bob/sub/a");
	OK(user_path(&u, "/srv", "a", path, sizeof(path)) == 0);
	STR_IS(path, "/srv/a");
	OK(user_path(&u, "/srv", "/a", path, sizeof(path)) == 0);
	STR_IS(path, "/a");
	OK(user_path(&u, "/srv", "", path, sizeof(path)) == ENOENT);
	OK(user_path(&u, "/srv", "a", path, 6) == ENAMETOOLONG);
}

/* Writes n bytes i, i+1, ... into the ring, by way of a pipe. */
static void put(struct ring *r, unsigned first, unsigned n)
{
	int fds[2];
	uint8_t c;

	if (pipe(fds) < 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		c = (uint8_t)(first + i);
		if (write(fds[1], &c, 1) != 1)
			abort();
	}
	close(fds[1]);
	while (ring_fill(r, fds[0], SIZE_MAX) > 0)
		continue;
	close(fds[0]);
}

static void test_ring(void)
{
	struct ring r;
	uint8_t out[16];
	size_t got = 0;
	bool right = true;

	ring_init(&r, 10);
	put(&r, 0, 7);
	ring_trim(&r);
	OK(r.len == 7);
	put(&r, 7, 30);
	ring_trim(&r);
	OK(r.len == 10);
	OK(ring_take(&r, out, sizeof(out)) == 10 && out[0] == 27 && out[9] == 36);
	OK(ring_take(&r, out, sizeof(out)) == 0);
	ring_free(&r);

	ring_init(&r, 100000);
	for (unsigned i = 0; i < 10; i++)
		put(&r, i * 30000, 30000);
	OK(r.len == 100000);
	while (ring_take(&r, out, 1) == 1)
		right = right && out[0] == (uint8_t)(200000 + got++);
	OK(right && got == 100000);
	ring_free(&r);

	ring_set_budget(0); /* as if memory had run out: it keeps a little */
	ring_init(&r, 100000);
	put(&r, 0, 50000);
	OK(r.len > 0 && r.len < 10000);
	OK(ring_take(&r, out, 1) == 1 && out[0] == (uint8_t)(50000 - r.len - 1));
	ring_free(&r);
	ring_init(&r, 0);
	put(&r, 0, 10);
	ring_trim(&r);
	OK(r.len == 0);
	ring_free(&r);
}

static void test_hello(void)
{
	uint8_t bytes[256] = {0};
	struct wire_msg m = {.type = WIRE_HELLO, .version = WIRE_VERSION};
	size_t n = wire_encode(&m, bytes + 20 + FRAME_HEADER);

	frame_encode_header(bytes + 20, (uint32_t)n, 0);
	OK(uplink_find_hello(bytes, sizeof(bytes)) == 20);
	OK(uplink_find_hello(bytes, 20) == 20);
	OK(uplink_find_hello(bytes, 21) == 20);
	OK(uplink_find_hello(bytes + 21, 30) == 30);
	OK(uplink_find_hello(bytes, 0) == 0);
}

static bool parses_keys(uint32_t count, const char *body, size_t len, struct identity *ret)
{
	struct wire_msg m = {.type = WIRE_IDENTITY, .count2 = count};
	struct frame f = {.body = (const uint8_t *)body, .body_len = len};

	return identity_parse(&m, &f, ret);
}

static void test_keys(void)
{
	static const char good[] = "\0\0rsa\0secret\0public\0ed25519\0s\0p\0r";
	static const char path[] = "\0\0../x\0secret\0public\0";
	static const char empty[] = "\0\0rsa\0\0public\0";
	struct identity id;

	OK(parses_keys(2, good, sizeof(good) - 1, &id) && id.n_keys == 2 && id.n_random == 1);
	OK(strcmp(id.keys[0].kind, "rsa") == 0 && strcmp(id.keys[0].secret, "secret") == 0);
	OK(strcmp(id.keys[1].public, "p") == 0);
	OK(!parses_keys(3, good, sizeof(good) - 1, &id));
	OK(!parses_keys(4, good, sizeof(good) - 1, &id));
	OK(!parses_keys(1, path, sizeof(path) - 1, &id));
	OK(!parses_keys(1, empty, sizeof(empty) - 1, &id));
}

static bool parses(
	uint32_t flags, uint32_t count, const char *body, size_t len, struct identity *ret)
{
	struct wire_msg m = {
		.type = WIRE_IDENTITY, .flags = flags, .size = 1000000001, .count = count};
	struct frame f = {.body = (const uint8_t *)body, .body_len = len};

	return identity_parse(&m, &f, ret);
}

#define MACS                                                                                       \
	"02:6d:6f:61:74:00\0"                                                                      \
	"02:00:00:00:00:ff\0"
#define ID "0123456789abcdef0123456789abcdef\0"

static void test_identity(void)
{
	static const char good[] = "web-1\0" ID MACS "0123456789abcdef0123456789abcdef";
	static const struct {
		uint32_t flags, count;
		const char *body;
		size_t len;
	} bad[] = {
		{0, 0, "", 0},
		{0, 0, "a", 1},
		{0, 0, "a\0", 2},
		{0, 0, "a b\0\0", 5},
		{0, 0, "a/b\0\0", 5},
		{WIRE_IDENTITY_HOSTNAME, 0, "\0\0", 2},
		{WIRE_IDENTITY_MACHINE, 0, "a\0\0", 3},
		{0, 0,
			"a\0"
			"0123\0",
			7},
		{0, 1, "a\0\0", 3},
		{0, 1,
			"a\0\0"
			"02:6d:6f:61:74:00\0",
			21},
		{0, 1,
			"a\0\0"
			"02:6d:6f:61:74:0g\0"
			"02:00:00:00:00:ff\0",
			39},
		{WIRE_IDENTITY_RANDOM, 0, "a\0\0short", 8},
		{0, WIRE_NICS_MAX + 1, "a\0\0", 3},
	};
	struct identity id;

	OK(parses(WIRE_IDENTITY_ALL, 1, good, sizeof(good) - 1, &id));
	OK(strcmp(id.hostname, "web-1") == 0 && strlen(id.machine_id) == MACHINE_ID_LEN);
	OK(id.n_nics == 1 && id.nics[0].old[1] == 'm' && id.nics[0].mac[5] == 0xff);
	OK(id.n_random == 32 && id.random[0] == '0' && id.now_ns == 1000000001);
	OK(parses(0, 0, "\0\0", 2, &id) && id.n_random == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		tap_ok(!parses(bad[i].flags, bad[i].count, bad[i].body, bad[i].len, &id),
			"bad identity %zu is refused", i);
}

int main(void)
{
	test_identity();
	test_keys();
	test_passwd();
	test_group();
	test_paths();
	test_ring();
	test_hello();
	return tap_done();
}
