#include "cli/choose/spec.h"
#include "cli/cli.h"
#include "cli/choose/compose.h"
#include "cli/up.h"
#include "util/auto.h"

static int hold(struct cli *cli, const char *id, struct err *e)
{
	cli_note(cli, "sandbox %s is up; Ctrl-C removes it", id);
	if (client_wait_signal(cli->client, e) < 0)
		return -1;
	if (cli_request(cli, "rm", json_pack("{s:[s]}", "sandboxes", id), NULL, e) < 0 &&
		e->kind != ERR_NOT_FOUND)
		return -1;
	return EXIT_OK;
}

/* told: what was said of a compose file; NULL: it is none. */
static int check_only(struct cli *cli, json_t *spec, const json_t *told, struct err *e)
{
	auto_json json_t *result = NULL;

	if (cli_request(cli, "validate", json_pack("{s:O}", "spec", spec), &result, e) < 0)
		return -1;
	if (told &&
		(json_object_set(result, "accepted", json_object_get(told, "accepted")) < 0 ||
			json_object_set(result, "networks", json_object_get(told, "networks")) < 0))
		return err_oom(e);
	if (cli->json)
		return print_json(&cli->screen, result, e);
	compose_tell(cli, told, true);
	cli_note(cli, "the spec is valid");
	return EXIT_OK;
}

static int cmd_up_run(struct cli *cli, struct err *e)
{
	auto_json json_t *spec = NULL, *result = NULL, *told = NULL;
	double timeout = 0;
	const char *id;

	if (choose_spec_told(cli, &spec, &told, e) < 0 ||
		args_seconds(cli->args, "timeout", &timeout, e))
		return -1;
	if (args_has(cli->args, "check"))
		return check_only(cli, spec, told, e);
	compose_tell(cli, told, false);
	if (up_make(cli, spec, timeout, &result, e) < 0)
		return -1;
	id = get_str(result, "id");
	if (cli->json && print_json(&cli->screen, result, e) < 0)
		return -1;
	if (!cli->json)
		puts(id);
	/* If the id could not be printed, exit with the lease still ours: the daemon removes the
	 * sandbox. */
	if (check_stdout(e) < 0)
		return -1;
	if (args_has(cli->args, "attach"))
		return hold(cli, id, e);
	return cli_request(cli, "detach", json_pack("{s:s}", "sandbox", id), NULL, e);
}

static const struct opt up_opts[] = {
	{0, "image", "NAME", "one VM of this image, whatever its name looks like"},
	UP_OPTS,
	{0, "disk-gb", "N", "the size of that VM's disk"},
	{0, "cdrom", "FILE", "a CD in that VM, an ISO image; without an image: and an empty disk"},
	{0, "timeout", "SECONDS", "give up, and leave nothing, after so long"},
	{0, "check", NULL, "check the spec and make nothing"},
	{'a', "attach", NULL, "stay, and remove the sandbox when this command ends"},
	{0},
};

const struct cmd cmd_up = {
	.name = "up",
	.group = "Sandboxes:",
	.synopsis = "[SPEC|IMAGE|COMPOSE|DOCKERFILE|VAGRANTFILE|DIR]",
	.summary = "make a sandbox and print its id",
	.about = "SPEC is a YAML or JSON file, or - for standard input; without it ./moat.yaml is\n"
		 "used. A bare word is the name of an image. COMPOSE is a compose file, each "
		 "service a\n"
		 "VM; DOCKERFILE is built. VAGRANTFILE is a file with that word "
		 "in\n"
		 "front, or at its end after a dot; Vagrant then sees this command's environment, "
		 "and\n"
		 "of all files that one alone. DIR, with a slash or a dot, is a directory with a\n"
		 "Vagrantfile and what that needs: all of it is copied (`vagrant_dir`). The "
		 "sandbox\n"
		 "stays until `moat rm`; interrupted before it is ready, nothing stays.",
	.examples =
		"  moat up debian12                     one VM\n"
		"  moat up -n demo debian12             one that is called demo\n"
		"  id=$(moat up --ram 512 tiny)         its id, for a script\n"
		"  moat up lab.yaml --label user=kim    several VMs and networks\n"
		"  moat up --check lab.yaml             is the spec right?\n"
		"  moat up --cdrom install.iso          an empty disk of 20 GiB, and an installer\n"
		"  moat up compose.yaml                 a VM for each service, without Docker\n"
		"  moat up ./Vagrantfile                the machines of a Vagrantfile\n"
		"  moat up ./lab/                       those of lab/Vagrantfile, and its files",
	.opts = up_opts,
	.max = 1,
	.operand = OPERAND_SPEC,
	.flags = CMD_JSON,
	.run = cmd_up_run,
};
