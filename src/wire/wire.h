/*
 * wire.h - the messages between the daemon and the runner, in frames (wire/frame.h). Pure; built
 * into both sides. The daemon trusts nothing that comes from the guest.
 *
 * A head is: type (1 byte), id (4), then the members of that type in the order of the comments of
 * enum wire_type; integers are little-endian. Sizes that a guest tells fit into int64_t. Strings
 * travel in the body, each ended by NUL.
 *
 * Life of a line. The host opens it with HELLO and a random nonce, and discards everything until a
 * HELLO reply with the same nonce: bytes of an earlier runner may still be in the pipe. A runner
 * that gets HELLO kills all that an earlier conversation started and begins anew.
 *
 * Flow control. For each id and direction, at most WIRE_WINDOW bytes of DATA may be sent without
 * credit. The receiver sends CREDIT as it consumes. Breaking the rule is an error of the line; so
 * are DATA without a byte, CREDIT of 0 and PONG without PING, which nothing would bound.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

#define WIRE_PORT_NAME "org.moat.guest.0" /* the virtio-serial port */
/* The runner says so on stderr, and the host looks for it: its port has a runner already. */
#define WIRE_ANOTHER_RUNNER "another moat-guest"

enum {
	WIRE_VERSION = 2,
	WIRE_WINDOW = 256 * 1024,
	WIRE_PIECE = 64 * 1024,             /* DATA bodies are at most this */
	WIRE_STRINGS_MAX = 6 * 1024 * 1024, /* EXEC bodies: argv, environment */
	WIRE_HEAD_MAX = 128,
	WIRE_NONCE = 16,
	WIRE_CHANNELS_MAX = 1024, /* ids in use at once */
};

enum wire_type {
	/* host to guest */
	WIRE_HELLO = 1, /* version, nonce */
	WIRE_EXEC,    /* flags, timeout_ms, max, rows, cols, count (argv), count2 (env); body: user,
			 cwd, argv..., env... */
	WIRE_DATA,    /* stream; body: bytes. Both directions */
	WIRE_EOF,     /* end of input for EXEC or WRITE */
	WIRE_CREDIT,  /* count. Both directions */
	WIRE_SIGNAL,  /* code: signal for the command's process group (for a pty: its foreground
			 group) */
	WIRE_RESIZE,  /* rows, cols */
	WIRE_CANCEL,  /* kill the whole tree, drop the file; still answered by EXIT or DONE */
	WIRE_READ,    /* max, size (where to begin), size2 (how much, 0: all); body: user, cwd,
			 path. Answer: DATA..., DONE */
	WIRE_WRITE,   /* flags, mode; body: user, cwd, path. Then DATA..., EOF. Answer: DONE */
	WIRE_LIST,    /* body: user, cwd, path. Answer: DATA (entries, see below), DONE */
	WIRE_MKDIR,   /* mode; body: user, cwd, path. Answer: DONE */
	WIRE_SYMLINK, /* body: user, cwd, path, target. Answer: DONE */
	WIRE_PING,
	WIRE_IDENTITY, /* flags, size (nanoseconds since 1970), count (nics), count2 (SSH host
			  keys); body: hostname, machine id, for each nic its MAC and the one it
			  gets, for each key its kind and the content of its two files, then
			  random bytes. Answer: DONE */
	/* guest to host */
	WIRE_HELLO_REPLY = 64, /* version, nonce, pid in code */
	WIRE_EXIT, /* how, code, timed_out, size (stdout bytes), size2 (stderr bytes); body: a
		      message if it did not start; otherwise empty, or where the output is (see
		      WIRE_EXEC_SPILL) */
	WIRE_DONE, /* code (errno, 0 for success), size, mode; body: a message if it failed */
	WIRE_PONG,
};

