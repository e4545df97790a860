/* net-probe MOAT-HELPER SPEC.json [hold]: makes the spec's network without its VMs, removes it, and
 * prints the milliseconds of both. With "hold" it says "ready" and removes it when its input ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"
#include "util/auto.h"
#include "util/system/io.h"

static int probe(const char *helper, const char *path, bool hold, struct err *e)
{
	auto_free char *text = NULL;
	auto_json json_t *j = NULL;
	auto_spec struct sandbox_spec *spec = NULL;
	struct net_req req = {.helper_path = helper, .sandbox = "probe"};
	struct net *net = NULL;
	int64_t began, made;
	struct op op;
	size_t len;

	if (file_read(path, 1 << 20, &text, &len, e) < 0 ||
		json_parse_object((struct bytes){(uint8_t *)text, len}, &j, e) < 0 ||
		spec_parse(j, &spec, e) < 0 || op_init(&op, "probe", 120, e) < 0)
		return -1;
	req.spec = spec;
	began = now_ns();
	if (net_open(&op, &req, &net, e) < 0)
		return -1;
	made = now_ns();
	if (hold) {
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	net_close(net);
	printf("%.3f %.3f\n", (double)(made - began) / 1e6, (double)(now_ns() - made) / 1e6);
	op_done(&op);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e;

	if (argc != 3 && (argc != 4 || strcmp(argv[3], "hold") != 0)) {
		fprintf(stderr, "usage: net-probe MOAT-HELPER SPEC.json [hold]\n");
		return 2;
	}
	if (probe(argv[1], argv[2], argc == 4, &e) < 0) {
		fprintf(stderr, "net-probe: %s\n", e.msg);
		return 1;
	}
	return 0;
}
