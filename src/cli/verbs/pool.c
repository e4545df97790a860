#include <string.h>

#include "cli/client/access.h"
#include "cli/cli.h"
#include "cli/terminal/table.h"
#include "util/auto.h"

static enum colour colour_of(const char *state)
{
	return strcmp(state, "ok") == 0         ? COLOUR_GREEN
	       : strcmp(state, "disabled") == 0 ? COLOUR_YELLOW
						: COLOUR_RED;
}

static int add_instance(struct table *t, const json_t *i, struct err *e)
{
	char count[48];

	if (get_num(i, "max_sandboxes") > 0)
		snprintf(count, sizeof(count), "%.0f of %.0f", get_num(i, "sandboxes"),
			get_num(i, "max_sandboxes"));
	else
		snprintf(count, sizeof(count), "%.0f", get_num(i, "sandboxes"));
	if (table_row(t,
		    (const char *[]){get_str(i, "pool"), get_str(i, "instance"),
			    get_str(i, "state"), count, get_str(i, "server"), get_str(i, "node"),
			    get_str(i, "detail")},
		    e) < 0)
		return -1;
	table_colour(t, colour_of(get_str(i, "state")));
	return 0;
}

static int print_pools(struct cli *cli, const json_t *result, struct err *e)
{
	static const char *const heads[] = {
		"POOL", "INSTANCE", "STATE", "SANDBOXES", "SERVER", "NODE", "DETAIL", NULL};
	const json_t *list = json_object_get(result, "instances"), *one;
	auto_table struct table *t = NULL;
	const char *pool;
	json_t *waiting;
	size_t i;

	if (json_array_size(list) == 0) {
		cli_note(cli, "no servers; set PROXMOX_HOST, or PROXMOX_CONFIG_FILE");
		return EXIT_OK;
	}
	if (table_new(heads, &t, e) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		if (add_instance(t, one, e) < 0)
			return -1;
	}
	table_print(t, &cli->screen, stdout);
	json_object_foreach(json_object_get(result, "waiting"), pool, waiting) {
		auto_free char *safe = text_safe(pool);

		if (json_integer_value(waiting) > 0)
			printf("%" JSON_INTEGER_FORMAT " waiting for room in pool %s\n",
				json_integer_value(waiting), safe ? safe : "");
	}
	return EXIT_OK;
}

static int ask(struct cli *cli, const char *action, const char *pool, struct err *e)
{
	auto_json json_t *result = NULL;
	const char *instance = args_get(cli->args, "instance");
	json_t *args = json_pack(
		"{s:s, s:s*, s:s*}", "action", action, "pool", pool, "instance", instance);

	if (!args)
		return args_fail(e, "the name is not UTF-8");
	if (access_add(args, e) < 0) {
		json_decref(args);
		return -1;
	}
	if (cli_request(cli, "pool", args, &result, e) < 0)
		return -1;
	return cli->json ? print_json(&cli->screen, result, e) : print_pools(cli, result, e);
}

static const char *operand(const struct cli *cli)
{
	return cli->args->n_operands ? cli->args->operands[0] : NULL;
}

static int pool_ls_run(struct cli *cli, struct err *e)
{
	return ask(cli, "ls", operand(cli), e);
}

static int pool_clean_run(struct cli *cli, struct err *e)
{
	return ask(cli, "clean", operand(cli), e);
}

static int pool_disable_run(struct cli *cli, struct err *e)
{
	return ask(cli, "disable", operand(cli), e);
}

static int pool_enable_run(struct cli *cli, struct err *e)
{
	return ask(cli, "enable", operand(cli), e);
}

static const struct opt pool_opts[] = {
	{0, "instance", "ID", "only this server of the pool"},
	{0},
};

static const struct cmd pool_ls = {
	.name = "pool ls",
	.synopsis = "[POOL]",
	.summary = "show the servers, what is on them and who waits",
	.examples = "  moat pool ls\n"
		    "  moat pool ls --json default",
	.opts = pool_opts,
	.max = 1,
	.flags = CMD_JSON,
	.run = pool_ls_run,
};

static const struct cmd pool_clean = {
	.name = "pool clean",
	.synopsis = "[POOL]",
	.summary = "look at servers that were set aside, and clean them, now",
	.about = "A server that does not answer is left out for a while, one with leftovers until "
		 "they\nare gone. The daemon looks again by itself; this makes it do so at once.",
	.examples = "  moat pool clean",
	.opts = pool_opts,
	.max = 1,
	.flags = CMD_JSON,
	.run = pool_clean_run,
};

static const struct cmd pool_disable = {
	.name = "pool disable",
	.synopsis = "[POOL]",
	.summary = "put no new sandboxes onto servers",
	.about = "Sandboxes that are there stay. It lasts until `moat pool enable`, or until the "
		 "daemon ends.",
	.examples = "  moat pool disable --instance pve-3 default",
	.opts = pool_opts,
	.max = 1,
	.flags = CMD_JSON,
	.run = pool_disable_run,
};

static const struct cmd pool_enable = {
	.name = "pool enable",
	.synopsis = "[POOL]",
	.summary = "use servers again that were disabled",
	.examples = "  moat pool enable --instance pve-3 default",
	.opts = pool_opts,
	.max = 1,
	.flags = CMD_JSON,
	.run = pool_enable_run,
};

static const struct cmd *const pool_subs[] = {
	&pool_ls, &pool_clean, &pool_disable, &pool_enable, NULL};

const struct cmd cmd_pool = {
	.name = "pool",
	.group = "Servers:",
	.synopsis = "VERB",
	.summary = "show, clean, disable and enable Proxmox servers",
	.examples = "  moat pool ls\n"
		    "  moat pool disable --instance pve-3",
	.subs = pool_subs,
	.flags = CMD_NO_QUIET,
};