enum wire_exec_flag {
	WIRE_EXEC_STDIN = 1,   /* DATA and EOF follow; otherwise stdin is /dev/null */
	WIRE_EXEC_PTY = 2,     /* rows, cols; stdout and stderr are one */
	WIRE_EXEC_CAPTURE = 4, /* keep the last max bytes of each stream, send them when the command
				  has ended */
	/*
	 * With CAPTURE: output that is too large for a slow line is left in files, which the host
	 * fetches through the guest agent (moat-guest/common/spool.h). EXIT's body is then
	 * "DIRECTORY PARTS_OF_STDOUT PARTS_OF_STDERR", the files "1.0", "1.1" ..., "2.0" ...
	 */
	WIRE_EXEC_SPILL = 8,
};
enum { WIRE_SPILL_OVER = 16 * 1024 }; /* bytes, both streams together */

enum wire_write_flag {
	WIRE_WRITE_APPEND = 1,
	WIRE_WRITE_PARENTS = 2, /* make missing directories */
};

/* What IDENTITY sets. Its members and strings are always all present, used or not. */
enum wire_identity_flag {
	WIRE_IDENTITY_CLOCK = 1,
	WIRE_IDENTITY_RANDOM = 2,
	WIRE_IDENTITY_HOSTNAME = 4,
	WIRE_IDENTITY_MACHINE = 8, /* machine id, SSH host keys */
	WIRE_IDENTITY_NICS = 16,
	WIRE_IDENTITY_RENEW = 32, /* ask DHCP servers again, at once */
	WIRE_IDENTITY_ADDRESSED =
		64, /* fails with EAGAIN while a NIC of the guest has no address */
	WIRE_IDENTITY_ALL = 127,
};
enum { WIRE_NICS_MAX = 32, WIRE_KEYS_MAX = 3, WIRE_RANDOM_MAX = 1024 };

enum wire_stream { WIRE_STDOUT = 1, WIRE_STDERR = 2, WIRE_BODY = 3 };

enum wire_how {
	WIRE_EXITED,   /* code: exit status */
	WIRE_SIGNALED, /* code: signal */
	/* the command never ran; code: errno */
	WIRE_NO_USER,
	WIRE_NO_CWD,
	WIRE_NO_EXEC,
	WIRE_HOW_COUNT
};

/* The members of all types; zero where a type does not use one. mode 0 in WRITE and MKDIR: 0644 and
 * 0755 for what is new. */
struct wire_msg {
	enum wire_type type;
	uint32_t id;
	uint32_t flags, timeout_ms, count, count2, code, mode;
	uint16_t rows, cols;
	uint8_t stream, how, timed_out;
	uint32_t version;
	uint64_t max, size, size2;
	uint8_t nonce[WIRE_NONCE];
};

extern const struct frame_limits wire_to_guest, wire_to_host;

/* Writes the head; returns its length (at most WIRE_HEAD_MAX). */
size_t wire_encode(const struct wire_msg *m, uint8_t out[WIRE_HEAD_MAX]);
/* false: unknown type, wrong length, or a value out of range. */
bool wire_decode(const uint8_t *p, size_t len, struct wire_msg *ret);

/* Takes the next NUL-terminated string off a body; NULL when there is none. */
const char *wire_next_string(const uint8_t **p, size_t *left);

/*
 * One entry of LIST: mode (4), size (8), mtime in seconds (8), name NUL, link target NUL (empty if
 * it is no link). mode is as in stat(2). wire_next_entry: 1 and the entry; 0 if the bytes end
 * inside the entry (keep them for the next DATA); -1 if it is over the limits.
 */
struct wire_entry {
	uint32_t mode;
	uint64_t size;
	int64_t mtime;
	const char *name, *target;
};
enum { WIRE_ENTRY_MAX = 4096 + 256 + 32 };
size_t wire_put_entry(
	const struct wire_entry *entry, uint8_t out[WIRE_ENTRY_MAX]); /* 0: does not fit */
int wire_next_entry(const uint8_t **p, size_t *left, struct wire_entry *ret);
