/* proto.h - the numbers of the client protocol, which docs/protocol.md describes. The Python client
 * has the same numbers. Only constants. */
#pragma once

#define PROTO_VERSION 1 /* increase it when an older client would misunderstand the daemon */

enum {
	PROTO_JSON_MAX = 4 * 1024 * 1024,
	PROTO_BLOB_MAX = 1024 * 1024,
	PROTO_WINDOW = 1024 * 1024, /* input bytes of a request that may be sent without credit */
	PROTO_REQUESTS_MAX = 256,   /* open requests per connection */
	PROTO_CONNECTIONS_MAX = 128,
	PROTO_PIECE = 256 * 1024, /* bytes that the daemon puts into one data frame */
};
