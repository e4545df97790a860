/* fuzz-vagrant.c - output of Vagrant and of `vagrant ssh-config`. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vagrant/parse.h"
#include "util/auto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct vagrant_report report;
	auto_free char *text = malloc(size + 1), *whole = NULL;
	struct vagrant_ssh ssh;
	struct err e;
	char *rest = NULL;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	whole = strdup(text);
	if (vagrant_ssh_config_parse(text, &ssh, &e) == 0 && (!ssh.port || ssh.port > 65535))
		abort();
	report = (struct vagrant_report){0};
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		vagrant_report_line(&report, line);
	if (report.n_machines > VAGRANT_MACHINES_MAX)
		abort();
	vagrant_report_fail(&report, 1, whole, "vagrant up", &e);
	if (strchr(e.msg, '\n'))
		abort();
	return 0;
}
