#include "cli/image/pull.h"

#include "cli/image/made.h"
#include "util/auto.h"

int image_pull(struct cli *cli, const char *from, struct err *e)
{
	static const struct {
		const char *opt, *arg;
	} more[] = {{"name", "name"}, {"sha256", "sha256"}, {"user", "user"},
		{"os-type", "os_type"}, {"firmware", "firmware"}};
	auto_json json_t *result = NULL;
	json_t *args = json_pack("{s:s}", "from", from);

	for (unsigned i = 0; args && i < ARRAY_LEN(more); i++) {
		const char *value = args_get(cli->args, more[i].opt);

		if (value && json_object_set_new(args, more[i].arg, json_string(value)) < 0) {
			json_decref(args);
			args = NULL;
		}
	}
	if (!args)
		return args_fail(e, "an argument is not UTF-8");
	if (args_has(cli->args, "rebuild"))
		json_object_set_new(args, "rebuild", json_true());
	if (cli_request(cli, "image.pull", args, &result, e) < 0)
		return -1;
	return image_print_made(cli, result, e);
}

static int image_pull_run(struct cli *cli, struct err *e)
{
	return image_pull(cli, cli->args->operands[0], e);
}

static const struct opt pull_opts[] = {
	{'n', "name", "NAME", "name of the image (default: IMAGE, or the file's of the URL)"},
	{0, "sha256", "HEX", "what the checksum of a URL's file must be"},
	{0, "rebuild", NULL, "make it again, even if there is nothing new"},
	{'u', "user", "USER", "of a URL: the user that commands run as by default"},
	{0, "os-type", "TYPE", "of a URL: what runs in it: l26, win11, other, ..."},
	{0, "firmware", "KIND", "of a URL: bios or uefi"},
	{0},
};
const struct cmd cmd_image_pull = {
	.name = "image pull",
	.synopsis = "IMAGE|URL",
	.summary = "download an image: of a vendor, of a container registry, or by its URL",
	.about = "ubuntu24.04, debian12, debian13, kali, kali2025.4, kali2025.3: the vendor's own "
		 "image,\n"
		 "checked, with the guest agent, python3 and compilers put in. What is interrupted "
		 "is\n"
		 "continued next time. A disk from a URL needs the guest agent in it.\n"
		 "What has a '/', ':' or '@', or docker:// before it, is a container image: "
		 "debian:12,\n"
		 "ghcr.io/a/b@sha256:... Its registry is asked each time; what is here already "
		 "is not\n"
		 "downloaded again. Logins are those of `skopeo login`.",
	.examples = "  moat image pull ubuntu24.04\n"
		    "  moat image pull python:3.12-slim\n"
		    "  moat image pull https://example.org/lab.qcow2 --sha256 9f86d081...",
	.opts = pull_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_IMAGE,
	.flags = CMD_JSON,
	.run = image_pull_run,
};
