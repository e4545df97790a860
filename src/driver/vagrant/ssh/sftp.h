/*
 * sftp.h - the little of SFTP (version 3) that writes one file. Pure: requests are bytes to send,
 * replies are bytes that came, from a guest that may send anything.
 */
#pragma once

#include <stdint.h>

#include "util/buf.h"

enum {
	SFTP_VERSION = 3,
	SFTP_REPLY_MAX = 64 * 1024,
	SFTP_HANDLE_MAX = 256,
	SFTP_PIECE = 32 * 1024, /* every server takes this much in one write */
};

enum sftp_type { SFTP_IS_VERSION = 2, SFTP_IS_STATUS = 101, SFTP_IS_HANDLE = 102 };

struct sftp_reply {
	enum sftp_type type;
	uint32_t id;       /* of the request; of VERSION: the version */
	uint32_t code;     /* STATUS: 0 is success */
	struct bytes text; /* STATUS: its message; HANDLE: the handle. In the bytes that came */
};

int sftp_put_init(struct buf *b, struct err *e);
/* Opens a file for writing, emptied, with these permissions. */
int sftp_put_open(struct buf *b, uint32_t id, const char *path, uint32_t mode, struct err *e);
int sftp_put_write(struct buf *b, uint32_t id, struct bytes handle, uint64_t offset,
	struct bytes data, struct err *e);
int sftp_put_close(struct buf *b, uint32_t id, struct bytes handle, struct err *e);

/* How many bytes the first reply takes, with *ret filled in; 0: it is not whole yet; -1: none of
 * the requests above has such a reply. */
long sftp_reply_parse(struct bytes in, struct sftp_reply *ret);
