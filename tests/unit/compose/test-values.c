/* What single texts of compose files mean: variables, commands, durations, sizes, ports, files of
 * variables, paths. */
#include "compose/text/envfile.h"
#include "compose/text/interpolate.h"
#include "compose/text/paths.h"
#include "compose/text/ports.h"
#include "compose/text/values.h"
#include "compose/text/words.h"
#include "spec/yaml.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

/* What stands on the right of "!" is the error. */
static void variable(const char *text, const char *want)
{
	auto_json json_t *env = json_pack("{s:s, s:s, s:s}", "A", "a", "EMPTY", "", "_B2", "$A"),
			 *missing = json_object();
	struct interpolation ip = {.env = env, .missing = missing};
	auto_free char *got = NULL;
	struct err e;

	if (interpolate(&ip, text, &got, &e) < 0)
		tap_str(e.msg, want[0] == '!' ? want + 1 : want, text);
	else
		tap_str(got, want, text);
}

static void test_variables(void)
{
	variable("none", "none");
	variable("$A-${A}$A", "a-aa");
	variable("$$A $${A} $$$A", "$A ${A} $a");
	variable("$_B2", "$A"); /* once, not again */
	variable("[$GONE][${GONE}]", "[][]");
	variable("${A:-x}${GONE:-x}${EMPTY:-x}${EMPTY-x}${GONE-x}", "axxx");
	variable("${A:+x}${GONE:+x}${EMPTY:+x}${EMPTY+x}", "xx");
	variable("${GONE:-${EMPTY:-${A}}}", "a");
	variable("${GONE:-a b}c", "a bc");
	variable("${A:?why}${A?why}", "aa");
	variable("${GONE:?say where}", "!the variable GONE has no value: say where");
	variable("${EMPTY?why}", "");
	variable("cost: $5",
		"!cannot understand the variable in \"cost: $5\"; write $$ for a $ itself");
	variable("${A", "!cannot understand the variable in \"${A\"; write $$ for a $ itself");
	variable("${}", "!cannot understand the variable in \"\"; write $$ for a $ itself");
	variable("${A!x}", "!cannot understand the variable in \"A!x\"; write $$ for a $ itself");
	variable("end$", "!cannot understand the variable in \"end$\"; write $$ for a $ itself");
	variable("${G:-${G:-${G:-${G:-${G:-${G:-${G:-${G:-x}}}}}}}}",
		"!variables are nested more than 8 levels deep");
}

static void test_variables_bounded(void)
{
	auto_json json_t *env = json_object(), *missing = json_object(), *list = json_array();
	struct interpolation ip = {.env = env, .missing = missing};
	auto_free char *large = malloc(1 << 20);
	struct err e;

	memset(large, 'x', (1 << 20) - 1);
	large[(1 << 20) - 1] = '\0';
	json_object_set_new(env, "L", json_string(large));
	for (int i = 0; i < 100; i++)
		json_array_append_new(list, json_string("$L"));
	OK(interpolate_all(&ip, list, "x", &e) < 0 && e.kind == ERR_LIMIT);
	STR_IS(e.msg, "x[8]: variables stand for more than 8388608 bytes in all");
}

static void words(const char *text, const char *want)
{
	auto_json json_t *got = NULL;
	auto_free char *shown = NULL;
	struct err e;

	if (words_split(text, &got, &e) < 0) {
		tap_str(e.msg, want, text);
		return;
	}
	shown = json_dumps(got, JSON_COMPACT);
	tap_str(shown, want, text);
}

static void test_words(void)
{
	words("", "[]");
	words("  tail -f\t/dev/null\n", "[\"tail\",\"-f\",\"/dev/null\"]");
	words("/bin/sh -c \"tail -f /dev/null\"", "[\"/bin/sh\",\"-c\",\"tail -f /dev/null\"]");
	words("sh -c 'a; b && c > \"d\"'", "[\"sh\",\"-c\",\"a; b && c > \\\"d\\\"\"]");
	words("a\\ b \"\" '' \"c\\\"\\d\"e", "[\"a b\",\"\",\"\",\"c\\\"\\\\de\"]");
	words("echo $HOME * ~", "[\"echo\",\"$HOME\",\"*\",\"~\"]");
	words("a 'b", "a quote (') has no end");
	words("a \"b\\\"", "a quote (\") has no end");
	words("a \\", "ends with a backslash");
	words("a && b", "\"&\" is for a shell, and there is none; write [sh, -c, \"...\"]");
	words("a > b", "\">\" is for a shell, and there is none; write [sh, -c, \"...\"]");
}

