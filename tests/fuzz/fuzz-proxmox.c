/* What a Proxmox server, or whoever answers in its place, sends: the first byte says in pieces of
 * which size it arrives. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pve/answer.h"
#include "pve/conn.h"
#include "pve/upid.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_answer(const uint8_t *data, size_t size, size_t step)
{
	struct http_answer a = {0};
	struct buf in = {0};
	json_t *ret = NULL;
	struct err e;
	int head = 0;

	for (size_t at = 0; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;
		ssize_t used;

		if (buf_add(&in, data + at, n, &e) < 0)
			abort();
		if (!head) {
			head = http_head(buf_bytes(&in), &a, &e);
			if (head < 0)
				goto out;
			if (!head)
				continue;
			if (a.head_len > in.len)
				abort();
			buf_drop(&in, a.head_len);
		}
		used = http_body(buf_bytes(&in), &a, &e);
		if (used < 0)
			goto out;
		if ((size_t)used > in.len)
			abort();
		buf_drop(&in, (size_t)used);
	}
	if (head && http_body_end(&a, &e) == 0) {
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
