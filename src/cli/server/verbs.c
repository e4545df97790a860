/* verbs.c - `moat proxmox env`: how clients reach a Proxmox VE server that is a sandbox. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/server/facts.h"
#include "util/auto.h"
#include "util/str.h"

#define FACTS_SCRIPT "/usr/share/moat-proxmox/facts.sh" /* in images of proxmox9 and proxmox8 */

enum { API_PORT = 8006, START_SECONDS = 600, ERROR_MAX = 400 };

struct said {
	struct buf out, err;
};

static int keep(void *arg, enum call_stream stream, struct bytes data, struct err *e)
{
	struct said *said = arg;

	return buf_add(stream == CALL_STDERR ? &said->err : &said->out, data.p, data.len, e);
}

/* Asks the guest, which waits until its server has started. */
static int ask(struct cli *cli, const char *sandbox, struct said *said, json_t **ret, struct err *e)
{
	auto_json json_t *args = cli_target(cli, sandbox, e);
	struct call call = {.op = "exec", .data = keep, .arg = said};

	if (!args)
		return -1;
	if (json_object_set_new(args, "user", json_string("root")) < 0 ||
		json_object_set_new(args, "argv", json_pack("[s, s]", "/bin/sh", FACTS_SCRIPT)) <
			0 ||
		json_object_set_new(args, "timeout", json_integer(START_SECONDS)) < 0 ||
		json_object_set_new(args, "capture", json_true()) < 0 ||
		json_object_set_new(args, "output_max", json_integer(FACTS_MAX)) < 0)
		return err_oom(e);
	call.args = args;
	return cli_call(cli, &call, ret, e);
}

static int get_facts(struct cli *cli, const char *sandbox, struct server_facts *ret, struct err *e)
{
	struct said said = {0};
	auto_json json_t *result = NULL;
	char shown[ERROR_MAX];
	int rc = ask(cli, sandbox, &said, &result, e);

	if (rc == 0 && get_num(result, "exit_code") != 0) {
		str_escape((const char *)buf_data(&said.err), said.err.len, shown, sizeof(shown));
		rc = err_set(e, ERR_BACKEND,
			"%s is no Proxmox VE server of `moat image build proxmox9`, or it did not "
			"start: %s",
			sandbox, shown);
	} else if (rc == 0 && facts_parse(buf_bytes(&said.out), ret, e) < 0) {
		rc = err_wrap(e, "what %s says of itself", sandbox);
	}
	buf_free(&said.out);
	buf_free(&said.err);
	return rc;
}

/* Finds the port of this host that leads to the API, or has one made. *ret: as net.forward's
 * result. */
static int get_port(struct cli *cli, const char *sandbox, json_t **ret, struct err *e)
{
	auto_json json_t *net = NULL;
	json_t *args = cli_target(cli, sandbox, e), *f;
	size_t i;

	if (!args || cli_request(cli, "net.show", args, &net, e) < 0)
		return -1;
	json_array_foreach(json_object_get(net, "forwards"), i, f) {
		if ((int)get_num(f, "port") == API_PORT) {
			*ret = json_incref(f);
			return 0;
		}
	}
	args = cli_target(cli, sandbox, e);
	if (!args)
		return -1;
	if (json_object_set_new(args, "port", json_integer(API_PORT)) < 0) {
		json_decref(args);
		return err_oom(e);
	}
	return cli_request(cli, "net.forward", args, ret, e);
}

/* One instance, as in the file that PROXMOX_CONFIG_FILE names. */
static int get_instance(struct cli *cli, const char *sandbox, json_t **ret, struct err *e)
{
	auto_json json_t *port = NULL;
	struct server_facts facts;

	if (get_facts(cli, sandbox, &facts, e) < 0 || get_port(cli, sandbox, &port, e) < 0)
		return -1;
	return json_make(ret, e, "{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s}",
		"instance_id", sandbox, "pool_id", "default", "host", get_str(port, "host"), "port",
		(int)get_num(port, "host_port"), "user", "root", "user_realm", "pam", "password",
		facts.password, "node", facts.node, "fingerprint", facts.fingerprint,
		"image_storage", "local");
}

/* All values are of letters, digits, hyphens, dots and colons: they need no quotes. */
static void print_variables(const json_t *instance)
{
	static const char *const names[][2] = {{"HOST", "host"}, {"USER", "user"},
		{"REALM", "user_realm"}, {"PASSWORD", "password"}, {"NODE", "node"},
		{"FINGERPRINT", "fingerprint"}, {"IMAGE_STORAGE", "image_storage"}};

	puts("unset PROXMOX_CONFIG_FILE PROXMOX_TOKEN");
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		printf("export PROXMOX_%s=%s\n", names[i][0], get_str(instance, names[i][1]));
	printf("export PROXMOX_PORT=%.0f\n", get_num(instance, "port"));
}

static int proxmox_env_run(struct cli *cli, struct err *e)
{
	const struct args *a = cli->args;
	auto_json json_t *all = json_array(), *doc = NULL;

	if (a->n_operands > 1 && !cli->json)
		return args_fail(e, "several servers are named by a file: give --json, and name "
				    "the file in PROXMOX_CONFIG_FILE");
	for (unsigned i = 0; i < a->n_operands; i++) {
		json_t *one;

		if (get_instance(cli, a->operands[i], &one, e) < 0)
			return -1;
		if (!all || json_array_append_new(all, one) < 0)
			return err_oom(e);
	}
	if (!cli->json) {
		print_variables(json_array_get(all, 0));
		return EXIT_OK;
	}
	if (json_make(&doc, e, "{s:O}", "instances", all) < 0)
		return -1;
	return print_json(&cli->screen, doc, e);
}

static const struct cmd proxmox_env = {
	.name = "proxmox env",
	.synopsis = "SANDBOX...",
	.summary = "print what names a server that is a sandbox, for a shell",
	.about = "Waits until the server has started, lets a port of this host lead to its API, "
		 "and\n"
		 "prints PROXMOX_HOST and its companions, root's password among them. With --json\n"
		 "it prints a file for PROXMOX_CONFIG_FILE, in which several servers are a pool.",
	.examples = "  eval \"$(moat proxmox env 3f9c)\"; moat doctor proxmox\n"
		    "  moat proxmox env --json 3f9c 71aa >pool.json",
	.min = 1,
	.max = OPERANDS_ANY,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_JSON,
	.run = proxmox_env_run,
};

static const struct cmd *const proxmox_subs[] = {&proxmox_env, NULL};

const struct cmd cmd_proxmox = {
	.name = "proxmox",
	.group = "Servers:",
	.synopsis = "VERB",
	.summary = "use a Proxmox VE server that is a sandbox",
	.examples = "  moat image build proxmox9 && moat up proxmox9 -n pve\n"
		    "  eval \"$(moat proxmox env pve)\"",
	.subs = proxmox_subs,
	.flags = CMD_NO_QUIET,
};
