/*
 * How the user's own ssh, and what builds on it (VS Code), reaches a machine: a configuration file
 * for each in DIR/ssh, with an alias as the host's name. Whoever includes these files in
 * ~/.ssh/config has all machines by their aliases.
 */
#include <ctype.h>
#include <string.h>

#include "driver/vagrant.h"
#include "util/auto.h"
#include "util/io.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/str.h"

int vagrant_ssh_alias(const struct vagrant_dir *d, const char *name, char **ret, struct err *e)
{
	const char *slash = strrchr(d->path, '/');

	if (str_printf(ret, e, "%s-%s", slash ? slash + 1 : d->path, name) < 0)
		return -1;
	for (char *c = *ret; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.' && *c != '_')
			*c = '-'; /* names of hosts may be patterns, and lists of them */
	return 0;
}

/* One setting. A path may have spaces, and "%" means something; what would not be a word in quotes
 * is left out. */
static void setting(struct buf *b, const char *name, const char *value, struct err *ignored)
{
	for (const char *c = value; *c; c++)
		if (*c == '"' || *c == '\\' || iscntrl((unsigned char)*c))
			return;
	buf_printf(b, ignored, "  %s \"", name);
	for (const char *c = value; *c; c++)
		buf_printf(b, ignored, *c == '%' ? "%%%%" : "%c", *c);
	buf_printf(b, ignored, "\"\n");
}

int vagrant_ssh_config(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, char **ret, struct err *e)
{
	auto_free char *known = NULL;
	auto_buf struct buf b = {0};

	if (str_printf(&known, e, "%s/" VAGRANT_KNOWN_HOSTS, d->path) < 0 ||
		buf_printf(&b, e, "# Made by moat.\nHost %s\n", alias) < 0)
		return -1;
	setting(&b, "HostName", ssh->host, e);
	setting(&b, "User", ssh->user, e);
	for (unsigned i = 0; i < ssh->n_keys; i++)
		setting(&b, "IdentityFile", ssh->keys[i], e);
	/* Addresses and ports are used again by other machines: the key goes with the alias. */
	setting(&b, "HostKeyAlias", alias, e);
	setting(&b, "UserKnownHostsFile", known, e);
	if (buf_printf(&b, e,
		    "  Port %u\n  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new\n"
		    "  LogLevel ERROR\n",
		    ssh->port) < 0)
		return -1;
	*ret = buf_take_str(&b);
	return *ret ? 0 : err_oom(e);
}

static int write_config(struct vagrant_vm *vm, struct err *e)
{
	auto_free char *dir = NULL, *path = NULL, *text = NULL;
	struct vagrant_ssh ssh;

	{
		auto_unlock pthread_mutex_t *held = lock_take(&vm->mu);
		ssh = vm->ssh;
	}
	if (!ssh.port)
		return 0; /* Vagrant has not said where it is */
	return str_printf(&dir, e, "%s/" VAGRANT_SSH_DIR, vm->dir->path) < 0 ||
			       dir_make(dir, 0700, e) < 0 ||
			       str_printf(&path, e, "%s/%s", dir, vm->alias) < 0 ||
			       vagrant_ssh_config(vm->dir, vm->alias, &ssh, &text, e) < 0 ||
			       file_write_atomic(path, text, strlen(text), 0600, e) < 0
		       ? -1
		       : 0;
}

void vagrant_ssh_keep(struct vagrant_vm *vm, const struct op *op)
{
	struct err e;

	if (write_config(vm, &e) < 0)
		log_err(op, LOG_WARN, &e, "%s: no configuration for ssh", vm->name);
}