static void duration(const char *json, double want)
{
	auto_json json_t *j = json_loads(json, JSON_DECODE_ANY, NULL);
	double got = -1;
	struct err e;

	if (value_duration(j, &got, &e) < 0)
		got = -1;
	tap_ok(got > want - 1e-9 && got < want + 1e-9, "%s is %g s", json, want);
}

static void size(const char *json, double want)
{
	auto_json json_t *j = json_loads(json, JSON_DECODE_ANY, NULL);
	uint64_t got = 0;
	struct err e;
	int rc = value_bytes(j, &got, &e);

	tap_ok(want < 0 ? rc < 0 : rc == 0 && (double)got == want, "%s is %.0f bytes", json, want);
}

static void test_numbers(void)
{
	duration("\"5s\"", 5);
	duration("\"1m30s\"", 90);
	duration("\"1h0m1.5s\"", 3601.5);
	duration("\"500ms\"", 0.5);
	duration("\"10us\"", 1e-5);
	duration("\"0\"", 0);
	duration("0", 0);
	duration("5", -1);
	duration("\"5\"", -1);
	duration("\"s\"", -1);
	duration("\"5 s\"", -1);
	duration("\"-5s\"", -1);
	duration("\"\"", -1);
	duration("\"99999999999h\"", -1);
	size("\"2g\"", 2147483648.0);
	size("\"0.5gb\"", 536870912);
	size("\"64MiB\"", 67108864);
	size("\"1kb\"", 1024);
	size("\"100 m\"", 104857600);
	size("\"1024\"", 1024);
	size("\"12b\"", 12);
	size("1048576", 1048576);
	size("\"2gib2\"", -1);
	size("\"g\"", -1);
	size("\"1x\"", -1);
	size("\"1bib\"", -1);
	size("-1", -1);
	size("\"99999999999p\"", -1);
	size("null", -1);
}

static void port(const char *json, const char *want)
{
	auto_json json_t *j = json_loads(json, JSON_DECODE_ANY, NULL);
	struct port_range r;
	char got[sizeof(((struct err *)0)->msg)];
	struct err e;

	if (port_read(j, &r, &e) < 0)
		snprintf(got, sizeof(got), "%s", e.msg);
	else
		snprintf(got, sizeof(got), "%u-%u<-%u%s%s", r.port, r.port + r.count - 1, r.host,
			r.udp ? " udp" : "", r.elsewhere ? " elsewhere" : "");
	tap_str(got, want, json);
}

static void test_ports(void)
{
	port("80", "80-80<-0");
	port("\"80\"", "80-80<-0");
	port("\"0:80\"", "80-80<-0");
	port("\"8080:80\"", "80-80<-8080");
	port("\"8080:80/tcp\"", "80-80<-8080");
	port("\"127.0.0.1:8080:80\"", "80-80<-8080");
	port("\"127.0.0.1::80\"", "80-80<-0");
	port("\"0.0.0.0:8080:80\"", "80-80<-8080 elsewhere");
	port("\"[::1]:8080:80\"", "80-80<-8080 elsewhere");
	port("\"53:53/udp\"", "53-53<-53 udp");
	port("\"3000-3005:4000-4005\"", "4000-4005<-3000");
	port("\"4000-4005\"", "4000-4005<-0");
	port("{\"target\": 80, \"published\": \"8080\", \"protocol\": \"tcp\"}", "80-80<-8080");
	port("{\"target\": 80, \"host_ip\": \"10.0.0.1\"}", "80-80<-0 elsewhere");
	port("{\"published\": 80}", "target is missing: the port of the service");
	port("\"3000-3001:4000-4005\"", "2 ports of the host for 6 of the service");
	port("\"4005-4000\"", "a range has 1 to 64 ports");
	port("\"1-1000\"", "a range has 1 to 64 ports");
	port("\"0\"", "\"0\" is not a port or a range of ports");
	port("\"70000\"", "\"70000\" is not a port or a range of ports");
	port("\"http\"", "\"http\" is not a port or a range of ports");
	port("\"80:\"", "\"\" is not a port or a range of ports");
	port("\"80/sctp\"", "the protocol is tcp or udp, not \"sctp\"");
	port("null", "is not a text");
}

static void env_file(const char *text, const char *want)
{
	auto_json json_t *into = json_object();
	auto_free char *shown = NULL;
	struct err e;

	if (envfile_read((struct bytes){(const uint8_t *)text, strlen(text)}, into, &e) < 0) {
		tap_str(e.msg, want, text);
		return;
	}
	shown = json_dumps(into, JSON_COMPACT);
	tap_str(shown, want, text);
}

