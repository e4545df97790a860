/* fuzz-proxmox.c - answers of a Proxmox server, or of an impostor: the first byte chooses the size
 * of the pieces in which they arrive. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/proxmox/api/answer.h"
#include "driver/proxmox/api/conn.h"
#include "driver/proxmox/api/task.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_answer(const uint8_t *data, size_t size, size_t step)
{
	struct http_answer a = {0};
	struct buf in = {0};
	json_t *ret = NULL;
	struct err e;

	for (size_t at = 0; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;

		if (buf_add(&in, data + at, n, &e) < 0)
			abort();
		if (http_take(&in, &a, &e) < 0)
			goto out;
		if (in.len > size)
			abort();
	}
	if (a.has_head && http_body_end(&a, &e) == 0) {
		if (a.body.len > size)
			abort();
		if (answer_read(&a, &ret, &e) == 0)
			json_decref(ret);
	}
out:
	http_answer_free(&a);
	buf_free(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char node[UPID_NODE_MAX + 1], hex[65], *text;
	struct err e;

	if (size == 0)
		return 0;
	try_answer(data + 1, size - 1, (size_t)data[0] + 1);
	text = strndup((const char *)data + 1, size - 1);
	conn_fingerprint(text, hex);
	if (upid_node(text, node, &e) == 0 && strchr(node, '/'))
		abort();
	free(text);
	return 0;
}
