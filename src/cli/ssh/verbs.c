/* verbs.c - `moat ssh-config` and `moat ssh-proxy`: ssh into VMs without a network. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/exec.h"
#include "cli/ssh/key.h"
#include "util/auto.h"

extern const char cli_script_guest_sshd[]; /* guest-sshd.sh */

/* ssh fills in what stands behind a %. */
static void put_path(struct buf *b, const char *text)
{
	for (; *text; text++)
		buf_puts(b, *text == '%' ? "%%" : (const char[]){*text, 0});
}

/* For the shell to which ssh gives a command. */
static void put_quoted(struct buf *b, const char *text)
{
	const char *quote;

	buf_puts(b, "'");
	for (; (quote = strchr(text, '\'')); text = quote + 1) {
		auto_free char *part = strndup(text, (size_t)(quote - text));

		put_path(b, part ? part : "");
		buf_puts(b, "'\\''");
	}
	put_path(b, text);
	buf_puts(b, "'");
}

/* ssh may be started where our environment is not set: by an editor, for one. */
static void put_command(struct buf *b, const char *self)
{
	static const char *const settings[] = {"MOAT_HOME", "MOAT_RUNTIME_DIR", "MOAT_STATE_DIR"};

	buf_puts(b, "  ProxyCommand env");
	for (unsigned i = 0; i < ARRAY_LEN(settings); i++) {
		const char *value = getenv(settings[i]);

		if (!value)
			continue;
		buf_putf(b, " %s=", settings[i]);
		put_quoted(b, value);
	}
	buf_put(b, " ", 1);
	put_quoted(b, self);
}

struct config {
	struct buf text;
	const char *self; /* our own program */
	const char *key;
};

/* The names by which ssh knows the VM. */
static void put_host(struct config *c, const json_t *sb, const json_t *vm)
{
	const char *const names[] = {get_str(sb, "name"), get_str(sb, "id")};

	buf_puts(&c->text, "Host");
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (!*names[i])
			continue;
		if (json_is_true(json_object_get(vm, "default")))
			buf_putf(&c->text, " moat-%s", names[i]);
		buf_putf(&c->text, " moat-%s-%s", names[i], get_str(vm, "name"));
	}
	buf_put(&c->text, "\n", 1);
}

static void put_vm(struct config *c, const json_t *sb, const json_t *vm)
{
	put_host(c, sb, vm);
	buf_putf(&c->text, "  User %s\n", get_str(vm, "user"));
	put_command(&c->text, c->self);
	buf_putf(&c->text, " ssh-proxy --vm %s %s\n", get_str(vm, "name"), get_str(sb, "id"));
	buf_puts(&c->text, "  IdentityFile \"");
	put_path(&c->text, c->key);
	buf_puts(&c->text, "\"\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n"
			   "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n\n");
}

/* The VMs that commands can be run in. Vagrant's have files for ssh of their own. */
static void put_sandbox(struct config *c, const json_t *sb)
{
	const json_t *vm;
	size_t i;

	if (strcmp(get_str(sb, "driver"), "qemu") != 0 ||
		strcmp(get_str(sb, "state"), "running") != 0)
		return;
	json_array_foreach(json_object_get(sb, "vms"), i, vm)
		if (json_is_true(json_object_get(vm, "sandbox")))
			put_vm(c, sb, vm);
}

static int cmd_ssh_config_run(struct cli *cli, struct err *e)
{
	const char *sandbox = cli->args->n_operands ? cli->args->operands[0] : NULL;
	auto_json json_t *result = NULL;
	auto_free char *key = NULL;
	char self[PATH_MAX];
	struct config c = {.self = self};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	json_t *args = cli_target(cli, sandbox, e), *sb;
	size_t i;
	int rc;

	if (!args || cli_request(cli, "ls", args, &result, e) < 0 ||
		ssh_key(&cli->paths, &key, NULL, e) < 0)
		return -1;
	if (n < 0)
		return err_sys(e, errno, "/proc/self/exe");
	self[n] = 0;
	c.key = key;
	json_array_foreach(json_object_get(result, "sandboxes"), i, sb)
		put_sandbox(&c, sb);
	if (c.text.len == 0)
		cli_note(cli, "no local VM is running that ssh could reach");
	rc = buf_check(&c.text, e);
	if (rc == 0)
		fwrite(buf_data(&c.text), 1, c.text.len, stdout);
	buf_free(&c.text);
	return rc < 0 ? -1 : EXIT_OK;
}

static int cmd_ssh_proxy_run(struct cli *cli, struct err *e)
{
	auto_free char *public = NULL;
	struct exec_req req = {.input = true};
	json_t *args = cli_target(cli, cli->args->operands[0], e);

	if (!args)
		return -1;
	if (ssh_key(&cli->paths, NULL, &public, e) < 0 ||
		json_object_set_new(args, "user", json_string("root")) < 0 ||
		json_object_set_new(args, "argv",
			json_pack("[s, s, s, s, s]", "/bin/sh", "-c", cli_script_guest_sshd,
				"guest-sshd", public)) < 0) {
		json_decref(args);
		return -1;
	}
	req.args = args;
	cli->quiet = true; /* ssh ends us when it has what it wants */
	return exec_run(cli, &req, e);
}

static const struct opt ssh_proxy_opts[] = {
	{0, "vm", "NAME", "to this VM of the sandbox"},
	{0},
};

const struct cmd cmd_ssh_config = {
	.name = "ssh-config",
	.group = "Sandboxes:",
	.synopsis = "[SANDBOX]",
	.summary = "print what ssh, scp and editors need to log in to local VMs",
	.about = "The host of a sandbox's VM is moat-SANDBOX-VM, and moat-SANDBOX for the VM that\n"
		 "commands run in; SANDBOX is its name or its id. ssh goes through moat, not "
		 "through\n"
		 "a network, so the VM needs none. It must have sshd. A key of moat's own is let "
		 "in.",
	.examples = "  moat ssh-config > ~/.ssh/moat      with \"Include moat\" in ~/.ssh/config:\n"
		    "  ssh moat-demo",
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.run = cmd_ssh_config_run,
};

const struct cmd cmd_ssh_proxy = {
	.name = "ssh-proxy",
	.group = "Sandboxes:",
	.synopsis = "SANDBOX",
	.summary = "be ssh's way into a VM (see ssh-config)",
	.about = "Connects standard input and output with an sshd that it starts in the VM.",
	.examples = "  ssh -o ProxyCommand='moat ssh-proxy 3f9c' user@vm",
	.opts = ssh_proxy_opts,
	.min = 1,
	.max = 1,
	.operand = OPERAND_SANDBOX,
	.flags = CMD_OWN_ERROR,
	.run = cmd_ssh_proxy_run,
};
