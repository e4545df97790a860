/* sshlink-parts.h - what the files of sshlink share. */
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include "guest/sshlink.h"

struct sshlink {
	ssh_session session;
	ssh_channel channel; /* the runner's */
	int fd;              /* the socket: ours until the session has it */
};

/* Waits for the socket, or a moment: libssh may have something to do of its own. */
int sshlink_wait(struct sshlink *l, const struct op *op, struct err *e);
/* ERR_UNAVAILABLE with libssh's words. */
int sshlink_fail(struct sshlink *l, const char *what, struct err *e);
int sshlink_channel(struct sshlink *l, const struct op *op, ssh_channel *ret, struct err *e);
/* Repeats a request that is to be asked again as long as it says so. */
#define SSHLINK_REPEAT(l, op, e, call)                                                             \
	({                                                                                         \
		int rc_;                                                                           \
		while ((rc_ = (call)) == SSH_AGAIN)                                                \
			if (sshlink_wait(l, op, e) < 0)                                            \
				break;                                                             \
		rc_; /* SSH_AGAIN: e is set */                                                     \
	})
int sshlink_write(
	struct sshlink *l, const struct op *op, ssh_channel c, struct bytes data, struct err *e);
/* Adds what has come to b, waiting for at least something. 0 at the end of the channel's output. */
int sshlink_read(
	struct sshlink *l, const struct op *op, ssh_channel c, struct buf *b, struct err *e);
/* Writes a file by SFTP. */
int sshlink_put(struct sshlink *l, const struct op *op, const char *path, struct bytes content,
	struct err *e);
