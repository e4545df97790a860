/* stream.h - bytes that the daemon sends, on their way to stdout and stderr. */
#pragma once

#include "cli/cli.h"

/* Zero-initialised but for cli: straight through. */
struct stream {
	struct cli *cli;
	bool raw;  /* the terminal belongs to the guest: nothing is escaped */
	bool keep; /* keep it for --json instead */
	struct tty_filter filters[2];
	struct buf kept[2]; /* stdout and body; stderr */
};
void stream_free(struct stream *s);
#define auto_stream __attribute__((cleanup(stream_free)))

/* For call.data, with the stream as its arg. */
int stream_data(void *arg, enum call_stream stream, struct bytes data, struct err *e);
/* What the filters still hold back. */
int stream_end(struct stream *s, struct err *e);
/* Adds what was kept to an object: as text, or as NAME_base64 if it is not UTF-8. */
int stream_to_json(const struct buf *kept, json_t *into, const char *name, struct err *e);
