/* What comes from a guest through a Proxmox VE server, and what goes there: the pure parts. */

#include "wire/ascii.h"
#include "driver/proxmox/guest/agent-transport.h"
#include "driver/proxmox/guest/rest.h"
#include "driver/proxmox/guest/term.h"
#include "driver/proxmox/guest/websocket.h"
#include "tap.h"
#include "util/auto.h"
#include "util/json.h"

static struct err e;

static int parse(const char *text, struct qga_exit *ret)
{
	auto_json json_t *value = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

	return pve_parse_status(value, ret, &e);
}

static void test_status(void)
{
	auto_qga_exit struct qga_exit x = {0};

	OK(parse("{\"exited\": 0}", &x) == 0);
	OK(parse("{\"exited\": 1, \"exitcode\": 3, \"out-data\": \"a\\u0000\\u00e9\\u00ff\"}",
		   &x) == 1);
	OK(x.code == 3 && x.out.len == 4 && memcmp(buf_data(&x.out), "a\0\xe9\xff", 4) == 0);
	qga_exit_free(&x);
	OK(parse("{\"exited\": \"1\", \"signal\": 9, \"err-data\": \"no\", \"err-truncated\": 1}",
		   &x) == 1);
	OK(x.code == 137 && x.signal == 9 && x.err.len == 2 && x.err_cut && !x.out_cut);
	OK(parse("{\"exited\": 1, \"out-data\": \"\\u0100\"}", &x) < 0);
	OK(parse("{\"exited\": 1, \"out-data\": \"\\u20ac\"}", &x) < 0);
	OK(parse("[]", &x) < 0);
	OK(parse("null", &x) < 0);
}

static void test_trouble(void)
{
	static const struct {
		enum err_kind kind;
		int sys;
		const char *words;
		enum pve_agent_failure want;
	} all[] = {
		{ERR_TIMEOUT, 0, "timed out", PVE_FINAL},
		{ERR_CANCELLED, 0, "cancelled", PVE_FINAL},
		{ERR_BACKEND, 403, "Permission check failed", PVE_FINAL},
		{ERR_BACKEND, 500, "VM 100 is not running", PVE_FINAL},
		{ERR_BACKEND, 500, "QEMU guest agent is not running", PVE_AGENT_DOWN},
		{ERR_BACKEND, 500, "Agent error: Invalid parameter 'pid'", PVE_NO_PID},
		{ERR_UNAVAILABLE, 500, "Agent error: PID 17 does not exist", PVE_NO_PID},
		{ERR_UNAVAILABLE, 500, "Agent error: PID ld does not exist", PVE_NO_PID},
		{ERR_UNAVAILABLE, 500, "Configuration file '1.conf' does not exist", PVE_FINAL},
		{ERR_BACKEND, 500, "VM 100 qga command 'guest-ping' failed - got timeout",
			PVE_UNSURE},
		{ERR_UNAVAILABLE, 596, "Broken pipe", PVE_NO_PROGRAM},
		{ERR_UNAVAILABLE, 502, "Bad gateway", PVE_UNSURE},
		{ERR_UNAVAILABLE, PVE_NO_ANSWER, "connection lost", PVE_UNSURE},
		{ERR_UNAVAILABLE, PVE_NOT_SENT, "no connection", PVE_FINAL},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct err why;

		err_set(&why, all[i].kind, "%s", all[i].words);
		why.sys = all[i].sys;
		tap_ok(pve_agent_failure(&why) == all[i].want, "%s", all[i].words);
	}
}

static void test_text(void)
{
	auto_buf struct buf b = {0};
	const char *const words[] = {"it's", "", "a b", NULL};
	char *text;

	OK(pve_latin1("a\xc3\xa9", 3, &b, &e) == 0);
	OK(b.len == 5 && memcmp(buf_data(&b), "a\xc3\x83\xc2\xa9", 5) == 0);
	buf_free(&b);
	OK(pve_quote(&b, words, &e) == 0);
	text = buf_take_str(&b);
	STR_IS(text, "'it'\\''s' '' 'a b' ");
	free(text);
}

