/* fuzz-image.c - imported files, and output of recipes: the first byte chooses the parser. qemu-img
 * gets only files that probe_disk has accepted. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/manifest.h"
#include "store/import/ovf.h"
#include "store/import/probe.h"
#include "store/import/qemu-img.h"
#include "store/tool-output.h"
#include "util/auto.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_manifest(struct bytes in)
{
	auto_json json_t *m = NULL, *again = NULL;
	auto_image struct image *img = NULL;
	auto_free char *text = NULL;
	char hex[SHA256_HEX + 1];
	struct err e;

	if (manifest_parse(in, &m, &e) < 0)
		return;
	if (manifest_digest(m, hex, &e) < 0 || json_to_str(m, &text, &e) < 0)
		abort();
	/* An accepted manifest must parse again to the same manifest. */
	if (manifest_parse((struct bytes){(uint8_t *)text, strlen(text)}, &again, &e) < 0 ||
		!json_equal(m, again))
		abort();
	if (manifest_to_image(m, "/d", "n", &img, &e) == 0 && (!img->arch || !img->digest))
		abort();
}

static void try_ovf(struct bytes in)
{
	char name[OVF_NAME_MAX];
	struct err e;

	if (ovf_first_disk(in, name, &e) == 0 && (!*name || strchr(name, '/')))
		abort();
}

static void on_line(void *arg, const char *line)
{
	uint64_t done, total;
	unsigned hundredths;
	const char *said;

	(void)arg;
	if (tool_output_progress(line, &done, &total, &said) && total && done > total)
		abort();
	if (tool_output_percent(line, &hundredths) && hundredths > 10099)
		abort();
}

static void try_words(struct bytes in)
{
	struct tool_output w = {0};

	tool_output_add(&w, (const char *)in.p, in.len / 2, on_line, NULL);
	tool_output_add(&w, (const char *)in.p + in.len / 2, in.len - in.len / 2, on_line, NULL);
	tool_output_end(&w, on_line, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum probe_kind kind;
	struct bytes in;
	struct err e;

	if (size == 0)
		return 0;
	in = (struct bytes){data + 1, size - 1};
	switch (data[0] % 5) {
	case 0:
		try_manifest(in);
		break;
	case 1:
		try_ovf(in);
		break;
	case 2:
		try_words(in);
		break;
	case 3:
		qemu_img_judge(in, "/f", &e);
		break;
	default:
		probe_disk(&(struct probe_in){in, in.len, "x.img"}, &kind, &e);
	}
	return 0;
}
