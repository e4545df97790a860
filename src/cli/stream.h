/* stream.h - passes output that the daemon sends to stdout and stderr, and reads stdin. */
#pragma once

#include "cli/cli.h"

/* Zero-initialise all but cli to pass everything on. */
struct stream {
	struct cli *cli;
	bool raw;  /* the command has our terminal: escape nothing */
	bool keep; /* keep the output in `kept`, for --json */
	struct tty_filter filters[2];
	struct buf kept[2]; /* [0]: stdout and body; [1]: stderr */
};
void stream_free(struct stream *s);
#define auto_stream __attribute__((cleanup(stream_free)))

/* For call.data; arg is the struct stream. */
int stream_data(void *arg, enum call_stream stream, struct bytes data, struct err *e);
/* Prints the incomplete characters that the filters still hold. */
int stream_end(struct stream *s, struct err *e);
/* Adds kept output to an object: as text, or as NAME_base64 if it is not UTF-8. */
int stream_to_json(const struct buf *kept, json_t *into, const char *name, struct err *e);
/* Reads standard input to its end. More than max bytes are ERR_LIMIT. NUL-terminated. */
int read_stdin(size_t max, char **ret, size_t *ret_len, struct err *e);