static void test_spilled(void)
{
	char id[33];
	unsigned parts[2];

	OK(pve_parse_spilled("/tmp/moat-spool/0a1b 2 0", "/tmp/moat-spool", id, parts));
	OK(strcmp(id, "0a1b") == 0 && parts[0] == 2 && parts[1] == 0);
	OK(!pve_parse_spilled("/etc/0a1b 2 0", "/tmp/moat-spool", id, parts));
	OK(!pve_parse_spilled("/tmp/moat-spool/../x 2 0", "/tmp/moat-spool", id, parts));
	OK(!pve_parse_spilled("/tmp/moat-spool/0a1b 2 0 ", "/tmp/moat-spool", id, parts));
	OK(!pve_parse_spilled("/tmp/moat-spool/0a1b 999 0", "/tmp/moat-spool", id, parts));
	OK(!pve_parse_spilled("/tmp/moat-spool", "/tmp/moat-spool", id, parts));
}

static void add(struct buf *b, struct wire_msg m, const char *body)
{
	uint8_t head[FRAME_HEADER + WIRE_HEAD_MAX];
	size_t n = wire_encode(&m, head + FRAME_HEADER);

	frame_encode_header(head, (uint32_t)n, (uint32_t)strlen(body));
	buf_add(b, head, FRAME_HEADER + n, &e);
	buf_add(b, body, strlen(body), &e);
}

static int keep(void *arg, int stream, struct bytes data, struct err *why)
{
	(void)stream;
	return buf_add(arg, data.p, data.len, why);
}

static void test_answer(void)
{
	const struct pve_answer_rules rules = {
		.end = WIRE_EXIT, .streams = 1 << WIRE_STDOUT | 1 << WIRE_STDERR, .max = 4};
	auto_buf struct buf b = {0}, got = {0};
	struct wire_msg data = {.type = WIRE_DATA, .id = 1, .stream = WIRE_STDOUT};
	struct wire_msg end = {.type = WIRE_EXIT, .id = 1, .code = 7, .how = WIRE_EXITED};
	struct pve_answer told;

	add(&b, data, "ab");
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) < 0); /* no end */
	OK(e.kind == ERR_UNAVAILABLE);
	add(&b, end, "");
	buf_free(&got);
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) == 0);
	OK(got.len == 2 && told.end.code == 7 && told.got[WIRE_STDOUT] == 2);
	b.len--;
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) < 0); /* cut off */
	buf_free(&b);
	add(&b, data, "abcde");
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) < 0); /* too much */
	buf_free(&b);
	data.stream = WIRE_BODY;
	add(&b, data, "x");
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) < 0);
	buf_free(&b);
	end.id = 2;
	add(&b, end, "");
	OK(pve_read_answer(buf_bytes(&b), &rules, keep, &got, &told, &e) < 0);
}

static void test_term(void)
{
	struct ascii_reader reader = {.side = ASCII_TO_GUEST};
	struct term_codec c = {.reader = &reader};
	auto_buf struct buf frames = {0}, out = {0};
	static uint8_t bytes[3000];
	size_t at = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	OK(term_encode(&c, (struct bytes){bytes, sizeof(bytes)}, &frames, &e) == 0);
	OK(c.number == 2);
	/* Two frames with a length of two bytes; the key is 0, so the text is in plain sight. */
	while (at < frames.len) {
		const uint8_t *p = buf_data(&frames) + at;
		size_t n = (size_t)p[2] << 8 | p[3];
		const char *colon = memchr(p + 10, ':', 16);

		OK(term_decode(&c,
			   (struct bytes){(const uint8_t *)colon + 1,
				   n - (size_t)((const uint8_t *)colon + 1 - (p + 8))},
			   &out, &e) == 0);
		at += 8 + n;
	}
	OK(out.len == sizeof(bytes) && memcmp(buf_data(&out), bytes, sizeof(bytes)) == 0);
	buf_free(&out);
	OK(term_decode(&c, (struct bytes){(const uint8_t *)"login: \x1b[7m\r\n", 13}, &out, &e) ==
			0 &&
		out.len == 0);
}

int main(void)
{
	test_status();
	test_trouble();
	test_text();
	test_spilled();
	test_answer();
	test_term();
	return tap_done();
}
