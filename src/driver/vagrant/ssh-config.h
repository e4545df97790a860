/*
 * ssh-config.h - lets the user's own ssh, and what builds on it (VS Code), reach a machine: a
 * configuration file for each in DIR/ssh, with an alias as the host's name. Whoever includes these
 * files in ~/.ssh/config has all machines by their aliases. Any thread.
 */
#pragma once

#include "driver/vagrant/dir.h"
#include "driver/vagrant/parse.h"

/* What the user's ssh calls a machine: a name that no other sandbox's machine has. */
int vagrant_ssh_alias(const struct vagrant_dir *d, const char *name, char **ret, struct err *e);
/* The text of the file. */
int vagrant_ssh_config(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, char **ret, struct err *e);
/* Writes DIR/ssh/ALIAS; nothing as long as Vagrant has not said where the machine is. */
int vagrant_ssh_config_write(const struct vagrant_dir *d, const char *alias,
	const struct vagrant_ssh *ssh, struct err *e);
