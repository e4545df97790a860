#include "driver/vagrant/ssh-config.h"

#include <ctype.h>
#include <string.h>

#include "util/auto.h"
#include "util/system/io.h"
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

/* A path may have spaces, and "%" means something; a value that would not be a word in quotes is
 * left out. */
static void setting(struct buf *b, const char *name, const char *value)
{
	for (const char *c = value; *c; c++)
		if (*c == '"' || *c == '\\' || iscntrl((unsigned char)*c))
			return;
	buf_putf(b, "  %s \"", name);
	for (const char *c = value; *c; c++)
		buf_putf(b, *c == '%' ? "%%%%" : "%c", *c);
	buf_puts(b, "\"\n");
}

int vagrant_ssh_config(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, char **ret, struct err *e)
{
	auto_free char *known = NULL;
	auto_buf struct buf b = {0};

	if (str_printf(&known, e, "%s/" VAGRANT_KNOWN_HOSTS, d->path) < 0)
		return -1;
	buf_putf(&b, "# Made by moat.\nHost %s\n", alias);
	setting(&b, "HostName", ssh->host);
	setting(&b, "User", ssh->user);
	for (unsigned i = 0; i < ssh->n_keys; i++)
		setting(&b, "IdentityFile", ssh->keys[i]);
	/* Addresses and ports are used again by other machines: the key goes with the alias. */
	setting(&b, "HostKeyAlias", alias);
	setting(&b, "UserKnownHostsFile", known);
	buf_putf(&b,
		"  Port %u\n  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new\n"
		"  LogLevel ERROR\n",
		ssh->port);
	*ret = buf_check(&b, e) < 0 ? NULL : buf_take_str(&b);
	return *ret ? 0 : err_oom(e);
}

int vagrant_ssh_config_write(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, struct err *e)
{
	auto_free char *dir = NULL, *path = NULL, *text = NULL;

	if (!ssh->port)
		return 0;
	if (str_printf(&dir, e, "%s/" VAGRANT_SSH_DIR, d->path) < 0 || dir_make(dir, 0700, e) < 0 ||
		str_printf(&path, e, "%s/%s", dir, alias) < 0 ||
		vagrant_ssh_config(d, alias, ssh, &text, e) < 0)
		return -1;
	return file_write_atomic(path, text, strlen(text), 0600, e);
}
