/* run.h - runs of the program vagrant in a sandbox's directory. Any thread, several at once. */
#pragma once

#include "driver/vagrant/dir.h"
#include "driver/vagrant/parse.h"

struct vagrant_run {
	const char *const *argv; /* after "vagrant"; NULL at the end */
	const char *what;        /* for messages: "vagrant up" */
	double interrupt_grace;  /* > 0: when the op ends, it is interrupted, and killed after so
				    long */
	/* Called after each line that said something; may be NULL. */
	void (*news)(void *arg, struct vagrant_report *r);
	void *arg;
};

/* Runs to the end. A failure of Vagrant is ERR_BACKEND or what fits it better, with its own
 * message; report is valid in either case. */
int vagrant_run(struct vagrant_dir *d, const struct op *op, const struct vagrant_run *run,
	struct vagrant_report *report, struct err *e);
