/* fuzz-proxmox-guest.c - what a guest sends through a Proxmox VE server, and what the server adds:
 * the first byte chooses the parser. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ascii.h"
#include "driver/proxmox/guest/rest.h"
#include "driver/proxmox/guest/runner.h"
#include "driver/proxmox/guest/term.h"
#include "driver/proxmox/guest/websocket.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count(void *arg, int stream, struct bytes data, struct err *e)
{
	(void)stream;
	(void)e;
	*(size_t *)arg += data.len;
	return 0;
}

static void try_answer(struct bytes in)
{
	const struct pve_answer_rules rules = {
		.end = WIRE_EXIT, .streams = 1 << WIRE_STDOUT | 1 << WIRE_STDERR, .max = 100};
	struct pve_answer told;
	size_t n = 0;
	struct err e;

	if (pve_read_answer(in, &rules, count, &n, &told, &e) == 0 && n > 200)
		abort();
}

static void try_websocket(struct bytes in)
{
	struct ws_frame f;
	struct err e;
	long n = ws_get(in, &f);

	if (n > (long)in.len || (n > 0 && f.payload.p + f.payload.len != in.p + n))
		abort();
	n = ws_answer(in, &e);
	if (n > (long)in.len)
		abort();
}

static void try_terminal(struct bytes in)
{
	static struct ascii_reader reader;
	struct term_codec c = {.reader = &reader};
	struct buf out = {0};
	struct err e;

	memset(&reader, 0, sizeof(reader));
	reader.side = ASCII_TO_HOST;
	term_decode(&c, in, &out, &e);
	if (out.len > in.len)
		abort();
	buf_free(&out);
}

static void try_status(struct bytes in)
{
	auto_json json_t *value = json_loadb((const char *)in.p, in.len, JSON_ALLOW_NUL, NULL);
	auto_qga_exit struct qga_exit x = {0};
	struct err e;

	if (pve_parse_status(value, &x, &e) > 0 && x.out.len + x.err.len > in.len)
		abort();
}

static void try_spilled(struct bytes in)
{
	char *text = strndup((const char *)in.p, in.len), id[33];
	unsigned parts[2];

	if (pve_parse_spilled(text, "/s", id, parts) && (strchr(id, '/') || parts[0] > 100))
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[])(struct bytes) = {
		try_answer, try_websocket, try_terminal, try_status, try_spilled};

	if (size)
		tries[data[0] % 5]((struct bytes){data + 1, size - 1});
	return 0;
}
