/*
 * guest-probe - the link into a VM on a Proxmox VE server, without a daemon. For tests and
 * measurements.
 *
 * guest-probe HOST PORT USER REALM NODE VMID RUNNER [kept-line] [windows] [disc]
 * The password is in PROXMOX_PASSWORD. One JSON object a line on stdin, one a line on stdout:
 *
 *	{"do": "exec", "argv": [...], "input": base64, "capture": bytes, "timeout": s,
 *	 "deadline": s}
 *	{"do": "read", "path": ..., "max": bytes}  {"do": "write", "path": ..., "content": base64}
 *	{"do": "list" | "mkdir", "path": ...}      {"do": "forget"}
 * Answers have "seconds" and "requests", what the operation took; "error" and "kind" if it failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/guest/guest.h"
#include "wire/wire.h"
#include "util/auto.h"
#include "wire/base64.h"
#include "util/thread/inbox.h"
#include "util/json.h"

enum { INBOX_MAX = 96 * 1024 * 1024 };

struct result {
	struct buf stream[WIRE_BODY + 1];
	size_t entries;
};

static int keep(void *arg, int stream, struct bytes data, struct err *e)
{
	return buf_add(&((struct result *)arg)->stream[stream], data.p, data.len, e);
}

static int count(void *arg, const struct guest_entry *entry, struct err *e)
{
	(void)entry;
	(void)e;
	((struct result *)arg)->entries++;
	return 0;
}

static int put_input(struct inbox *in, json_t *ask, const char *name, struct err *e)
{
	json_t *text = json_object_get(ask, name);
	auto_buf struct buf b = {0};

	if (text && !base64_decode(json_string_value(text), json_string_length(text), &b))
		return err_set(e, ERR_INVALID, "input is not base64");
	if (b.len && inbox_put(in, GUEST_INPUT_DATA, 0, 0, buf_bytes(&b), e) < 0)
		return -1;
	return inbox_put(in, GUEST_INPUT_EOF, 0, 0, (struct bytes){0}, e);
}

static const char **words(json_t *list)
{
	size_t n = json_array_size(list);
	const char **v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++)
		v[i] = json_string_value(json_array_get(list, i));
	return v;
}

static int do_exec(struct guest *g, const struct op *op, json_t *ask, struct guest_io *io,
	json_t *answer, struct err *e)
{
	auto_free const char **argv = words(json_object_get(ask, "argv"));
	auto_free const char **env = words(json_object_get(ask, "env"));
	struct guest_exec req = {
		.argv = argv,
		.env = env,
		.user = json_string_value(json_object_get(ask, "user")),
		.cwd = json_string_value(json_object_get(ask, "cwd")),
		.timeout = json_number_value(json_object_get(ask, "timeout")),
		.capture_max = (uint64_t)json_integer_value(json_object_get(ask, "capture")),
		.input = json_object_get(ask, "input"),
		.tty = json_is_true(json_object_get(ask, "tty")),
		.rows = 24,
		.cols = 80,
	};
	struct guest_exit exit;

	if (put_input(io->in, ask, "input", e) < 0 || guest_exec(g, op, &req, io, &exit, e) < 0)
		return -1;
	json_object_set_new(answer, "code", json_integer(exit.code));
	json_object_set_new(answer, "timed_out", json_boolean(exit.timed_out));
	json_object_set_new(answer, "message", json_string(exit.message));
	json_object_set_new(answer, "stdout_bytes", json_integer((json_int_t)exit.stdout_bytes));
	return 0;
}

static int do_one(struct guest *g, const struct op *op, json_t *ask, struct guest_io *io,
	json_t *answer, struct err *e)
{
	const char *what = json_string_value(json_object_get(ask, "do"));
	struct guest_path at = {.path = json_string_value(json_object_get(ask, "path")),
		.user = json_string_value(json_object_get(ask, "user"))};
	struct guest_stat st = {0};
	int rc = 0;

	if (strcmp(what, "exec") == 0)
		return do_exec(g, op, ask, io, answer, e);
	if (strcmp(what, "read") == 0) {
		rc = guest_read(g, op, &at,
			(uint64_t)json_integer_value(json_object_get(ask, "max")), io, &st, e);
	} else if (strcmp(what, "write") == 0) {
		struct guest_write req = {.at = at,
			.append = json_is_true(json_object_get(ask, "append")),
			.parents = true};

		if (put_input(io->in, ask, "content", e) < 0)
			return -1;
		rc = guest_write(g, op, &req, io, &st, e);
	} else if (strcmp(what, "list") == 0) {
		rc = guest_list(g, op, &at, count, io->arg, e);
	} else if (strcmp(what, "mkdir") == 0) {
		rc = guest_mkdir(g, op, &at, 0, e);
	} else if (strcmp(what, "forget") == 0) {
		pve_guest_forget(g);
	} else {
		return err_set(e, ERR_INVALID, "do what?");
	}
	json_object_set_new(answer, "size", json_integer((json_int_t)st.size));
	json_object_set_new(answer, "mode", json_integer(st.mode));
	return rc;
}

static void put_stream(json_t *answer, const char *name, const struct buf *b)
{
	char *text = malloc(base64_len(b->len) + 1);

	base64_encode(buf_bytes(b), text);
	json_object_set_new(answer, name, json_string(text));
	free(text);
}

static void serve(struct guest *g, struct pve_api *api, json_t *ask)
{
	auto_inbox struct inbox *in = NULL;
	auto_json json_t *answer = json_object();
	struct result result = {0};
	struct guest_io io = {.output = keep, .arg = &result};
	uint64_t requests = pve_api_requests(api);
	int64_t from;
	struct err e;
	struct op op;
	char *text;

	if (inbox_new(INBOX_MAX, &in, &e) < 0 ||
		op_init(&op, "probe", json_number_value(json_object_get(ask, "deadline")), &e) < 0)
		exit(1);
	io.in = in;
	from = now_ns();
	if (do_one(g, &op, ask, &io, answer, &e) < 0) {
		json_object_set_new(answer, "error", json_text(e.msg));
		json_object_set_new(answer, "kind", json_string(err_kind_name(e.kind)));
		json_object_set_new(answer, "errno", json_integer(e.sys));
	}
	json_object_set_new(answer, "seconds", json_real((double)(now_ns() - from) / 1e9));
	json_object_set_new(
		answer, "requests", json_integer((json_int_t)(pve_api_requests(api) - requests)));
	json_object_set_new(answer, "entries", json_integer((json_int_t)result.entries));
	put_stream(answer, "stdout", &result.stream[WIRE_STDOUT]);
	put_stream(answer, "stderr", &result.stream[WIRE_STDERR]);
	put_stream(answer, "body", &result.stream[WIRE_BODY]);
	for (int i = 0; i <= WIRE_BODY; i++)
		buf_free(&result.stream[i]);
	op_done(&op);
	text = json_dumps(answer, JSON_COMPACT);
	puts(text);
	free(text);
	fflush(stdout);
}

/* Nobody removes what is left of a probe. */
static int iso_intent(void *arg, const char *volid, int64_t *ret_row, struct err *e)
{
	(void)arg, (void)volid, (void)e;
	*ret_row = 0;
	return 0;
}

