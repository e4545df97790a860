/* What a page may ask of the daemon. */
#include "web/allow.h"

#include "tap.h"
#include "util/json.h"

static enum allow judged(const char *text, bool acting)
{
	auto_json json_t *frame = json_loads(text, 0, NULL);
	struct err e;

	return allow_frame(frame, acting, &e);
}

#define REQUEST(op, args) "{\"type\":\"request\",\"id\":1,\"op\":\"" op "\",\"args\":{" args "}}"

static void test_looking(void)
{
	OK(judged(REQUEST("ls", ""), false) == ALLOW_PASS);
	OK(judged(REQUEST("watch", "\"figures\":2"), false) == ALLOW_PASS);
	OK(judged(REQUEST("pool", "\"action\":\"ls\""), false) == ALLOW_PASS);
	OK(judged(REQUEST("exec", "\"sandbox\":\"a\",\"argv\":[\"id\"]"), false) == ALLOW_REFUSE);
	OK(judged(REQUEST("restore", "\"sandbox\":\"a\",\"name\":\"b\""), false) == ALLOW_REFUSE);
	OK(judged(REQUEST("screenshot", "\"sandbox\":\"a\",\"of\":[1,1],\"region\":[0,0,1,1]"),
		   false) == ALLOW_PASS);
	OK(judged(REQUEST("screen", "\"sandbox\":\"a\""), false) == ALLOW_PASS);
	OK(judged(REQUEST("screen", "\"control\":false"), false) == ALLOW_PASS);
	OK(judged(REQUEST("screen", "\"control\":true"), false) == ALLOW_REFUSE);
	OK(judged("{\"type\":\"data\",\"id\":1}", false) == ALLOW_PASS);
}

static void test_acting(void)
{
	static const char *const never[] = {REQUEST("up", ""), REQUEST("standby", ""),
		REQUEST("gc", ""), REQUEST("shutdown", ""), REQUEST("image.import", ""),
		REQUEST("image.export", ""), REQUEST("image.pull", ""), REQUEST("image.commit", ""),
		REQUEST("pool", "\"action\":\"clean\""), REQUEST("pool", "\"access\":{}"),
		REQUEST("rm", "\"all\":true"), REQUEST("rm", "\"labels\":{}"),
		REQUEST("image.build", "\"image\":\"a\",\"steps\":{}"),
		REQUEST("image.build", "\"image\":\"/etc/passwd\""),
		REQUEST("image.build", "\"image\":\"../a\""), REQUEST("ls", "\"\":1"),
		REQUEST("ls", "\" \":1"), REQUEST("ls", "\"sandbox vm\":1"), REQUEST("", ""),
		"{\"type\":\"request\",\"id\":1}"};

	for (unsigned i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		tap_ok(judged(never[i], true) == ALLOW_REFUSE, "%s", never[i]);
	OK(judged(REQUEST("exec", "\"sandbox\":\"a\",\"argv\":[\"id\"]"), true) == ALLOW_PASS);
	OK(judged(REQUEST("rm", "\"sandboxes\":[\"a\"]"), true) == ALLOW_PASS);
	OK(judged(REQUEST("image.build", "\"image\":\"kali2025.4\""), true) == ALLOW_PASS);
}

static void test_frames(void)
{
	OK(judged("{\"type\":\"hello\",\"person\":\"a page\"}", false) == ALLOW_PASS);
	tap_ok(judged("{\"type\":\"hello\"}", false) == ALLOW_BREAK, "a page is for a person");
	OK(judged("{\"type\":\"hello\",\"person\":\"\"}", false) == ALLOW_BREAK);
	OK(judged("{\"type\":\"hello\",\"person\":\"a\",\"urgent\":true}", false) == ALLOW_BREAK);
	OK(judged("{\"type\":\"result\"}", true) == ALLOW_BREAK);
	OK(judged("{}", true) == ALLOW_BREAK);
}

int main(void)
{
	test_looking();
	test_acting();
	test_frames();
	return tap_done();
}
