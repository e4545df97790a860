/* commands.h - what clients ran last in a sandbox's VMs, for people who watch. Any thread. */
#pragma once

#include "util/thread/lock.h"

struct last_command {
	char text[160];   /* escaped, and cut; "": nothing yet */
	unsigned running; /* commands that have not ended */
};

struct commands {
	struct lock mu;
	struct last_command *of_vm; /* NULL: none has run in any VM */
};

void commands_init(struct commands *c);
void commands_done(struct commands *c);
/* A command begins in a VM, or has ended. */
void commands_begin(struct commands *c, unsigned vm, const char *const *argv);
void commands_end(struct commands *c, unsigned vm);
void commands_last(struct commands *c, unsigned vm, struct last_command *ret);