static void iso_gone(void *arg, int64_t row)
{
	(void)arg, (void)row;
}

static bool has(int argc, char **argv, const char *word)
{
	for (int i = 8; i < argc; i++)
		if (strcmp(argv[i], word) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct pve_access access = {0};
	struct runners runners = {0};
	struct pve_guest_vm vm = {.name = "probe", .runners = &runners, .large_calls = true};
	struct pve_api *api;
	struct guest *g;
	char *line = NULL;
	size_t cap = 0;
	struct err e;
	struct op op;

	if (argc < 8)
		return 2;
	access = (struct pve_access){.host = argv[1],
		.port = (unsigned)atoi(argv[2]),
		.user = argv[3],
		.realm = argv[4],
		.password = getenv("PROXMOX_PASSWORD")};
	if (pve_global_init(&e) < 0 || pve_api_new(&access, &api, &e) < 0 ||
		op_init(&op, "open", 300, &e) < 0)
		goto failed;
	vm.api = api;
	vm.node = argv[5];
	vm.vmid = (unsigned)atoi(argv[6]);
	if (strcmp(argv[7], "-") != 0)
		runners.path[0] = argv[7];
	runners.path[1] = getenv("MOAT_GUEST_AARCH64");
	vm.serial1 = has(argc, argv, "kept-line");
	vm.windows = has(argc, argv, "windows");
	if (has(argc, argv, "disc")) {
		vm.iso_storage = "local";
		vm.cdrom = "sata5";
		vm.stamp = "probe";
		vm.scratch_dir = "/tmp";
		vm.iso_intent = iso_intent;
		vm.iso_gone = iso_gone;
	}
	if (pve_guest_open(&vm, &op, &g, &e) < 0)
		goto failed;
	puts("{\"ready\": true}");
	fflush(stdout);
	while (getline(&line, &cap, stdin) > 0) {
		auto_json json_t *ask = json_loads(line, 0, NULL);

		serve(g, api, ask);
	}
	free(line);
	guest_free(g);
	pve_api_free(api);
	op_done(&op);
	return 0;
failed:
	fprintf(stderr, "guest-probe: %s\n", e.msg);
	return 1;
}