static void test_env_files(void)
{
	env_file("", "{}");
	env_file("# x\n\nA=b\nexport C = d e  \nE=\r\n", "{\"A\":\"b\",\"C\":\"d e\",\"E\":\"\"}");
	env_file("A=b # c\nB=b#c\n", "{\"A\":\"b\",\"B\":\"b#c\"}");
	env_file(
		"A='x\\n # y'\nB=\"x\\ny\nz\" # c\n", "{\"A\":\"x\\\\n # y\",\"B\":\"x\\ny\\nz\"}");
	env_file("A=1\nA=2", "{\"A\":\"2\"}");
	env_file("A=1\nnonsense\n", "line 2: expected NAME=VALUE");
	env_file("A=\"b\n", "line 1: a quote has no end");
	env_file("A=\xff\n", "line 1: the value of A is not UTF-8");
	env_file("\xff=a\n", "line 1: the name of a variable is not UTF-8");
}

static void path(const char *dir, const char *relative, const char *want)
{
	auto_free char *got = NULL;
	struct err e;

	if (path_below(dir, relative, &got, &e) < 0)
		tap_str(e.msg, want, relative);
	else
		tap_str(got, want, relative);
}

static void test_paths(void)
{
	path("/a/b", ".", "/a/b");
	path("/a/b", "./c//d/", "/a/b/c/d");
	path("/a/b", "../../../c", "/c");
	path("/a/b", "/x/./y/..", "/x");
	path("/a", "..", "/");
	path("/a", "...", "/a/...");
	path("/a", "", "the path is empty");
}

static void yaml(const char *text, const char *want)
{
	auto_json json_t *got = NULL;
	auto_free char *shown = NULL;
	struct err e;

	if (yaml_with_aliases_to_json(
		    (struct bytes){(const uint8_t *)text, strlen(text)}, &got, &e) < 0) {
		tap_str(e.msg, want, text);
		return;
	}
	shown = json_dumps(got, JSON_COMPACT);
	tap_str(shown, want, text);
}

static void test_aliases(void)
{
	yaml("a: &x {b: 1}\nc: *x\n", "{\"a\":{\"b\":1},\"c\":{\"b\":1}}");
	yaml("a: &x {b: 1, c: 1}\nd: {c: 2, <<: *x, e: 3}\n",
		"{\"a\":{\"b\":1,\"c\":1},\"d\":{\"c\":2,\"e\":3,\"b\":1}}");
	yaml("a: &x {b: 1}\nc: &y {b: 2, d: 2}\ne: {<<: [*x, *y]}\n",
		"{\"a\":{\"b\":1},\"c\":{\"b\":2,\"d\":2},\"e\":{\"b\":1,\"d\":2}}");
	yaml("a: {\"<<\": 1}\n", "{\"a\":{\"<<\":1}}");
	yaml("a: {<<: 1}\n", "line 1, column 5: \"<<\" takes a mapping, or a list of them");
	yaml("a: *x\n", "line 1, column 4: there is no anchor &x before it");
	yaml("a: &x [*x]\n", "line 1, column 8: there is no anchor &x before it");
}

/* A text of a few lines that stands for 10^9 values. */
static void test_aliases_bounded(void)
{
	auto_json json_t *got = NULL;
	auto_buf struct buf text = {0};
	struct err e;

	buf_puts(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 10; i++) {
		buf_putf(&text, "a%d: &a%d [", i, i);
		for (int k = 0; k < 10; k++)
			buf_putf(&text, "%s*a%d", k ? "," : "", i - 1);
		buf_puts(&text, "]\n");
	}
	OK(yaml_with_aliases_to_json(buf_bytes(&text), &got, &e) < 0);
	OK(strstr(e.msg, "aliases stand for more than 65536 values in all"));
}

/* One long text, named so often that its copies would fill the memory. */
static void test_long_aliases_bounded(void)
{
	auto_json json_t *got = NULL;
	auto_buf struct buf text = {0};
	struct err e;

	buf_puts(&text, "a: &a ");
	for (int i = 0; i < 8 * 1024; i++)
		buf_puts(&text, "a long text, ");
	buf_puts(&text, "\nb: [");
	for (int i = 0; i < 10000; i++)
		buf_puts(&text, "*a ,");
	buf_puts(&text, "]\n");
	OK(yaml_with_aliases_to_json(buf_bytes(&text), &got, &e) < 0);
	OK(strstr(e.msg, "aliases stand for more than 65536 values in all"));
}

int main(void)
{
	test_variables();
	test_variables_bounded();
	test_words();
	test_numbers();
	test_ports();
	test_env_files();
	test_paths();
	test_aliases();
	test_aliases_bounded();
	test_long_aliases_bounded();
	return tap_done();
}
