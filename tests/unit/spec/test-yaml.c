#include "spec/yaml.h"

#include "tap.h"
#include "util/auto.h"
#include "util/json.h"
#include "util/str.h"

static int read_bytes(const char *text, size_t len, char **ret, struct err *e)
{
	auto_json json_t *j = NULL;

	if (spec_text_to_json((struct bytes){(const uint8_t *)text, len}, &j, e) < 0)
		return -1;
	return json_to_str(j, ret, e);
}

/* Reads the text; without json, it must be refused with the message. */
static void reads_as(const char *text, const char *json, const char *message)
{
	auto_free char *got = NULL;
	struct err e = {0};
	int rc = read_bytes(text, strlen(text), &got, &e);
	char shown[256];

	str_escape(text, strlen(text), shown, sizeof(shown)); /* a TAP name is one line */
	tap_str(rc < 0 ? e.msg : got, json ? json : message, shown);
}

static void test_scalars(void)
{
	reads_as("[1, -1, +1, 0, 007, 0x1F, 0o17]", "[1,-1,1,0,7,31,15]", NULL);
	reads_as("[1.5, .5, 5., -.5e1, 1e2]", "[1.5,0.5,5.0,-5.0,100.0]", NULL);
	reads_as("[true, True, TRUE, false]", "[true,true,true,false]", NULL);
	reads_as("[yes, no, on, off, y, tRUE]", "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"tRUE\"]",
		NULL);
	reads_as("[null, Null, ~, ]", "[null,null,null]", NULL);
	reads_as("[0b1, 0o8, 0x, 1e, ., -, +, 1_0, 1:30]",
		"[\"0b1\",\"0o8\",\"0x\",\"1e\",\".\",\"-\",\"+\",\"1_0\",\"1:30\"]", NULL);
	reads_as(
		"['1', \"true\", !!str 1, ! 2, !!str ]", "[\"1\",\"true\",\"1\",\"2\",\"\"]", NULL);
	reads_as("|\n a\n b\n", "\"a\\nb\\n\"", NULL);
	reads_as("9223372036854775807", "9223372036854775807", NULL);
	reads_as("9223372036854775808", NULL, "line 1, column 1: the number is too large");
	reads_as("a: 0xfffffffffffffffff", NULL, "line 1, column 4: the number is too large");
	reads_as("1e999", NULL, "line 1, column 1: the number is too large");
	reads_as("!!int 3", NULL,
		"line 1, column 1: the tag tag:yaml.org,2002:int is not supported");
}

static void test_collections(void)
{
	reads_as("a: 1\nb:\n- c\n- {d: e}\n", "{\"a\":1,\"b\":[\"c\",{\"d\":\"e\"}]}", NULL);
	reads_as("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}", NULL);
	reads_as("{\"a\": \"\\ud83d\\ude00\\/\"}", "{\"a\":\"\xf0\x9f\x98\x80/\"}", NULL);
	reads_as("a: &x 1\n", "{\"a\":1}", NULL);
	reads_as("a: 1\nb: 2\n a: 3\n", NULL,
		"line 3, column 3: not valid YAML: mapping values are not allowed in this context");
	reads_as("{a: 1, a: 2}", NULL, "line 1, column 8: \"a\" is there twice");
	reads_as("{\"a\": 1, \"a\": 2}", NULL,
		"line 1, column 12: not valid JSON: duplicate object key near '\"a\"'");
	reads_as("{", NULL,
		"line 1, column 1: not valid JSON: string or '}' expected near end of file");
	reads_as(
		"a: *b", NULL, "line 1, column 4: aliases (*name) are not supported; write it out");
	reads_as("", NULL, "the spec is empty");
	reads_as("--- a\n--- b\n", NULL, "line 2, column 1: a second document; a spec is one");
}

static void test_depth(void)
{
	char text[2 * SPEC_DEPTH_MAX + 3] = "";
	auto_free char *got = NULL;
	struct err e;

	memset(text, '[', SPEC_DEPTH_MAX);
	memset(text + SPEC_DEPTH_MAX, ']', SPEC_DEPTH_MAX);
	OK(read_bytes(text, strlen(text), &got, &e) == 0);
	memset(text, '[', SPEC_DEPTH_MAX + 1);
	memset(text + SPEC_DEPTH_MAX + 1, ']', SPEC_DEPTH_MAX + 1);
	OK(read_bytes(text, strlen(text), &got, &e) < 0);
	STR_IS(e.msg, "line 1, column 33: nested more than 32 levels deep");
}

static void test_bytes(void)
{
	const char utf16[] = "\xff\xfe"
			     "a\0b\0";
	auto_free char *got = NULL, *large = calloc(1, SPEC_TEXT_MAX + 2);
	struct err e = {0};

	OK(read_bytes("\xef\xbb\xbf{a: 1}", 9, &got, &e) == 0);
	STR_IS(got, "{\"a\":1}");
	OK(read_bytes("\xef\xbb\xbf", 3, &got, &e) < 0);
	OK(read_bytes(utf16, sizeof(utf16) - 1, &got, &e) < 0 && e.kind == ERR_INVALID);
	OK(read_bytes("a: \xff", 4, &got, &e) < 0);
	STR_IS(e.msg, "byte 3: not valid YAML: invalid leading UTF-8 octet");
	OK(read_bytes("a: b\0c", 6, &got, &e) < 0 && e.kind == ERR_INVALID);
	OK(read_bytes("{\"a\": \"\\u0000\"}", 15, &got, &e) < 0 && e.kind == ERR_INVALID);
	OK(spec_text_to_json((struct bytes){NULL, 0}, NULL, &e) < 0);

	memset(large, ' ', SPEC_TEXT_MAX + 1);
	large[0] = 'a';
	free(got);
	got = NULL;
	OK(read_bytes(large, SPEC_TEXT_MAX, &got, &e) == 0);
	STR_IS(got, "\"a\"");
	OK(read_bytes(large, SPEC_TEXT_MAX + 1, &got, &e) < 0);
	STR_IS(e.msg, "the spec has 1048577 bytes; at most 1048576 are allowed");
}

int main(void)
{
	test_scalars();
	test_collections();
	test_depth();
	test_bytes();
	return tap_done();
}
