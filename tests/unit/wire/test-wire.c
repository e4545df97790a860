#include "wire/wire.h"

#include "tap.h"

static void round_trip(void)
{
	struct wire_msg all[] = {
		{.type = WIRE_HELLO, .version = 7, .nonce = {1, 2, 3, 255}},
		{.type = WIRE_EXEC,
			.id = 5,
			.flags = 7,
			.timeout_ms = 1500,
			.max = 1ull << 40,
			.rows = 24,
			.cols = 80,
			.count = 3,
			.count2 = 9},
		{.type = WIRE_DATA, .id = 0xffffffff, .stream = WIRE_STDERR},
		{.type = WIRE_EOF, .id = 1},
		{.type = WIRE_CREDIT, .id = 2, .count = WIRE_WINDOW},
		{.type = WIRE_SIGNAL, .id = 3, .code = 15},
		{.type = WIRE_RESIZE, .id = 4, .rows = 1, .cols = 65535},
		{.type = WIRE_CANCEL, .id = 4},
		{.type = WIRE_READ, .id = 6, .max = 99},
		{.type = WIRE_WRITE, .id = 7, .flags = 3, .mode = 0755},
		{.type = WIRE_LIST, .id = 8},
		{.type = WIRE_MKDIR, .id = 9, .mode = 0700},
		{.type = WIRE_SYMLINK, .id = 10},
		{.type = WIRE_PING, .id = 11},
		{.type = WIRE_IDENTITY, .id = 12, .flags = 63, .size = 1ull << 60, .count = 32},
		{.type = WIRE_HELLO_REPLY, .version = 1, .nonce = {9}, .code = 4242},
		{.type = WIRE_EXIT,
			.id = 12,
			.how = WIRE_SIGNALED,
			.code = 9,
			.timed_out = 1,
			.size = 1ull << 33,
			.size2 = 2},
		{.type = WIRE_DONE, .id = 13, .code = 2, .size = 77, .mode = 0100644},
		{.type = WIRE_PONG, .id = 14},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint8_t head[WIRE_HEAD_MAX];
		size_t n = wire_encode(&all[i], head);
		struct wire_msg back, cut;
		int same = wire_decode(head, n, &back) && back.type == all[i].type &&
			   back.id == all[i].id && back.flags == all[i].flags &&
			   back.timeout_ms == all[i].timeout_ms && back.count == all[i].count &&
			   back.count2 == all[i].count2 && back.code == all[i].code &&
			   back.mode == all[i].mode && back.rows == all[i].rows &&
			   back.cols == all[i].cols && back.stream == all[i].stream &&
			   back.how == all[i].how && back.timed_out == all[i].timed_out &&
			   back.version == all[i].version && back.max == all[i].max &&
			   back.size == all[i].size && back.size2 == all[i].size2 &&
			   memcmp(back.nonce, all[i].nonce, WIRE_NONCE) == 0;

		tap_ok(same, "type %d survives the wire", all[i].type);
		tap_ok(!wire_decode(head, n - 1, &cut) && !wire_decode(head, n + 1, &cut),
			"type %d of another length is refused", all[i].type);
	}
}

static void bad_values(void)
{
	struct wire_msg exit = {.type = WIRE_EXIT, .id = 1}, got;
	uint8_t head[WIRE_HEAD_MAX];
	size_t n = wire_encode(&exit, head);

	OK(wire_decode(head, n, &got));
	head[5] = WIRE_HOW_COUNT;
	OK(!wire_decode(head, n, &got));
	head[5] = 0;
	head[10] = 2; /* timed_out */
	OK(!wire_decode(head, n, &got));
	head[0] = 200;
	OK(!wire_decode(head, n, &got));
	OK(!wire_decode(head, 0, &got));
}

static void strings(void)
{
	const uint8_t body[] = "one\0\0three\0rest";
	const uint8_t *p = body;
	size_t left = sizeof(body) - 1;

	STR_IS(wire_next_string(&p, &left), "one");
	STR_IS(wire_next_string(&p, &left), "");
	STR_IS(wire_next_string(&p, &left), "three");
	STR_IS(wire_next_string(&p, &left), NULL);
	OK(left == 4);
}

static void entries(void)
{
	struct wire_entry entry = {0100644, 123, -5, "name", "target"}, got;
	uint8_t buf[2 * WIRE_ENTRY_MAX];
	char name[WIRE_ENTRY_MAX];
	size_t n = wire_put_entry(&entry, buf), left;
	const uint8_t *p = buf;

	left = n - 1;
	OK(wire_next_entry(&p, &left, &got) == 0 && left == n - 1 && p == buf);
	left = n;
	OK(wire_next_entry(&p, &left, &got) == 1 && left == 0 && p == buf + n);
	OK(got.mode == 0100644 && got.size == 123 && got.mtime == -5);
	STR_IS(got.name, "name");
	STR_IS(got.target, "target");

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	entry.name = name;
	OK(wire_put_entry(&entry, buf) == 0);
	memset(buf, 'x', sizeof(buf));
	p = buf;
	left = sizeof(buf);
	OK(wire_next_entry(&p, &left, &got) == -1);
}

int main(void)
{
	round_trip();
	bad_values();
	strings();
	entries();
	return tap_done();
}
