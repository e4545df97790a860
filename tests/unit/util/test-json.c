#include "util/json.h"

#include "tap.h"
#include "util/auto.h"

static struct bytes text(const char *s)
{
	return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static void test_parse(void)
{
	static const char *const bad[] = {"", "[]", "3", "null", "{", "{} {}", "{\"a\":1,\"a\":2}",
		"{\"a\":\"\\u0000\"}", "{\"a\":\"\xff\"}", "{'a':1}", "\"text\""};
	auto_json json_t *j = NULL;
	struct err e;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		tap_ok(json_parse_object(text(bad[i]), &j, &e) < 0 && e.kind == ERR_INVALID && !j,
			"bad object %u is refused", i);
	OK(json_parse_object((struct bytes){0}, &j, &e) < 0);
	OK(json_parse_object(text("{\"a\": [1]}\n"), &j, &e) == 0);
	OK(json_array_size(json_object_get(j, "a")) == 1);
}

/* Deep nesting is refused before it can exhaust the stack. */
static void test_deep(void)
{
	auto_buf struct buf b = {0};
	json_t *j = NULL;
	struct err e;

	buf_add_str(&b, "{\"a\":", &e);
	for (int i = 0; i < 500000; i++)
		buf_add(&b, "[", 1, &e);
	OK(json_parse_object(buf_bytes(&b), &j, &e) < 0 && e.kind == ERR_INVALID);
}

static void fill_array(struct buf *b, int n)
{
	struct err e;

	buf_drop(b, b->len);
	buf_add_str(b, "{\"a\":[0", &e);
	for (int i = 1; i < n; i++)
		buf_add_str(b, ",{}", &e);
	buf_add_str(b, "]}", &e);
}

/* Three bytes of text take two hundred in memory: too many values are refused before they are
 * parsed. */
static void test_many(void)
{
	auto_json json_t *j = NULL, *small = NULL;
	auto_buf struct buf b = {0};
	struct err e;

	fill_array(&b, 5000);
	OK(json_parse_small(buf_bytes(&b), &small, &e) == 0);
	fill_array(&b, 20000);
	OK(json_parse_small(buf_bytes(&b), &j, &e) < 0 && e.kind == ERR_INVALID && !j);
	OK(json_parse_object(buf_bytes(&b), &j, &e) == 0);
	OK(json_array_size(json_object_get(j, "a")) == 20000);
	json_decref(j);
	j = NULL;
	fill_array(&b, 600000);
	OK(json_parse_object(buf_bytes(&b), &j, &e) < 0 && e.kind == ERR_INVALID && !j);
	OK(json_parse_small(text("{\"a\":\"[[{{,,,\"}"), &j, &e) == 0);
}

static void test_get(void)
{
	auto_json json_t *j = NULL;
	const char *name = NULL;
	int flag = 7, n = 0;
	struct err e;

	OK(json_parse_object(text("{\"name\":\"x\",\"n\":3}"), &j, &e) == 0);
	OK(json_get(j, "args", &e, "{s:s, s?b, s:i}", "name", &name, "flag", &flag, "n", &n) == 0);
	STR_IS(name, "x");
	OK(n == 3 && flag == 7);
	OK(json_get(j, "args", &e, "{s:s}", "name", &name) < 0 && e.kind == ERR_INVALID);
	STR_IS(e.msg, "args: unknown member: n");
	OK(json_get(j, "args", &e, "{s:s*}", "name", &name) == 0);
	OK(json_get(j, "args", &e, "{s:i, s:i}", "name", &n, "n", &n) < 0);
	STR_IS(e.msg, "args.name: Expected integer, got string");
	OK(json_get(j, "args", &e, "{s:s, s?b, s?s}", "name", &name, "flag", &flag, "n", &name) <
		0);
	STR_IS(e.msg, "args.n: Expected string, got integer");
	OK(json_get(j, "args", &e, "{s:s, s:i, s:s}", "name", &name, "n", &n, "more", &name) < 0);
	OK(strstr(e.msg, "more"));
	OK(json_get(json_object_get(j, "n"), "args.n", &e, "{}") < 0);
	STR_IS(e.msg, "args.n: not an object");
	OK(json_get(NULL, "args", &e, "{}") < 0);
}

static void test_make(void)
{
	auto_json json_t *j = NULL, *bad = NULL;
	auto_free char *s = NULL;
	struct err e;

	OK(json_make(&j, &e, "{s:s, s:[i, b]}", "k", "v\n", "l", 1, 1) == 0);
	OK(json_to_str(j, &s, &e) == 0);
	STR_IS(s, "{\"k\":\"v\\n\",\"l\":[1,true]}");
	OK(json_make(&bad, &e, "{s:s}", "k", "\xff") < 0 && e.kind == ERR_INTERNAL && !bad);
}

static void test_text(void)
{
	auto_json json_t *good = json_text("gr\xc3\xbc\xc3\x9f\n"), *bad = json_text("a\xff\nb");

	STR_IS(json_string_value(good), "gr\xc3\xbc\xc3\x9f\n");
	STR_IS(json_string_value(bad), "a\\xff\\x0ab");
}

int main(void)
{
	test_parse();
	test_deep();
	test_many();
	test_get();
	test_make();
	test_text();
	return tap_done();
}
